------------------------------ MODULE Broadcast ------------------------------
(* Broadcast, the sync of the log, and snapshots in progress. *)
EXTENDS Synchronisation

LastProposed(l) ==
    LET log == disk[l].log
    IN IF log # <<>> /\ EpochOf(ZxidOf(Last(log))) = leader[l].epoch
       THEN ZxidOf(Last(log)) ELSE Zxid(leader[l].epoch, 0)

\* A proposal goes to the log and to the learners at the same time.
SendPROPOSAL(l, number) ==
    /\ role[l] = "LEADING"
    /\ leader[l].phase = "BROADCAST"
    /\ Len(proposed) < MaxTxns
    /\ LET txn == <<LastProposed(l) + 1, number>>
       IN /\ disk' = [disk EXCEPT ![l].log = Append(@, txn)]
          /\ msgs' = SentToLinks(msgs, l, Forwarding, <<<<"PROPOSAL", txn>>>>)
          /\ proposed' = Append(proposed, [txn |-> txn, by |-> l])
    /\ UNCHANGED <<role, treeVars, learner, leader, electionVars, committed, leaders, spent>>

\* Before UPTODATE, a proposal is held back. After it, it goes to the log.
ReceivePROPOSAL(f, l) ==
    /\ IsLearnerOf(f, l)
    /\ learner[f].stage \in Synchronising \union {"LIVE"}
    /\ FirstIs(l, f, "PROPOSAL")
    /\ LET txn == Head(msgs[l][f])[2]
           isLive == learner[f].stage = "LIVE"
           packets == Consumed(msgs, l, f)
       IN /\ learner' = [learner EXCEPT ![f].received = Append(@, txn)]
          /\ disk' = IF isLive THEN [disk EXCEPT ![f].log = Append(@, txn)] ELSE disk
          /\ msgs' = IF isLive /\ Is("AckBeforeSync")
                     THEN SentToLeader(packets, f, l, <<<<"ACK", ZxidOf(txn)>>>>) ELSE packets
    /\ UNCHANGED <<role, treeVars, leader, electionVars, ghostVars, spent>>

\* After UPTODATE, or if a new snapshot is to come, the transaction is applied.
ReceiveCOMMIT(f, l) ==
    /\ IsLearnerOf(f, l)
    /\ learner[f].stage \in Synchronising \union {"LIVE"}
    /\ FirstIs(l, f, "COMMIT")
    /\ LET next == learner[f].committed + 1
           txn == learner[f].received[next]
           isLive == learner[f].stage = "LIVE"
           applies == learner[f].needsSnapshot /\ learner[f].stage = "RECEIVING"
       IN /\ next <= Len(learner[f].received)
          /\ ZxidOf(txn) = Head(msgs[l][f])[2]
          /\ IF applies THEN ApplyUnestablished(f, <<txn>>)
             ELSE IF isLive
             THEN /\ tree' = [tree EXCEPT ![f] = Applied(@, end[f], txn)]
                  /\ end' = [end EXCEPT ![f] = ZxidOf(txn)]
                  /\ UNCHANGED <<established, writing>>
             ELSE UNCHANGED treeVars
          /\ learner' = IF applies \/ isLive THEN [learner EXCEPT ![f].received = Tail(@)]
                        ELSE [learner EXCEPT ![f].committed = next]
    /\ msgs' = Consumed(msgs, l, f)
    /\ UNCHANGED <<disk, role, leader, electionVars, ghostVars, spent>>
-----------------------------------------------------------------------------
(* Commits. *)
AckedBy(acks, zxid) == {s \in Server : acks[s] >= zxid}

IsEnough(servers) ==
    IF Is("CommitByMinority") THEN servers # {} ELSE IsQuorum(servers)

\* The leader commits all proposals that a quorum has on disk, in the order of their zxids.
CommitBy(l, acks, packets) ==
    LET durable == SelectSeq(Outstanding(l), LAMBDA txn : IsEnough(AckedBy(acks, ZxidOf(txn))))
    IN /\ tree' = [tree EXCEPT ![l] = AppliedAll(@, end[l], durable)]
       /\ end' = [end EXCEPT ![l] = EndAfter(@, durable)]
       /\ committed' = committed \union Range(durable)
       /\ msgs' = SentToLinks(packets, l, Forwarding,
                              [i \in DOMAIN durable |-> <<"COMMIT", ZxidOf(durable[i])>>])

