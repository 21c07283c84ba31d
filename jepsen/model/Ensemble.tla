------------------------------- MODULE Ensemble -------------------------------
(* The behaviours of an ensemble, and its invariants. *)
EXTENDS Broadcast, TLC

Nothing == [elections |-> 0, crashes |-> 0, timeouts |-> 0, snapshots |-> 0]

\* All servers are new, and look for a leader.
InitNew ==
    /\ disk = [s \in Server |-> EmptyDisk]
    /\ role = [s \in Server |-> "LOOKING"]
    /\ tree = [s \in Server |-> <<>>]
    /\ end = [s \in Server |-> 0]
    /\ established = [s \in Server |-> FALSE]
    /\ writing = [s \in Server |-> NoSnapshot]
    /\ learner = [s \in Server |-> NoLearner(0)]
    /\ leader = [s \in Server |-> NotLeading]
    /\ msgs = [i \in Server |-> [j \in Server |-> <<>>]]
    /\ vote = [s \in Server |-> IF AnyLeader THEN <<>> ELSE OwnVote(s, EmptyDisk)]
    /\ recvset = [s \in Server |-> NoVotes]
    /\ proposed = <<>>
    /\ committed = {}
    /\ leaders = {}
    /\ spent = Nothing

\* Epoch 1 is established, and all servers have committed one transaction.
InitEstablished ==
    \E l \in Server :
      LET first == <<Zxid(1, 1), 1>>
          d == [EmptyDisk EXCEPT !.accepted = 1, !.current = 1, !.log = <<first>>, !.synced = 1]
          others == Server \ {l}
      IN /\ disk = [s \in Server |-> d]
         /\ role = [s \in Server |-> IF s = l THEN "LEADING" ELSE "FOLLOWING"]
         /\ tree = [s \in Server |-> <<first>>]
         /\ end = [s \in Server |-> ZxidOf(first)]
         /\ established = [s \in Server |-> TRUE]
         /\ writing = [s \in Server |-> NoSnapshot]
         /\ learner = [s \in Server |-> IF s = l THEN NoLearner(0) ELSE
               [NoLearner(0) EXCEPT !.leader = l, !.stage = "LIVE", !.open = TRUE, !.epoch = 1]]
         /\ leader = [s \in Server |-> IF s # l THEN NotLeading ELSE
               [NotLeading EXCEPT !.phase = "BROADCAST", !.epoch = 1, !.heard = Server,
                                  !.acked = Server,
                                  !.link = [f \in Server |-> IF f = l THEN "NONE" ELSE "BROADCAST"],
                                  !.ack = [f \in Server |-> ZxidOf(first)]]]
         /\ msgs = [i \in Server |-> [j \in Server |-> <<>>]]
         /\ vote = [s \in Server |-> IF AnyLeader THEN <<>> ELSE <<0, 0, l>>]
         /\ recvset = [s \in Server |-> NoVotes]
         /\ proposed = <<[txn |-> first, by |-> l]>>
         /\ committed = {first}
         /\ leaders = {<<1, l>>}
         /\ spent = Nothing
-----------------------------------------------------------------------------
(* Steps that the code takes together with the step before them. No other step comes between. *)
IsDue(l) ==
    /\ role[l] = "LEADING"
    /\ \/ /\ leader[l].phase \in {"SYNCHRONIZATION", "BROADCAST"}
          /\ \E f \in Server : leader[l].link[f] = "SYNC"
       \/ /\ leader[l].phase = "SYNCHRONIZATION"
          /\ l \in leader[l].acked
          /\ IsQuorum(leader[l].acked)

DueStep(l) == EstablishEpoch(l) \/ \E f \in Server :
                 \E plan \in PlansFor(l, leader[l].peer[f]) : SyncFollower(l, f, plan)

(* Steps that only change the memory of a learner that does not serve clients. They commute with all
   steps of other servers, and no invariant depends on them. They therefore come first, so that
   fewer orders remain. *)
IsInMemory(f) ==
    /\ role[f] = "FOLLOWING"
    /\ LET l == learner[f].leader
           kind == IF msgs[l][f] = <<>> THEN "NONE" ELSE Head(msgs[l][f])[1]
       IN \/ learner[f].stage = "ACKEPOCH" /\ kind = "DIFF" /\ ~NeedsSnapshot(f)
          \/ /\ learner[f].stage \in Synchronising
             /\ kind \in {"PROPOSAL", "COMMIT"}

StepInMemory(f) ==
    LET l == learner[f].leader
    IN ReceiveDIFF(f, l) \/ ReceivePROPOSAL(f, l) \/ ReceiveCOMMIT(f, l)

