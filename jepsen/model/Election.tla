------------------------------ MODULE Election ------------------------------
(* FastLeaderElection, and the beginning and end of every role.

   A notification is modelled as one server reading the vote of another. Rounds are omitted, so
   votes of an earlier round count too. With AnyLeader, a server becomes leader without any vote:
   discovery, synchronisation and broadcast must be safe with each leader. *)
EXTENDS Member

NoVotes == [t \in Server |-> <<>>]

Electorate(s) == disk[s].lists.config.voters \union NextOf(disk[s].lists).voters

Decides(s, servers) == HasQuorums(disk[s].lists.config, NextOf(disk[s].lists), servers)

\* A server that only the proposed configuration contains.
IsNewcomer(s) == s \in NextOf(disk[s].lists).voters \ disk[s].lists.config.voters

Nobody == 0

\* A server without a vote in the committed configuration does not propose itself.
OwnVote(s, d) == <<d.current, LogEnd(d), IF s \in d.lists.config.voters THEN s ELSE Nobody>>

\* The vote of a server that a reconfiguration makes the leader, or a follower of l.
Appointment(l) == <<NoEpoch, NoEpoch, l>>

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
    /\ vote[t][3] \in Electorate(s)
    /\ recvset[s][t] # vote[t]
    /\ recvset' = [recvset EXCEPT ![s][t] = vote[t]]
    /\ vote' = IF role[t] = "LOOKING" /\ IsBetter(vote[t], vote[s])
               THEN [vote EXCEPT ![s] = vote[t]] ELSE vote
    /\ UNCHANGED <<disk, role, treeVars, learner, leader, msgs, ghostVars, spent>>

\* Servers whose votes agree with the own vote of s.
Supporters(s) == {s} \union {t \in Server : recvset[s][t] = vote[s]}

\* Servers that named the leader l to s.
Followers(s, l) == {t \in Server : recvset[s][t] # <<>> /\ recvset[s][t][3] = l}

\* Of a server without a vote, the followers of a leader need not be a quorum of the proposed
\* configuration, which may have been abandoned.
IsSettled(s, l) ==
    /\ s # l
    /\ role[l] = "LEADING"
    /\ recvset[s][l] # <<>>
    /\ IF s \in disk[s].lists.config.voters THEN Decides(s, Followers(s, l))
       ELSE HasQuorum(disk[s].lists.config, Followers(s, l))

\* A leader with another list that is not older, which a looking server hears of. The leader's own
\* answer counts, and a follower's if its leader is not asked itself.
HasOtherList(s, t) ==
    LET ours == disk[s].lists.config
        theirs == disk[t].lists.config
    IN /\ ours.voters # theirs.voters
       /\ ~(theirs.version > 0 /\ ours.version > theirs.version)

Witnesses(s) ==
    {t \in Electorate(s) \ {s} :
        /\ HasOtherList(s, t)
        /\ \/ role[t] = "LEADING"
           \/ role[t] = "FOLLOWING" /\ learner[t].leader \notin Electorate(s)}

\* The membership guard: no second leader while a leader with another list answers.
IsRefusedByGuard(s) == Witnesses(s) # {} /\ ~Is("GuardRemoved")

IsElected(s, l) ==
    IF AnyLeader THEN TRUE
    ELSE IF vote[s] = Appointment(l) THEN TRUE
    ELSE \/ vote[s][3] = l /\ Decides(s, Supporters(s)) /\ ~IsRefusedByGuard(s)
         \/ IsSettled(s, l)

\* A newcomer votes for a shorter log if its voters must have everything that can be committed.
VoteForShorterLog(s, t) ==
    /\ ~AnyLeader
    /\ role[s] = "LOOKING"
    /\ IsNewcomer(s)
    /\ recvset[s][t] # <<>>
    /\ ~IsBetter(vote[s], OwnVote(s, disk[s]))
    /\ LET ballot == recvset[s][t]
           next == NextOf(disk[s].lists)
           agreeing == {v \in disk[s].lists.config.voters : recvset[s][v] = ballot}
       IN /\ ~IsBetter(ballot, OwnVote(s, disk[s]))
          /\ HasQuorum(disk[s].lists.config, agreeing)
          /\ ~HasQuorum(next, next.voters \ agreeing)
          /\ vote[s] # ballot
          /\ vote' = [vote EXCEPT ![s] = ballot]
    /\ UNCHANGED <<disk, role, treeVars, learner, leader, msgs, recvset, ghostVars, spent>>

\* The voters agree, but need the vote of a newcomer that cannot vote for their candidate.
BecomeCandidate(s, t) ==
    /\ ~AnyLeader
    /\ role[s] = "LOOKING"
    /\ IsNewcomer(s)
    /\ vote[s][3] = Nobody
    /\ recvset[s][t] # <<>>
    /\ LET agreeing == {v \in Server : recvset[s][v] = recvset[s][t]}
       IN /\ HasQuorum(disk[s].lists.config, agreeing)
          /\ ~HasQuorum(NextOf(disk[s].lists), agreeing)
    /\ vote' = [vote EXCEPT ![s] = <<disk[s].current, LogEnd(disk[s]), s>>]
    /\ UNCHANGED <<disk, role, treeVars, learner, leader, msgs, recvset, ghostVars, spent>>

\* A looking server adopts the newer committed configuration of another server.
InstallConfig(s, t) ==
    /\ role[s] = "LOOKING"
    /\ role[t] # "DOWN"
    /\ disk[t].lists.config.version > disk[s].lists.config.version
    /\ disk' = [disk EXCEPT ![s] = Install(@, disk[t].lists.config)]
    /\ disk'[s] # disk[s]
    /\ UNCHANGED <<role, treeVars, learner, leader, msgs, electionVars, ghostVars, spent>>

\* s becomes the leader. It knows no epoch after `epoch`, except from learners.
DecideLeading(s, epoch) ==
    /\ role[s] = "LOOKING"
    /\ s \in Electorate(s)
    /\ IsElected(s, s)
    /\ epoch > disk[s].accepted
    /\ spent.elections < MaxElections
    /\ spent' = [spent EXCEPT !.elections = @ + 1]
    /\ role' = [role EXCEPT ![s] = "LEADING"]
    /\ leader' = [leader EXCEPT ![s] =
          [NotLeading EXCEPT !.phase = IF Decides(s, {s}) THEN "PROMISING" ELSE "DISCOVERY",
                             !.epoch = epoch, !.heard = {s},
                             !.quorum = disk[s].lists.config, !.next = NextOf(disk[s].lists),
                             !.version = disk[s].lists.config.version]]
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

