------------------------------ MODULE Election ------------------------------
(* FastLeaderElection, and the beginning and end of every role.

   A notification is modelled as one server reading the vote of another. Rounds are omitted, so
   votes of an earlier round count too. With AnyLeader, a server becomes leader without any vote:
   discovery, synchronisation and broadcast must be safe with each leader. *)
EXTENDS Member

NoVotes == [t \in Server |-> <<>>]

OwnVote(s, d) == <<d.current, LogEnd(d), s>>

IsBetter(a, b) ==
    \/ a[1] > b[1]
    \/ a[1] = b[1] /\ a[2] > b[2]
    \/ a[1] = b[1] /\ a[2] = b[2] /\ a[3] > b[3]

\* The server begins a round with a vote for itself.
Look(s, d) ==
    /\ vote' = [vote EXCEPT ![s] = IF AnyLeader THEN <<>> ELSE OwnVote(s, d)]
    /\ recvset' = [recvset EXCEPT ![s] = NoVotes]

\* s receives the vote of t. A vote of a looking server may be better than the own vote.
ReceiveNotification(s, t) ==
    /\ ~AnyLeader
    /\ s # t
    /\ role[s] = "LOOKING"
    /\ role[t] # "DOWN"
    /\ vote[t] # <<>>
    /\ recvset[s][t] # vote[t]
    /\ recvset' = [recvset EXCEPT ![s][t] = vote[t]]
    /\ vote' = IF role[t] = "LOOKING" /\ IsBetter(vote[t], vote[s])
               THEN [vote EXCEPT ![s] = vote[t]] ELSE vote
    /\ UNCHANGED <<disk, role, treeVars, learner, leader, msgs, ghostVars, spent>>

\* Servers whose votes agree with the own vote of s.
Supporters(s) == {s} \union {t \in Server : recvset[s][t] = vote[s]}

\* Servers that named the leader l to s.
Followers(s, l) == {t \in Server : recvset[s][t] # <<>> /\ recvset[s][t][3] = l}

IsElected(s, l) ==
    IF AnyLeader THEN TRUE
    ELSE IF vote[s][3] = l /\ IsQuorum(Supporters(s)) THEN TRUE
    ELSE s # l /\ role[l] = "LEADING" /\ recvset[s][l] # <<>> /\ IsQuorum(Followers(s, l))

\* s becomes the leader. It knows no epoch after `epoch`, except from learners.
DecideLeading(s, epoch) ==
    /\ role[s] = "LOOKING"
    /\ IsElected(s, s)
    /\ epoch > disk[s].accepted
    /\ spent.elections < MaxElections
    /\ spent' = [spent EXCEPT !.elections = @ + 1]
    /\ role' = [role EXCEPT ![s] = "LEADING"]
    /\ leader' = [leader EXCEPT ![s] =
          [NotLeading EXCEPT !.phase = IF IsQuorum({s}) THEN "PROMISING" ELSE "DISCOVERY",
                             !.epoch = epoch, !.heard = {s}]]
    /\ recvset' = [recvset EXCEPT ![s] = NoVotes]
    /\ UNCHANGED <<disk, treeVars, learner, msgs, vote, ghostVars>>

\* s follows l.
DecideFollowing(s, l) ==
    /\ role[s] = "LOOKING"
    /\ s # l
    /\ IsElected(s, l)
    /\ role' = [role EXCEPT ![s] = "FOLLOWING"]
    /\ learner' = [learner EXCEPT ![s].leader = l]
    /\ vote' = IF AnyLeader \/ vote[s][3] = l THEN vote
               ELSE [vote EXCEPT ![s] = recvset[s][l]]
    /\ recvset' = [recvset EXCEPT ![s] = NoVotes]
    /\ UNCHANGED <<disk, treeVars, leader, msgs, ghostVars, spent>>
-----------------------------------------------------------------------------
(* The end of a role.

   The server waits for its disk, and then applies all appended transactions, because a restart
   would do so, too. *)
HasUnsavedTree(s) ==
    learner[s].needsSnapshot /\ learner[s].stage \in {"RECEIVING", "CUT", "SNAPSHOT"}

Drain(s) ==
    LET d == [disk[s] EXCEPT !.synced = Len(disk[s].log),
                             !.known = IF HasUnsavedTree(s) THEN disk[s].snapshot.zxid ELSE @]
    IN /\ disk' = [disk EXCEPT ![s] = d]
       /\ IF HasUnsavedTree(s) THEN ReplaceTree(s, RecoveredTree(d), LogEnd(d))
          ELSE ApplyUnestablished(s, SelectSeq(After(d.log, end[s]),
                                               LAMBDA txn : txn \notin Range(tree[s])))
       /\ role' = [role EXCEPT ![s] = "LOOKING"]
       /\ Look(s, d)

\* The connections of a leader that ends.
LeaderEnds(l) ==
    /\ leader'  = [leader EXCEPT ![l] = NotLeading]
    /\ msgs'    = [f \in Server |-> [msgs[f] EXCEPT ![l] = <<>>]]