StepOf(s, t) ==
    \/ ReceiveNotification(s, t)
    \/ role[t] = "LEADING" /\ DecideFollowing(s, t)
    \/ DropLearner(s, t)
    \/ SendFOLLOWERINFO(s, t, disk[s].accepted)
    \/ ReceiveFOLLOWERINFO(s, t)
    \/ SendACKEPOCH(s, t)
    \/ ReceiveACKEPOCH(s, t)
    \/ ReceiveTRUNC(s, t)
    \/ RefuseSync(s, t)
    \/ ReceiveSNAP(s, t)
    \/ ReceiveNEWLEADER(s, t)
    \/ ReceiveNEWLEADERACK(s, t)
    \/ ReceiveUPTODATE(s, t)
    \/ ReceivePROPOSAL(s, t)
    \/ ReceiveACK(s, t)
    \/ ReceiveCOMMIT(s, t)

OwnStep(s) ==
    \/ DecideLeading(s, disk[s].accepted + 1)
    \/ StepDown(s)
    \/ LeaveLeader(s)
    \/ \E kept \in {disk[s].synced, Len(disk[s].log)} : Crash(s, kept)
    \/ Restart(s)
    \/ SendLEADERINFO(s)
    \/ CutLog(s)
    \/ WriteSnapshot(s)
    \/ SaveCurrentEpoch(s)
    \/ SendPROPOSAL(s, Len(proposed) + 1)
    \/ SyncLog(s, Len(disk[s].log))
    \/ StartSnapshot(s)
    \/ \E covers \in EndsOf(s) : FinishSnapshot(s, covers)

Next ==
    IF \E l \in Server : IsDue(l) THEN \E l \in Server : DueStep(l)
    ELSE IF \E f \in Server : IsInMemory(f) THEN \E f \in Server : IsInMemory(f) /\ StepInMemory(f)
    ELSE \/ \E s \in Server : OwnStep(s)
         \/ \E s, t \in Server : s # t /\ StepOf(s, t)

SpecNew == InitNew /\ [][Next]_vars
SpecEstablished == InitEstablished /\ [][Next]_vars

\* Without votes, the servers are interchangeable.
Symmetry == Permutations(Server)
-----------------------------------------------------------------------------
(* Invariants. *)

\* The transactions that the clients of a server may see.
Delivered(s) == IF established[s] THEN tree[s] ELSE <<>>

IsBefore(a, b, seq) ==
    \E i, j \in DOMAIN seq : i < j /\ seq[i] = a /\ seq[j] = b

\* Of two servers, one has delivered everything that the other has. A later leader has everything
\* that was committed in earlier epochs.
Agreement ==
    /\ \A s, t \in Server : \A a \in Range(Delivered(s)), b \in Range(Delivered(t)) :
          established[s] /\ established[t] => a \in Range(tree[t]) \/ b \in Range(tree[s])
    /\ \A l \in Server : leader[l].phase = "BROADCAST" =>
          \A txn \in committed :
             EpochOf(ZxidOf(txn)) < leader[l].epoch => txn \in Range(tree[l])

\* If a server delivers a before b, each server that delivers b delivers a before it.
TotalOrder ==
    \A s, t \in Server : \A i, j \in DOMAIN Delivered(s) :
       i < j /\ tree[s][j] \in Range(Delivered(t)) => IsBefore(tree[s][i], tree[s][j], tree[t])

\* If a leader proposes a before b, each server that delivers b delivers a before it.
LocalPrimaryOrder ==
    \A s \in Server : \A i, j \in DOMAIN proposed :
       /\ i < j
       /\ proposed[i].by = proposed[j].by
       /\ EpochOf(ZxidOf(proposed[i].txn)) = EpochOf(ZxidOf(proposed[j].txn))
       /\ proposed[j].txn \in Range(Delivered(s))
       => IsBefore(proposed[i].txn, proposed[j].txn, tree[s])

\* A server delivers only proposals, and each of them once.
Integrity ==
    \A s \in Server : LET seq == Delivered(s) IN
       /\ Cardinality(Range(seq)) = Len(seq)
       /\ Range(seq) \subseteq {proposed[i].txn : i \in DOMAIN proposed}

\* Clients never see a transaction that no leader has committed.
NoSurvivingUncommittedState == \A s \in Server : Range(Delivered(s)) \subseteq committed

OneLeaderPerEpoch == \A a, b \in leaders : a[1] = b[1] => a[2] = b[2]

\* The log on disk contains everything in a snapshot, except the history before the log. Therefore
\* each older snapshot and the log lead to the same tree.
LoggedSnapshots ==
    \A s \in Server : \A txn \in Range(disk[s].snapshot.tree) :
       ZxidOf(txn) > disk[s].base => txn \in Range(SubSeq(disk[s].log, 1, disk[s].synced))

\* Trees that end at the same zxid have the same content.
EqualDigests ==
    \A s, t \in Server : established[s] /\ established[t] /\ end[s] = end[t]
       => Range(tree[s]) = Range(tree[t])
=============================================================================
