------------------------------- MODULE Ensemble -------------------------------
(* The behaviours of an ensemble, and its invariants. *)
EXTENDS Broadcast, TLC

Nothing == [elections |-> 0, crashes |-> 0, timeouts |-> 0, snapshots |-> 0, reconfigs |-> 0]

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

\* Epoch 1 is established, and all servers have committed one transaction. The servers that do not
\* vote follow, too. If `voters` is not empty, the leader has also proposed these voters, the proposal
\* is on all disks, and its acknowledgements are in flight.
Established(l, voters) ==
    LET first == <<Zxid(1, 1), 1, {}>>
        reconfig == <<Zxid(1, 2), 2, voters>>
        config == [version |-> IF Reconfigurable THEN Zxid(1, 0) ELSE 0, voters |-> Founders]
        next == IF voters = {} THEN NoConfig ELSE ConfigOf(reconfig)
        others == IF voters = {} THEN <<>> ELSE <<reconfig>>
        log == <<first>> \o others
        lists == [config |-> config, seen |-> IF voters = {} THEN config ELSE next]
        d == [EmptyDisk EXCEPT !.accepted = 1, !.current = 1, !.log = log, !.synced = Len(log),
                               !.lists = lists, !.saved = lists]
    IN /\ disk = [s \in Server |-> d]
       /\ role = [s \in Server |-> IF s = l THEN "LEADING" ELSE "FOLLOWING"]
       /\ tree = [s \in Server |-> <<first>>]
       /\ end = [s \in Server |-> ZxidOf(first)]
       /\ established = [s \in Server |-> TRUE]
       /\ writing = [s \in Server |-> NoSnapshot]
       /\ learner = [s \in Server |-> IF s = l THEN NoLearner(0) ELSE
             [NoLearner(0) EXCEPT !.leader = l, !.stage = "LIVE", !.open = TRUE, !.epoch = 1,
                                  !.received = others]]
       /\ leader = [s \in Server |-> IF s # l THEN NotLeading ELSE
             [NotLeading EXCEPT !.phase = "BROADCAST", !.epoch = 1, !.heard = Server,
                                !.acked = Server, !.quorum = config, !.next = next,
                                !.config = config, !.version = config.version,
                                !.reconfig = IF voters = {} THEN 0 ELSE ZxidOf(reconfig),
                                !.link = [f \in Server |-> IF f = l THEN "NONE" ELSE "BROADCAST"],
                                !.ack = [f \in Server |-> ZxidOf(IF f = l THEN Last(log) ELSE first)]]]
       /\ msgs = [i \in Server |-> [j \in Server |->
             IF voters # {} /\ i # l /\ j = l THEN <<<<"ACK", ZxidOf(reconfig)>>>> ELSE <<>>]]
       /\ vote = [s \in Server |-> IF AnyLeader THEN <<>> ELSE <<0, 0, l>>]
       /\ recvset = [s \in Server |-> NoVotes]
       /\ proposed = [i \in DOMAIN log |-> [txn |-> log[i], by |-> l]]
       /\ committed = {first}
       /\ leaders = {<<1, l>>}
       /\ spent = Nothing

InitEstablished == \E l \in Founders : Established(l, {})

InitReconfiguring == \E l \in Founders : \E voters \in SUBSET Server \ {{}, Founders} :
    Established(l, voters)

\* The leader has replaced a voter, and has committed one more transaction with the new voters alone.
\* Then it crashed, and the others look for a leader. They do not know about the commits.
InitReplaced ==
    \E l \in Founders : \E left \in Founders \ {l} : \E joined \in Server \ Founders :
       LET first == <<Zxid(1, 1), 1, {}>>
           reconfig == <<Zxid(1, 2), 2, (Founders \ {left}) \union {joined}>>
           next == <<Zxid(1, 3), 3, {}>>
           config == [version |-> Zxid(1, 0), voters |-> Founders]
           lists == [config |-> config, seen |-> ConfigOf(reconfig)]
           log(s) == <<first, reconfig>> \o IF s \in {l, joined} THEN <<next>> ELSE <<>>
       IN /\ disk = [s \in Server |-> [EmptyDisk EXCEPT !.accepted = 1, !.current = 1, !.log = log(s),
                          !.synced = Len(log(s)), !.lists = lists, !.saved = lists]]
          /\ role = [s \in Server |-> IF s = l THEN "DOWN" ELSE "LOOKING"]
          /\ tree = [s \in Server |-> IF s = l THEN <<>> ELSE log(s)]
          /\ end = [s \in Server |-> IF s = l THEN 0 ELSE ZxidOf(Last(log(s)))]
          /\ established = [s \in Server |-> FALSE]
          /\ writing = [s \in Server |-> NoSnapshot]
          /\ learner = [s \in Server |-> NoLearner(0)]
          /\ leader = [s \in Server |-> NotLeading]
          /\ msgs = [i \in Server |-> [j \in Server |-> <<>>]]
          /\ vote = [s \in Server |-> IF AnyLeader \/ s = l THEN <<>> ELSE OwnVote(s, disk[s])]
          /\ recvset = [s \in Server |-> NoVotes]
          /\ proposed = [i \in 1..3 |-> [txn |-> log(l)[i], by |-> l]]
          /\ committed = Range(log(l))
          /\ leaders = {<<1, l>>}
          /\ spent = Nothing

\* The files of the servers differ. One of them knows only itself and leads. The others are new.
InitFiles ==
    \E l \in Server :
       LET alone == FirstLists({l})
           first == <<Zxid(1, 1), 1, {}>>
           d == [EmptyDisk EXCEPT !.accepted = 1, !.current = 1, !.log = <<first>>, !.synced = 1,
                                  !.lists = alone, !.saved = alone]
       IN /\ disk = [s \in Server |-> IF s = l THEN d ELSE EmptyDisk]
          /\ role = [s \in Server |-> IF s = l THEN "LEADING" ELSE "LOOKING"]
          /\ tree = [s \in Server |-> IF s = l THEN <<first>> ELSE <<>>]
          /\ end = [s \in Server |-> IF s = l THEN ZxidOf(first) ELSE 0]
          /\ established = [s \in Server |-> s = l]
          /\ writing = [s \in Server |-> NoSnapshot]
          /\ learner = [s \in Server |-> NoLearner(0)]
          /\ leader = [s \in Server |-> IF s # l THEN NotLeading ELSE
                [NotLeading EXCEPT !.phase = "BROADCAST", !.epoch = 1, !.heard = {l}, !.acked = {l},
                                   !.quorum = alone.config, !.config = alone.config,
                                   !.ack = [f \in Server |-> IF f = l THEN ZxidOf(first) ELSE 0]]]
          /\ msgs = [i \in Server |-> [j \in Server |-> <<>>]]
          /\ vote = [s \in Server |-> IF s = l THEN <<0, 0, l>> ELSE OwnVote(s, EmptyDisk)]
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
       \/ IsAcknowledged(l)
       \/ leader[l].designated # NoServer

DueStep(l) ==
    \/ HandOver(l)
    \/ \E designated \in Server : EstablishEpoch(l, designated)
    \/ \E f \in Server : \E plan \in PlansFor(l, leader[l].peer[f]) : SyncFollower(l, f, plan)

(* Steps that only change the memory of a learner that does not serve clients. They commute with all
   steps of other servers, and no invariant depends on them. They therefore come first, so that
   fewer orders remain. *)
IsInMemory(f) ==
    /\ role[f] = "FOLLOWING"
    /\ LET l == learner[f].leader
           kind == IF msgs[l][f] = <<>> THEN "NONE" ELSE Head(msgs[l][f])[1]
       IN \/ learner[f].stage = "ACKEPOCH" /\ kind = "DIFF" /\ ~NeedsSnapshot(f)
          \/ /\ learner[f].stage \in Synchronising
             /\ \/ kind = "COMMIT"
                \/ kind = "PROPOSAL" /\ ~IsReconfig(Head(msgs[l][f])[2])

StepInMemory(f) ==
    LET l == learner[f].leader
    IN ReceiveDIFF(f, l) \/ ReceivePROPOSAL(f, l) \/ ReceiveCOMMIT(f, l)

StepOf(s, t) ==
    \/ ReceiveNotification(s, t)
    \/ VoteForShorterLog(s, t)
    \/ BecomeCandidate(s, t)
    \/ InstallConfig(s, t)
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
    \/ ReceiveCOMMITANDACTIVATE(s, t)

OwnStep(s) ==
    \/ DecideLeading(s, disk[s].accepted + 1)
    \/ StepDown(s)
    \/ LeaveLeader(s)
    \/ \E kept \in {disk[s].synced, Len(disk[s].log)} :
          \E lists \in FileLists(disk[s]) : Crash(s, kept, lists)
    \/ Restart(s)
    \/ SendLEADERINFO(s)
    \/ CutLog(s)
    \/ WriteSnapshot(s)
    \/ SaveCurrentEpoch(s)
    \/ SendPROPOSAL(s, Len(proposed) + 1)
    \/ \E voters \in SUBSET Server \ {{}, leader[s].quorum.voters} :
          ProposeReconfig(s, Len(proposed) + 1, voters)
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
SpecReconfiguring == InitReconfiguring /\ [][Next]_vars
\* A bound of SpecReplaced: the leader that has crashed does not start again.
LeaderStaysDown == \E s \in Server : role[s] = "DOWN"

SpecReplaced == InitReplaced /\ [][Next]_vars
SpecFiles == InitFiles /\ [][Next]_vars

\* Without votes, the founders are interchangeable, and so are the others.
Symmetry == Permutations(Founders) \union Permutations(Server \ Founders)
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

\* While a leader serves, no other server leads with another list, unless its list is newer.
OneLeaderPerList ==
    \A s, t \in Server :
       s # t /\ role[s] = "LEADING" /\ leader[t].phase = "BROADCAST" => ~HasOtherList(s, t)

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
