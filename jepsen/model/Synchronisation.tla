--------------------------- MODULE Synchronisation ---------------------------
(* Discovery and synchronisation: a leader chooses an epoch, its learners receive its log, and the
   epoch is established. *)
EXTENDS Election

\* The epoch begins with the newest configuration that the leader has seen. A list without a version
\* receives the epoch as its version.
EpochConfig(l) ==
    LET seen == disk[l].lists.seen
    IN IF Reconfigurable /\ seen.version = 0
       THEN [version |-> Zxid(leader[l].epoch, 0), voters |-> seen.voters] ELSE seen

\* Whether the leader's log reaches the configuration with which the epoch begins.
HasLoggedConfig(l) == EpochConfig(l).version <= LogEnd(disk[l])

\* A quorum of the proposed configuration alone may have committed transactions, so it must accept the
\* epoch, too. If the leader has not logged the proposal, the quorum in force shows that it is not
\* committed.
IsEpochAccepted(l, servers) ==
    IF HasLoggedConfig(l) /\ ~Is("EpochByOldList") THEN LeaderHasQuorum(leader[l], servers)
    ELSE HasQuorum(leader[l].quorum, servers)

\* The follower has connected, and introduces itself. It may know an epoch after its own promise,
\* from an earlier leader.
SendFOLLOWERINFO(f, l, accepted) ==
    /\ IsLearnerOf(f, l)
    /\ learner[f].stage = "NONE"
    /\ role[l] = "LEADING"
    /\ accepted >= disk[f].accepted
    /\ leader[l].link[f] = "NONE" \/ f \in leader[l].stale
    /\ learner' = [learner EXCEPT ![f].stage = "FOLLOWERINFO", ![f].open = TRUE]
    /\ msgs' = [msgs EXCEPT ![l][f] = <<>>,
                            ![f][l] = Append(@, <<"FOLLOWERINFO", accepted,
                                                  disk[f].lists.config.version>>)]
    /\ UNCHANGED <<disk, role, treeVars, leader, electionVars, ghostVars, spent>>

\* While the epoch is not fixed, each learner can raise it. A quorum fixes it. An older connection
\* of the learner is dropped. A learner with a newer configuration is refused.
ReceiveFOLLOWERINFO(l, f) ==
    /\ role[l] = "LEADING"
    /\ FirstIs(f, l, "FOLLOWERINFO")
    /\ LET lead == leader[l]
           accepted == Head(msgs[f][l])[2]
           isOpen == lead.phase = "DISCOVERY"
           heard == IF isOpen THEN lead.heard \union {f} ELSE lead.heard
           waits == lead.phase \in {"DISCOVERY", "PROMISING"}
           packets == Consumed(msgs, f, l)
       IN IF Head(msgs[f][l])[3] > lead.version
          THEN /\ learner' = [learner EXCEPT ![f].open = FALSE]
               /\ msgs' = packets
               /\ UNCHANGED leader
          ELSE
          /\ UNCHANGED learner
          /\ leader' = [leader EXCEPT ![l] =
                [lead EXCEPT !.epoch = IF isOpen THEN Max(@, accepted + 1) ELSE @,
                             !.heard = heard,
                             !.phase = IF isOpen /\ LeaderHasQuorum(lead, heard) THEN "PROMISING" ELSE @,
                             !.link[f] = IF waits THEN "EPOCH" ELSE "ACKEPOCH",
                             !.ack[f] = 0,
                             !.stale = @ \ {f}]]
          /\ msgs' = IF waits THEN packets ELSE Sent(packets, l, f, <<<<"LEADERINFO", lead.epoch>>>>)
    /\ UNCHANGED <<disk, role, treeVars, electionVars, ghostVars, spent>>