DrainWith(s, onDisk, appointed) ==
    LET d == [Saved(onDisk) EXCEPT !.synced = Len(onDisk.log),
                             !.known = IF HasUnsavedTree(s) THEN disk[s].snapshot.zxid ELSE @]
    IN /\ disk' = [disk EXCEPT ![s] = d]
       /\ IF HasUnsavedTree(s) THEN ReplaceTree(s, RecoveredTree(d), LogEnd(d))
          ELSE ApplyUnestablished(s, SelectSeq(After(d.log, end[s]),
                                               LAMBDA txn : txn \notin Range(tree[s])))
       /\ role' = [role EXCEPT ![s] = "LOOKING"]
       /\ IF appointed = NoServer \/ AnyLeader THEN Look(s, d)
          ELSE /\ vote' = [vote EXCEPT ![s] = Appointment(appointed)]
               /\ recvset' = [recvset EXCEPT ![s] = NoVotes]

Drain(s) == DrainWith(s, disk[s], NoServer)

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

\* A reconfiguration, or an epoch that begins with one, has designated another leader.
HandOver(l) ==
    /\ role[l] = "LEADING"
    /\ leader[l].designated # NoServer
    /\ DrainWith(l, disk[l], leader[l].designated)
    /\ LeaderEnds(l)
    /\ learner' = ClosedByLeader(l, learner)
    /\ UNCHANGED <<ghostVars, spent>>

MustLeave(f) ==
    LET l == learner[f].leader
    IN \/ learner[f].stage = "NONE" /\ role[l] # "LEADING"
       \/ learner[f].stage # "NONE" /\ ~learner[f].open
       \/ FirstIs(l, f, "LEADERINFO") /\ Head(msgs[l][f])[2] < disk[f].accepted

\* The connections of a follower that ends. The leader does not know about it yet. Before the follower
\* has connected, only packets that it has sent as the leader of l are in flight.
FollowerEnds(f, failedIn) ==
    LET l == learner[f].leader
    IN /\ learner' = [learner EXCEPT ![f] = NoLearner(failedIn)]
       /\ msgs' = [msgs EXCEPT ![l][f] = <<>>,
                               ![f][l] = IF learner[f].stage = "NONE" THEN @
                                         ELSE IF leader[l].link[f] = "NONE" THEN <<>>
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

\* A configuration that NEWLEADER has discarded is in the files until the log is cut.
KeepsDiscarded(s, lists) ==
    learner[s].stage = "CUT" => lists.seen.version >= disk[s].saved.seen.version

\* The process ends, or the machine loses power and with it records that were not synced.
Crash(s, kept, lists) ==
    /\ role[s] # "DOWN"
    /\ spent.crashes < MaxCrashes
    /\ kept \in disk[s].synced .. Len(disk[s].log)
    /\ lists \in FileLists(disk[s])
    \* The files contain a proposed configuration before the log contains its proposal.
    /\ \/ lists = disk[s].lists
       \/ \A txn \in Range(SubSeq(disk[s].log, disk[s].synced + 1, kept)) :
             IsReconfig(txn) => ZxidOf(txn) <= lists.seen.version
    /\ KeepsDiscarded(s, lists)
    /\ spent' = [spent EXCEPT !.crashes = @ + 1]
    /\ disk' = [disk EXCEPT ![s].log = SubSeq(@, 1, kept), ![s].synced = kept,
                            ![s].lists = lists, ![s].saved = lists, ![s].between = {}]
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