\* A leader closes its connections: it has lost its quorum, or nobody follows it.
StepDown(l) ==
    /\ role[l] = "LEADING"
    /\ spent.timeouts < MaxTimeouts
    /\ spent' = [spent EXCEPT !.timeouts = @ + 1]
    /\ Drain(l)
    /\ LeaderEnds(l)
    /\ learner' = ClosedByLeader(l, learner)
    /\ UNCHANGED ghostVars

MustLeave(f) ==
    LET l == learner[f].leader
    IN \/ learner[f].stage = "NONE" /\ role[l] # "LEADING"
       \/ learner[f].stage # "NONE" /\ ~learner[f].open
       \/ FirstIs(l, f, "LEADERINFO") /\ Head(msgs[l][f])[2] < disk[f].accepted

\* The connections of a follower that ends. The leader does not know about it yet.
FollowerEnds(f, failedIn) ==
    LET l == learner[f].leader
    IN /\ learner' = [learner EXCEPT ![f] = NoLearner(failedIn)]
       /\ msgs' = [msgs EXCEPT ![l][f] = <<>>,
                               ![f][l] = IF leader[l].link[f] = "NONE" THEN <<>>
                                         ELSE WithoutIntroduction(@)]
       /\ leader' = IF leader[l].link[f] = "NONE" THEN leader
                    ELSE [leader EXCEPT ![l].stale = @ \union {f}]

\* A follower closes its connection, and looks for a leader.
LeaveLeader(f) ==
    /\ role[f] = "FOLLOWING"
    /\ \/ MustLeave(f) /\ UNCHANGED spent
       \/ /\ ~MustLeave(f)
          /\ spent.timeouts < MaxTimeouts
          /\ spent' = [spent EXCEPT !.timeouts = @ + 1]
    /\ Drain(f)
    /\ FollowerEnds(f, learner[f].failedIn)
    /\ UNCHANGED ghostVars

\* The leader notices that a connection has ended, or ends it.
DropLearner(l, f) ==
    /\ role[l] = "LEADING"
    /\ leader[l].link[f] # "NONE"
    /\ LET isStale == f \in leader[l].stale
       IN /\ IF isStale THEN UNCHANGED <<learner, spent>>
             ELSE /\ spent.timeouts < MaxTimeouts
                  /\ spent' = [spent EXCEPT !.timeouts = @ + 1]
                  /\ learner' = [learner EXCEPT ![f].open = FALSE]
          /\ leader' = [leader EXCEPT ![l].link[f] = "NONE", ![l].ack[f] = 0,
                                      ![l].stale = @ \ {f}]
          /\ msgs' = [msgs EXCEPT ![f][l] =
                IF isStale THEN SelectSeq(@, LAMBDA p : p[1] = "FOLLOWERINFO") ELSE <<>>]
    /\ UNCHANGED <<disk, role, treeVars, electionVars, ghostVars>>
-----------------------------------------------------------------------------
(* Crash and restart. *)

\* The process ends, or the machine loses power and with it records that were not synced.
Crash(s, kept) ==
    /\ role[s] # "DOWN"
    /\ spent.crashes < MaxCrashes
    /\ kept \in disk[s].synced .. Len(disk[s].log)
    /\ spent' = [spent EXCEPT !.crashes = @ + 1]
    /\ disk' = [disk EXCEPT ![s].log = SubSeq(@, 1, kept), ![s].synced = kept]
    /\ role' = [role EXCEPT ![s] = "DOWN"]
    /\ tree' = [tree EXCEPT ![s] = <<>>]
    /\ end' = [end EXCEPT ![s] = 0]
    /\ established' = [established EXCEPT ![s] = FALSE]
    /\ writing' = [writing EXCEPT ![s] = NoSnapshot]
    /\ vote' = [vote EXCEPT ![s] = <<>>]
    /\ recvset' = [recvset EXCEPT ![s] = NoVotes]
    /\ CASE role[s] = "LEADING" ->
              LeaderEnds(s) /\ learner' = ClosedByLeader(s, learner)
         [] role[s] = "FOLLOWING" -> FollowerEnds(s, 0)
         [] OTHER -> /\ learner' = [learner EXCEPT ![s] = NoLearner(0)]
                     /\ UNCHANGED <<leader, msgs>>
    /\ UNCHANGED ghostVars

Restart(s) ==
    /\ role[s] = "DOWN"
    /\ LET d == RecoveredDisk(disk[s])
       IN /\ disk' = [disk EXCEPT ![s] = d]
          /\ tree' = [tree EXCEPT ![s] = RecoveredTree(disk[s])]
          /\ end'  = [end EXCEPT ![s] = LogEnd(d)]
          /\ Look(s, d)
    /\ role' = [role EXCEPT ![s] = "LOOKING"]
    /\ UNCHANGED <<established, writing, learner, leader, msgs, ghostVars, spent>>
=============================================================================