\* The leader's promise is on disk, and it announces the epoch.
SendLEADERINFO(l) ==
    /\ role[l] = "LEADING"
    /\ leader[l].phase = "PROMISING"
    /\ disk' = IF Is("AcceptedEpochNotSaved") THEN disk
               ELSE [disk EXCEPT ![l] = See(Saved([@ EXCEPT !.accepted = leader[l].epoch]),
                                            EpochConfig(l))]
    /\ msgs' = SentToLinks(msgs, l, {"EPOCH"}, <<<<"LEADERINFO", leader[l].epoch>>>>)
    /\ leader' = [leader EXCEPT
                  ![l].config = EpochConfig(l),
                  ![l].acked = IF IsEpochAccepted(l, {l}) THEN {} ELSE {l},
                  ![l].phase = IF IsEpochAccepted(l, {l}) THEN "SYNCHRONIZATION" ELSE "ACKEPOCH",
                  ![l].link = [f \in Server |-> IF @[f] = "EPOCH" THEN "ACKEPOCH" ELSE @[f]]]
    /\ UNCHANGED <<role, treeVars, learner, electionVars, ghostVars, spent>>

\* The follower saves its promise, and then acknowledges the epoch. A promise that is older than
\* this connection does not count.
SendACKEPOCH(f, l) ==
    /\ IsLearnerOf(f, l)
    /\ learner[f].stage = "FOLLOWERINFO"
    /\ FirstIs(l, f, "LEADERINFO")
    /\ LET epoch == Head(msgs[l][f])[2]
           isNew == epoch > disk[f].accepted
           zxid == IF learner[f].failedIn = epoch /\ ~isNew THEN 0 ELSE LogEnd(disk[f])
           current == IF isNew THEN disk[f].current ELSE NoEpoch
       IN /\ epoch >= disk[f].accepted
          /\ disk' = IF Is("AcceptedEpochNotSaved") THEN disk
                     ELSE [disk EXCEPT ![f] = Saved([@ EXCEPT !.accepted = epoch])]
          /\ learner' = [learner EXCEPT ![f].stage = "ACKEPOCH", ![f].epoch = epoch]
          /\ msgs' = SentToLeader(Consumed(msgs, l, f), f, l, <<<<"ACKEPOCH", zxid, current>>>>)
    /\ UNCHANGED <<role, treeVars, leader, electionVars, ghostVars, spent>>

\* The leader's log contains everything that was committed in this epoch, although a learner has
\* logged more of it: the rest follows the proposed configuration, of which no quorum has it.
HasAllCommittedIn(l, epoch) ==
    LET lead == leader[l]
    IN /\ lead.next # NoConfig
       /\ epoch = disk[l].current
       /\ HasLoggedConfig(l)
       /\ ~HasQuorum(lead.next, lead.next.voters \ lead.acked)

\* The leader refuses a learner with a longer log as long as no quorum has accepted the epoch.
ReceiveACKEPOCH(l, f) ==
    /\ role[l] = "LEADING"
    /\ leader[l].link[f] = "ACKEPOCH"
    /\ FirstIs(f, l, "ACKEPOCH")
    /\ LET lead == leader[l]
           zxid == Head(msgs[f][l])[2]
           current == Head(msgs[f][l])[3]
           isOpen == lead.phase = "ACKEPOCH"
           isAhead == \/ current > disk[l].current
                      \/ current = disk[l].current /\ zxid > LogEnd(disk[l])
           acked == IF isOpen /\ current # NoEpoch THEN lead.acked \union {f} ELSE lead.acked
           packets == Consumed(msgs, f, l)
       IN IF /\ isOpen /\ current # NoEpoch /\ isAhead /\ ~Is("HistoryAheadAccepted")
             /\ ~HasAllCommittedIn(l, current)
          THEN /\ leader' = [leader EXCEPT ![l].link[f] = "NONE", ![l].stale = @ \ {f}]
               /\ learner' = IF f \in lead.stale THEN learner
                             ELSE [learner EXCEPT ![f].open = FALSE]
               /\ msgs' = IF f \in lead.stale THEN packets ELSE [packets EXCEPT ![f][l] = <<>>]
          ELSE /\ leader' = [leader EXCEPT ![l] =
                     [lead EXCEPT !.link[f] = "SYNC", !.peer[f] = zxid,
                                  !.phase = IF isOpen /\ IsEpochAccepted(l, acked)
                                            THEN "SYNCHRONIZATION" ELSE @,
                                  !.acked = IF isOpen /\ IsEpochAccepted(l, acked) THEN {}
                                            ELSE acked]]
               /\ msgs' = packets
               /\ UNCHANGED learner
    /\ UNCHANGED <<disk, role, treeVars, electionVars, ghostVars, spent>>
