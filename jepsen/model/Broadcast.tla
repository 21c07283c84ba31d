------------------------------ MODULE Broadcast ------------------------------
(* Broadcast, the sync of the log, and snapshots in progress. *)
EXTENDS Synchronisation

LastProposed(l) ==
    LET log == disk[l].log
    IN IF log # <<>> /\ EpochOf(ZxidOf(Last(log))) = leader[l].epoch
       THEN ZxidOf(Last(log)) ELSE Zxid(leader[l].epoch, 0)

IsBroadcasting(l) ==
    /\ role[l] = "LEADING"
    /\ leader[l].phase = "BROADCAST"
    /\ leader[l].designated = NoServer

\* A proposal goes to the log and to the learners at the same time.
SendPROPOSAL(l, number) ==
    /\ IsBroadcasting(l)
    /\ Len(proposed) < MaxTxns
    /\ LET txn == <<LastProposed(l) + 1, number, {}>>
       IN /\ disk' = [disk EXCEPT ![l].log = Append(@, txn)]
          /\ msgs' = SentToLinks(msgs, l, Forwarding, <<<<"PROPOSAL", txn>>>>)
          /\ proposed' = Append(proposed, [txn |-> txn, by |-> l])
    /\ UNCHANGED <<role, treeVars, learner, leader, electionVars, committed, leaders, spent>>

\* Servers that can be counted in a quorum of a new configuration.
SyncedServers(l) == {l} \union {f \in Server : leader[l].link[f] = "BROADCAST"}

\* A reconfiguration and all later proposals need a quorum of both configurations until it is
\* committed. One reconfiguration is in progress at a time.
ProposeReconfig(l, number, voters) ==
    /\ Reconfigurable
    /\ IsBroadcasting(l)
    /\ NextOf(disk[l].lists) = NoConfig
    /\ Len(proposed) < MaxTxns
    /\ spent.reconfigs < MaxReconfigs
    /\ LET txn == <<LastProposed(l) + 1, number, voters>>
       IN /\ HasQuorum(ConfigOf(txn), SyncedServers(l))
          /\ disk' = [disk EXCEPT ![l] = See([@ EXCEPT !.log = Append(@, txn)], ConfigOf(txn))]
          /\ msgs' = SentToLinks(msgs, l, Forwarding, <<<<"PROPOSAL", txn>>>>)
          /\ leader' = [leader EXCEPT ![l].next = ConfigOf(txn), ![l].reconfig = ZxidOf(txn)]
          /\ proposed' = Append(proposed, [txn |-> txn, by |-> l])
    /\ spent' = [spent EXCEPT !.reconfigs = @ + 1]
    /\ UNCHANGED <<role, treeVars, learner, electionVars, committed, leaders>>

\* A proposed configuration counts from the receipt of its proposal.
SeeProposed(d, txn) == IF IsReconfig(txn) THEN See(d, ConfigOf(txn)) ELSE d

\* Before UPTODATE, a proposal is held back. After it, it goes to the log.
ReceivePROPOSAL(f, l) ==
    /\ IsLearnerOf(f, l)
    /\ learner[f].stage \in Synchronising \union {"LIVE"}
    /\ FirstIs(l, f, "PROPOSAL")
    /\ LET txn == Head(msgs[l][f])[2]
           isLive == learner[f].stage = "LIVE"
           packets == Consumed(msgs, l, f)
       IN /\ learner' = [learner EXCEPT ![f].received = Append(@, txn)]
          /\ disk' = [disk EXCEPT ![f] = SeeProposed(
                         IF isLive THEN [@ EXCEPT !.log = Append(@, txn)] ELSE @, txn)]
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

\* The configuration comes into force. If it designates another leader, the role ends before the
\* transaction is applied.
ReceiveCOMMITANDACTIVATE(f, l) ==
    /\ IsLearnerOf(f, l)
    /\ learner[f].stage \in Synchronising \union {"LIVE"}
    /\ FirstIs(l, f, "COMMITANDACTIVATE")
    /\ LET next == learner[f].committed + 1
           txn == learner[f].received[next]
           designated == Head(msgs[l][f])[3]
           isLive == learner[f].stage = "LIVE"
           applies == learner[f].needsSnapshot /\ learner[f].stage = "RECEIVING"
           d == Install(disk[f], ConfigOf(txn))
       IN /\ next <= Len(learner[f].received)
          /\ ZxidOf(txn) = Head(msgs[l][f])[2]
          /\ IF designated = l
             THEN /\ disk' = [disk EXCEPT ![f] = d]
                  /\ IF applies THEN ApplyUnestablished(f, <<txn>>)
                     ELSE IF isLive
                     THEN /\ tree' = [tree EXCEPT ![f] = Applied(@, end[f], txn)]
                          /\ end' = [end EXCEPT ![f] = ZxidOf(txn)]
                          /\ UNCHANGED <<established, writing>>
                     ELSE UNCHANGED treeVars
                  /\ learner' = IF applies \/ isLive THEN [learner EXCEPT ![f].received = Tail(@)]
                                ELSE [learner EXCEPT ![f].committed = next]
                  /\ msgs' = Consumed(msgs, l, f)
                  /\ UNCHANGED <<role, leader, electionVars>>
             ELSE /\ DrainWith(f, d, designated)
                  /\ FollowerEnds(f, learner[f].failedIn)
    /\ UNCHANGED <<ghostVars, spent>>