AcksOf(records) == [i \in DOMAIN records |-> <<"ACK", ZxidOf(records[i])>>]

\* The first `synced` records of the log are on disk. A follower acknowledges each of them. A leader
\* counts itself.
SyncLog(s, synced) ==
    /\ role[s] \in {"FOLLOWING", "LEADING"}
    /\ synced \in disk[s].synced + 1 .. Len(disk[s].log)
    /\ disk' = [disk EXCEPT ![s].synced = synced]
    /\ IF role[s] = "LEADING"
       THEN LET acks == [leader[s].ack EXCEPT ![s] = Max(@, ZxidOf(disk[s].log[synced]))]
            IN /\ leader' = [leader EXCEPT ![s].ack = acks]
               /\ CommitBy(s, acks, msgs)
               /\ UNCHANGED learner
       ELSE /\ learner' = [learner EXCEPT ![s].stage =
                    IF @ = "LOG" /\ synced = Len(disk[s].log) THEN "EPOCH" ELSE @]
            /\ msgs' = IF learner[s].stage = "LIVE" /\ ~Is("AckBeforeSync")
                       THEN SentToLeader(msgs, s, learner[s].leader,
                              AcksOf(SubSeq(disk[s].log, disk[s].synced + 1, synced)))
                       ELSE msgs
            /\ UNCHANGED <<leader, tree, end, committed>>
    /\ UNCHANGED <<role, established, writing, electionVars, proposed, leaders, spent>>

ReceiveACK(l, f) ==
    /\ role[l] = "LEADING"
    /\ leader[l].phase = "BROADCAST"
    /\ leader[l].link[f] = "BROADCAST"
    /\ FirstIs(f, l, "ACK")
    /\ LET acks == [leader[l].ack EXCEPT ![f] = Max(@, Head(msgs[f][l])[2])]
       IN /\ leader' = [leader EXCEPT ![l].ack = acks]
          /\ CommitBy(l, acks, Consumed(msgs, f, l))
    /\ UNCHANGED <<disk, role, established, writing, learner, electionVars, proposed, leaders,
                   spent>>
-----------------------------------------------------------------------------
(* Snapshots. *)

\* A snapshot begins while the tree is established.
StartSnapshot(s) ==
    /\ role[s] # "DOWN"
    /\ established[s]
    /\ writing[s] = NoSnapshot
    /\ spent.snapshots < MaxSnapshots
    /\ spent' = [spent EXCEPT !.snapshots = @ + 1]
    /\ writing' = [writing EXCEPT ![s] = end[s]]
    /\ UNCHANGED <<disk, role, tree, end, established, learner, leader, msgs, electionVars,
                   ghostVars>>

\* Ends of the tree since the snapshot in progress has begun, or earlier.
EndsOf(s) == {writing[s], end[s]} \union {ZxidOf(txn) : txn \in Range(tree[s])}

\* The snapshot contains everything that was applied while it was written, which ends at `covers`. It
\* gets its name when the log on disk contains all of it. Otherwise a power failure could leave a log
\* with a gap that only this snapshot bridges.
FinishSnapshot(s, covers) ==
    /\ writing[s] # NoSnapshot
    /\ covers >= writing[s]
    /\ covers <= end[s]
    /\ \/ \A txn \in Range(UpTo(tree[s], covers)) : ZxidOf(txn) <= DurableEnd(disk[s])
       \/ Is("SnapshotBeforeLog")
    /\ writing' = [writing EXCEPT ![s] = NoSnapshot]
    /\ disk' = IF writing[s] < disk[s].snapshot.zxid THEN disk
               ELSE [disk EXCEPT ![s].snapshot =
                        [zxid |-> writing[s], tree |-> UpTo(tree[s], covers)]]
    /\ UNCHANGED <<role, tree, end, established, learner, leader, msgs, electionVars, ghostVars,
                   spent>>
=============================================================================