-----------------------------------------------------------------------------
(* The choice between DIFF, TRUNC and SNAP. *)
LeaderEnd(l) == IF leader[l].phase = "BROADCAST" THEN end[l] ELSE LogEnd(disk[l])

\* The transactions that learners receive as committed. The leader has the newest of them in memory.
History(l) == UpTo(tree[l], LeaderEnd(l))

Outstanding(l) == After(disk[l].log, LeaderEnd(l))

IsEpochStart(zxid) == CounterOf(zxid) = 0

Snap == <<"SNAP", 0>>

PlansFor(l, peer) ==
    LET history == History(l)
        last == LeaderEnd(l)
        max == IF history = <<>> THEN last ELSE ZxidOf(Last(history))
        min == IF history = <<>> THEN last ELSE ZxidOf(Head(history))
        before == UpTo(history, peer)
        next == After(history, peer)
        plan == IF peer = last THEN <<"DIFF", peer>>
                ELSE IF peer > max /\ ~IsEpochStart(peer)
                THEN IF IsEpochStart(max) /\ max # 0 THEN Snap ELSE <<"TRUNC", max>>
                ELSE IF peer < min \/ peer > max THEN Snap
                ELSE IF IsEpochStart(peer) \/ (before # <<>> /\ ZxidOf(Last(before)) = peer)
                THEN <<"DIFF", peer>>
                ELSE IF before # <<>> /\ next # <<>>
                        /\ EpochOf(ZxidOf(Head(next))) = EpochOf(peer)
                THEN <<"TRUNC", ZxidOf(Last(before))>>
                ELSE Snap
    IN {plan} \union (IF ShortMemory THEN {Snap} ELSE {})

RECURSIVE CommittedPackets(_)
CommittedPackets(txns) ==
    IF txns = <<>> THEN <<>>
    ELSE <<<<"PROPOSAL", Head(txns)>>, <<"COMMIT", ZxidOf(Head(txns))>>>>
         \o CommittedPackets(Tail(txns))

Proposals(txns) == [i \in DOMAIN txns |-> <<"PROPOSAL", txns[i]>>]

SyncPackets(l, plan) ==
    LET missed == After(History(l), plan[2])
        new == <<<<"NEWLEADER", leader[l].epoch, leader[l].config>>>>
        \* A learner treats the configuration in NEWLEADER as the last one seen.
        rest == IF leader[l].reconfig # 0 THEN new \o Proposals(Outstanding(l))
                ELSE Proposals(Outstanding(l)) \o new
        skipped == IF Is("DiffFromWrongPoint") /\ missed # <<>> THEN Tail(missed) ELSE missed
    IN IF plan = Snap THEN <<<<"SNAP", LeaderEnd(l), tree[l]>>>> \o rest
       ELSE <<plan>> \o CommittedPackets(IF plan[1] = "DIFF" THEN skipped ELSE missed) \o rest

\* The leader sends the log that the learner lacks, all proposals, and NEWLEADER.
SyncFollower(l, f, plan) ==
    /\ role[l] = "LEADING"
    /\ leader[l].phase \in {"SYNCHRONIZATION", "BROADCAST"}
    /\ leader[l].link[f] = "SYNC"
    /\ plan \in PlansFor(l, leader[l].peer[f])
    /\ msgs' = SentToLearner(msgs, l, f, SyncPackets(l, plan))
    /\ leader' = [leader EXCEPT ![l].link[f] = "NEWLEADER", ![l].ack[f] = 0]
    /\ UNCHANGED <<disk, role, treeVars, learner, electionVars, ghostVars, spent>>
-----------------------------------------------------------------------------
(* The learner between DIFF, TRUNC or SNAP and UPTODATE. *)
Synchronising == {"RECEIVING", "CUT", "SNAPSHOT", "LOG", "EPOCH", "ACKED"}

NeedsSnapshot(f) == learner[f].failedIn = learner[f].epoch

Receiving(f, needsSnapshot) ==
    [learner EXCEPT ![f].stage = "RECEIVING", ![f].needsSnapshot = needsSnapshot]

ReceiveDIFF(f, l) ==
    /\ IsLearnerOf(f, l)
    /\ learner[f].stage = "ACKEPOCH"
    /\ FirstIs(l, f, "DIFF")
    /\ ~NeedsSnapshot(f)
    /\ learner' = Receiving(f, FALSE)
    /\ msgs' = Consumed(msgs, l, f)
    /\ UNCHANGED <<disk, role, treeVars, leader, electionVars, ghostVars, spent>>

\* The learner cuts its log and loads its tree again. If its files do not reach back so far, it
\* leaves, and needs a snapshot.
CutsTo(f, l, before) ==
    /\ IsLearnerOf(f, l)
    /\ learner[f].stage = "ACKEPOCH"
    /\ FirstIs(l, f, "TRUNC")
    /\ ~NeedsSnapshot(f)
    /\ LET zxid == Head(msgs[l][f])[2]
           d == Truncated(before, zxid)
       IN IF Is("SkipTruncate")
          THEN /\ learner' = Receiving(f, FALSE)
               /\ msgs' = Consumed(msgs, l, f)
               /\ UNCHANGED <<disk, role, treeVars, leader, electionVars>>
          ELSE IF CanTruncate(before, zxid)
          THEN /\ disk' = [disk EXCEPT ![f] = d]
               /\ IF Is("TreeKeptOverTruncate")
                  THEN end' = [end EXCEPT ![f] = zxid] /\ UNCHANGED <<tree, established, writing>>
                  ELSE ReplaceTree(f, RecoveredTree(d), LogEnd(d))
               /\ learner' = Receiving(f, TRUE)
               /\ msgs' = Consumed(msgs, l, f)
               /\ UNCHANGED <<role, leader, electionVars>>
          ELSE Drain(f) /\ FollowerEnds(f, learner[f].epoch)
    /\ UNCHANGED <<ghostVars, spent>>

ReceiveTRUNC(f, l) == CutsTo(f, l, disk[f])

\* A learner that needs a snapshot refuses DIFF and TRUNC.
RefuseSync(f, l) ==
    /\ IsLearnerOf(f, l)
    /\ learner[f].stage = "ACKEPOCH"
    /\ FirstIs(l, f, "DIFF") \/ FirstIs(l, f, "TRUNC")
    /\ NeedsSnapshot(f)
    /\ Drain(f)
    /\ FollowerEnds(f, learner[f].failedIn)
    /\ UNCHANGED <<ghostVars, spent>>

ReceiveSNAP(f, l) ==
    /\ IsLearnerOf(f, l)
    /\ learner[f].stage = "ACKEPOCH"
    /\ FirstIs(l, f, "SNAP")
    /\ ReplaceTree(f, Head(msgs[l][f])[3], Head(msgs[l][f])[2])
    /\ learner' = Receiving(f, TRUE)
    /\ msgs' = Consumed(msgs, l, f)
    /\ UNCHANGED <<disk, role, leader, electionVars, ghostVars, spent>>

\* With a new snapshot to come, committed transactions go into the tree. Otherwise the learner holds
\* them back.
ReceiveNEWLEADER(f, l) ==
    /\ IsLearnerOf(f, l)
    /\ learner[f].stage = "RECEIVING"
    /\ FirstIs(l, f, "NEWLEADER")
    /\ msgs' = Consumed(msgs, l, f)
    /\ IF learner[f].needsSnapshot
       THEN /\ learner' = [learner EXCEPT ![f].stage = "CUT", ![f].config = Head(msgs[l][f])[3]]
            /\ disk' = [disk EXCEPT ![f] = See(@, Head(msgs[l][f])[3])]
            /\ UNCHANGED treeVars
       ELSE LET txns == SubSeq(learner[f].received, 1, learner[f].committed)
                waits == txns # <<>>
                keeps == Is("DeliveredTwice")
            IN /\ disk' = [disk EXCEPT ![f] = See([@ EXCEPT !.log = @ \o txns], Head(msgs[l][f])[3])]
               /\ ApplyUnestablished(f, txns)
               /\ learner' = [learner EXCEPT
                     ![f].config = Head(msgs[l][f])[3],
                     ![f].stage = IF waits THEN "LOG" ELSE "EPOCH",
                     ![f].received = IF keeps THEN @ ELSE DropFirst(@, Len(txns)),
                     ![f].committed = IF keeps THEN @ ELSE 0]
    /\ UNCHANGED <<role, leader, electionVars, ghostVars, spent>>