-----------------------------------------------------------------------------
(* Commits. *)
AckedBy(acks, zxid) == {s \in Server : acks[s] >= zxid}

IsEnough(config, servers) ==
    IF Is("CommitByMinority") THEN servers # {} ELSE HasQuorum(config, servers)

\* The voters that may lead after a reconfiguration: this server, or those with the longest log.
Designated(lead, l, acks) ==
    LET able == {s \in lead.next.voters : acks[s] >= lead.reconfig}
    IN IF l \in lead.next.voters \/ able = {} THEN {l}
       ELSE {s \in able : \A t \in able : acks[t] <= acks[s]}

\* The leader commits all proposals that a quorum has on disk, in the order of their zxids. A
\* reconfiguration needs a quorum of both configurations. After it, the new one decides alone, if
\* this server still leads.
CommitBy(l, d, acks, packets) ==
    LET lead == leader[l]
        isAcked(config, txn) == IsEnough(config, AckedBy(acks, ZxidOf(txn)))
        isBefore(txn) == lead.reconfig = 0 \/ ZxidOf(txn) < lead.reconfig
        isIn(txn) == /\ ZxidOf(txn) = lead.reconfig
                     /\ Is("OldQuorumSkipped") \/ isAcked(lead.quorum, txn)
                     /\ isAcked(lead.next, txn)
        first == SelectSeq(Outstanding(l), LAMBDA txn :
                     (isBefore(txn) /\ isAcked(lead.quorum, txn)) \/ isIn(txn))
        activates == first # <<>> /\ ZxidOf(Last(first)) = lead.reconfig
    IN \E designated \in IF activates THEN Designated(lead, l, acks) ELSE {l} :
       LET rest == IF activates /\ designated = l
                   THEN SelectSeq(After(Outstanding(l), lead.reconfig),
                                  LAMBDA txn : isAcked(lead.next, txn))
                   ELSE <<>>
           durable == first \o rest
       IN /\ tree' = [tree EXCEPT ![l] = AppliedAll(@, end[l], durable)]
          /\ end' = [end EXCEPT ![l] = EndAfter(@, durable)]
          /\ committed' = committed \union Range(durable)
          /\ msgs' = SentToLinks(packets, l, Forwarding, [i \in DOMAIN durable |->
                 IF activates /\ ZxidOf(durable[i]) = lead.reconfig
                 THEN <<"COMMITANDACTIVATE", lead.reconfig, designated>>
                 ELSE <<"COMMIT", ZxidOf(durable[i])>>])
          /\ disk' = [disk EXCEPT ![l] = IF activates THEN Install(d, lead.next) ELSE d]
          /\ leader' = [leader EXCEPT ![l] =
                 IF ~activates THEN [lead EXCEPT !.ack = acks]
                 ELSE [lead EXCEPT !.ack = acks, !.quorum = lead.next, !.next = NoConfig,
                          !.reconfig = 0, !.config = lead.next, !.version = lead.reconfig,
                          !.designated = IF designated = l THEN NoServer ELSE designated]]

AcksOf(records) == [i \in DOMAIN records |-> <<"ACK", ZxidOf(records[i])>>]

\* Member lists are written before later records.
Synced(s, synced) ==
    LET d == [disk[s] EXCEPT !.synced = synced]
        reconfigs == SelectSeq(SubSeq(d.log, disk[s].synced + 1, synced), IsReconfig)
    IN IF synced = Len(d.log) THEN Saved(d)
       ELSE IF reconfigs = <<>> THEN d
       ELSE LET isNew(lists) == lists.seen.version >= ZxidOf(Last(reconfigs))
                new == {lists \in FileLists(d) : isNew(lists)}
                first == CHOOSE lists \in new : \A other \in new :
                            /\ lists.config.version <= other.config.version
                            /\ lists.seen.version <= other.seen.version
            IN [d EXCEPT !.saved = first, !.between = {lists \in @ : isNew(lists)}]

\* The first `synced` records of the log are on disk. A follower acknowledges each of them. A leader
\* counts itself.
SyncLog(s, synced) ==
    /\ role[s] \in {"FOLLOWING", "LEADING"}
    /\ synced \in disk[s].synced + 1 .. Len(disk[s].log)
    /\ IF role[s] = "LEADING"
       THEN /\ CommitBy(s, Synced(s, synced),
                        [leader[s].ack EXCEPT ![s] = Max(@, ZxidOf(disk[s].log[synced]))], msgs)
            /\ UNCHANGED learner
       ELSE /\ disk' = [disk EXCEPT ![s] = Synced(s, synced)]
            /\ learner' = [learner EXCEPT ![s].stage =
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
    /\ CommitBy(l, disk[l], [leader[l].ack EXCEPT ![f] = Max(@, Head(msgs[f][l])[2])],
                Consumed(msgs, f, l))
    /\ UNCHANGED <<role, established, writing, learner, electionVars, proposed, leaders, spent>>
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