\* The leader's state is about to replace the own one on disk.
CutLog(f) ==
    /\ role[f] = "FOLLOWING"
    /\ learner[f].stage = "CUT"
    /\ disk' = [disk EXCEPT ![f] = [Saved(Truncated(@, end[f])) EXCEPT !.between = FileLists(disk[f])]]
    /\ learner' = [learner EXCEPT ![f].stage = "SNAPSHOT"]
    /\ UNCHANGED <<role, treeVars, leader, msgs, electionVars, ghostVars, spent>>

WriteSnapshot(f) ==
    /\ role[f] = "FOLLOWING"
    /\ learner[f].stage = "SNAPSHOT"
    /\ disk' = [disk EXCEPT ![f].snapshot = [zxid |-> end[f], tree |-> tree[f]],
                            ![f].log = <<>>, ![f].synced = 0, ![f].base = end[f],
                            ![f].known = end[f]]
    /\ learner' = [learner EXCEPT ![f].stage = "EPOCH"]
    /\ UNCHANGED <<role, treeVars, leader, msgs, electionVars, ghostVars, spent>>

\* A follower acknowledges NEWLEADER after its log and its epoch are on disk. A leader counts itself
\* after its epoch is on disk.
SaveCurrentEpoch(s) ==
    /\ \/ /\ role[s] = "FOLLOWING"
          /\ learner[s].stage = "EPOCH"
          /\ disk' = [disk EXCEPT ![s] = Saved([@ EXCEPT !.current = learner[s].epoch])]
          /\ learner' = [learner EXCEPT ![s].stage = "ACKED"]
          /\ msgs' = SentToLeader(msgs, s, learner[s].leader,
                                  <<<<"ACK", Zxid(learner[s].epoch, 0)>>>>)
          /\ UNCHANGED leader
       \/ /\ role[s] = "LEADING"
          /\ leader[s].phase = "SYNCHRONIZATION"
          /\ s \notin leader[s].acked
          /\ disk' = [disk EXCEPT ![s] = Saved([@ EXCEPT !.current = leader[s].epoch])]
          /\ leader' = [leader EXCEPT ![s].acked = @ \union {s}]
          /\ UNCHANGED <<learner, msgs>>
    /\ UNCHANGED <<role, treeVars, electionVars, ghostVars, spent>>

\* A learner acknowledges NEWLEADER.
ReceiveNEWLEADERACK(l, f) ==
    /\ role[l] = "LEADING"
    /\ leader[l].link[f] = "NEWLEADER"
    /\ FirstIs(f, l, "ACK")
    /\ LET packets == Consumed(msgs, f, l)
       IN IF leader[l].phase = "BROADCAST"
          THEN /\ leader' = [leader EXCEPT ![l].link[f] = "BROADCAST"]
               /\ msgs' = SentToLearner(packets, l, f, <<<<"UPTODATE">>>>)
          ELSE /\ leader' = [leader EXCEPT ![l].link[f] = "ACTIVATION",
                                           ![l].acked = @ \union {f}]
               /\ msgs' = packets
    /\ UNCHANGED <<disk, role, treeVars, learner, electionVars, ghostVars, spent>>

\* A quorum of each configuration has the leader's log and the epoch on disk.
IsAcknowledged(l) ==
    /\ leader[l].phase = "SYNCHRONIZATION"
    /\ l \in leader[l].acked
    /\ LeaderHasQuorum(leader[l], leader[l].acked)

\* The leader's log is committed, and the proposed configuration comes into force. If this server is
\* not a voter in it, another one is designated.
EstablishEpoch(l, designated) ==
    /\ role[l] = "LEADING"
    /\ IsAcknowledged(l)
    /\ LET next == leader[l].next
           others == leader[l].acked \intersect next.voters
       IN IF next = NoConfig \/ l \in next.voters \/ others = {} THEN designated = l
          ELSE designated \in others
    /\ end' = [end EXCEPT ![l] = Zxid(leader[l].epoch, 0)]
    /\ established' = [established EXCEPT ![l] = TRUE]
    /\ disk' = [disk EXCEPT ![l] = Install(@, @.lists.seen)]
    /\ leader' = [leader EXCEPT ![l].phase = "BROADCAST",
                    ![l].quorum = IF leader[l].next = NoConfig THEN @ ELSE leader[l].next,
                    ![l].next = NoConfig,
                    ![l].version = leader[l].config.version,
                    ![l].designated = IF designated = l THEN NoServer ELSE designated,
                    ![l].ack = [f \in Server |-> IF f = l THEN Zxid(leader[l].epoch, 0) ELSE 0],
                    ![l].link = [f \in Server |->
                        IF @[f] = "ACTIVATION" THEN "BROADCAST" ELSE @[f]]]
    /\ msgs' = IF designated # l THEN msgs
               ELSE SentToLinks(msgs, l, {"ACTIVATION"}, <<<<"UPTODATE">>>>)
    /\ committed' = committed \union Range(tree[l])
    /\ leaders' = leaders \union {<<leader[l].epoch, l>>}
    /\ UNCHANGED <<role, tree, writing, learner, electionVars, proposed, spent>>

\* Whether a configuration comes into force that does not continue the vote of leader l.
LosesLeader(d, config, l) ==
    /\ Install(d, config) # d
    /\ config.voters # d.lists.config.voters
    /\ l \notin config.voters \intersect d.lists.config.voters

\* The leader is established. The follower logs and applies what it has held back. If it loses its
\* leader, it looks for a leader instead.
ReceiveUPTODATE(f, l) ==
    /\ IsLearnerOf(f, l)
    /\ learner[f].stage = "ACKED"
    /\ FirstIs(l, f, "UPTODATE")
    /\ LET txns == SubSeq(learner[f].received, 1, learner[f].committed)
           config == learner[f].config
       IN IF LosesLeader(disk[f], config, l)
          THEN /\ DrainWith(f, Install(disk[f], config), NoServer)
               /\ FollowerEnds(f, learner[f].failedIn)
          ELSE /\ disk' = [disk EXCEPT ![f] = Install([@ EXCEPT !.log = @ \o learner[f].received],
                                                      config)]
               /\ tree' = [tree EXCEPT ![f] = AppliedAll(tree[f], end[f], txns)]
               /\ end' = [end EXCEPT ![f] = EndAfter(end[f], txns)]
               /\ learner' = [learner EXCEPT ![f].stage = "LIVE", ![f].failedIn = 0,
                                 ![f].received = DropFirst(@, Len(txns)), ![f].committed = 0]
               /\ established' = [established EXCEPT ![f] = TRUE]
               /\ msgs' = Consumed(msgs, l, f)
               /\ UNCHANGED <<role, writing, leader, electionVars>>
    /\ UNCHANGED <<ghostVars, spent>>
=============================================================================
