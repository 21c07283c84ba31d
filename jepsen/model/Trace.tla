-------------------------------- MODULE Trace --------------------------------
(* Validates traces of the simulator and of real servers: each event of a trace must be a step of the
   model.

   `Traces` is a sequence of pieces of traces, and a piece is a sequence of events. An event is a tuple
   of the action, two sids, a zxid or an epoch, and a number. The action and the sids determine the
   step, so the search has one path for each piece. The number of a reconfiguration is negative: the
   sum of the powers of two that belong to its voters.

   `Numbers` contains the number of each piece's trace. A first piece begins with new servers. Each
   other piece begins with the state of the model at the end of the piece before it, which `Starts`
   contains together with the number of the trace. `HasNext` is set if more pieces follow. *)
EXTENDS Ensemble, TraceData, StartData

VARIABLES
    trace,     \* the number of the trace
    position,  \* the position of the next event
    applied,   \* the end of the tree of each server, according to the events so far
    older      \* other lists that the files of each server may contain

Begin(start) ==
    /\ disk = start[1] /\ role = start[2] /\ tree = start[3] /\ end = start[4]
    /\ established = start[5] /\ writing = start[6] /\ learner = start[7] /\ leader = start[8]
    /\ msgs = start[9] /\ recvset = start[10] /\ applied = start[11] /\ older = start[12]
    /\ vote = [s \in Server |-> <<>>]
    \* These variables only serve the invariants and the bounds.
    /\ proposed = <<>> /\ committed = {} /\ leaders = {} /\ spent = Nothing

TraceInit ==
    /\ trace \in DOMAIN Traces
    /\ position = 1
    /\ IF Starts = {} THEN InitNew /\ applied = [s \in Server |-> 0] /\ older = [s \in Server |-> {}]
       ELSE \E start \in Starts : start[1] = Numbers[trace] /\ Begin(start[2])

\* Prints the state after the last event of a piece.
PrintEnd ==
    HasNext /\ position = Len(Traces[trace]) => PrintT(<<"end of piece", Numbers[trace],
        <<disk', role', tree', end', established', writing', learner', leader', msgs', recvset',
          applied', older'>>>>)

\* A path does not branch, so the position identifies the state.
Place == <<trace, position>>

Event  == Traces[trace][position]
Action == Event[1]
S      == Event[2]
T      == Event[3]
Z      == Event[4]
N      == Event[5]

VotersIn(number) ==
    IF number >= 0 THEN {} ELSE {s \in Server : ((0 - number) \div (2 ^ s)) % 2 = 1}

Transaction == <<Z, N, VotersIn(N)>>

\* A number that the trace does not contain.
Unknown == -2

\* The index of the log record with this zxid, or 0.
IndexOf(s, zxid) == LET at == {i \in DOMAIN disk[s].log : ZxidOf(disk[s].log[i]) = zxid}
                    IN IF at = {} THEN 0 ELSE CHOOSE i \in at : TRUE

\* Whether the next packet from T to S has this kind and content.
Receives(kind, content) == FirstIs(T, S, kind) /\ Head(msgs[T][S])[2] = content

\* The trace contains the votes for the elected leader that a server has received. A vote consists of
\* the epoch, the zxid, the leader, and 1 if the voter was looking for a leader.
Notified ==
    /\ role[S] = "LOOKING"
    /\ recvset' = [recvset EXCEPT ![S][T] =
                      Append(@, <<N \div 200, Z, (N \div 2) % 100, N % 2>>)]
    /\ UNCHANGED <<disk, role, treeVars, learner, leader, msgs, vote, ghostVars, spent>>

\* Voters for l that have a role.
Settled(l) == {t \in Server : \E v \in Range(recvset[S][t]) : v[3] = l /\ v[4] = 0}

Agreeing(ballot) == {t \in Server : \E v \in Range(recvset[S][t]) : v = Append(ballot, 1)}

\* A quorum with S has elected l. A leader is elected with its own vote. If l has no role yet, the vote
\* is not worse than the own vote of S, unless S is not a voter in the committed configuration.
Elects(l) ==
    LET own == <<disk[S].current, LogEnd(disk[S]), S>>
        votes == {own} \union {<<v[1], v[2], v[3]>> :
                                  v \in UNION {Range(recvset[S][t]) : t \in Server}}
        lists == disk[S].lists
        isVoter == S \in lists.config.voters
        settled == {S} \union Settled(l)
    IN \E v \in {x \in votes : x[3] = l} :
          LET electors == settled \union Agreeing(v)
          IN IF S # l /\ l \in settled
             THEN IF isVoter THEN Decides(S, electors) ELSE HasQuorum(lists.config, electors)
             ELSE /\ IF S = l THEN v = own ELSE ~isVoter \/ ~IsBetter(own, v)
                  /\ Decides(S, electors)

\* The zxid in DIFF is informative.
Synchronises(kind) ==
    \E plan \in PlansFor(S, leader[S].peer[T]) :
       /\ plan[1] = kind
       /\ kind = "TRUNC" => plan[2] = Z
       /\ kind = "SNAP" => LeaderEnd(S) = Z
       /\ SyncFollower(S, T, plan)

\* The packet contains the epoch and the end of the log, unless the follower is leaving already.
Acknowledges ==
    /\ SendACKEPOCH(S, T)
    /\ Z # Unknown /\ learner[S].open => Last(msgs'[S][T]) = <<"ACKEPOCH", Z, N>>

\* The code also keeps older snapshots, so it can cut the log before the newest one. The model cuts as
\* if one of them had the name of the beginning of the log.
BeforeCut ==
    IF N = 0 \/ CanTruncate(disk[S], Z) THEN disk[S]
    ELSE LET base == disk[S].base
         IN [disk[S] EXCEPT !.snapshot = [zxid |-> base, tree |-> UpTo(@.tree, base)]]

\* An earlier snapshot in progress may have been abandoned.
StartsSnapshot ==
    /\ end[S] = Z
    /\ IF writing[S] = NoSnapshot THEN StartSnapshot(S)
       ELSE /\ established[S]
            /\ writing' = [writing EXCEPT ![S] = Z]
            /\ UNCHANGED <<disk, role, tree, end, established, learner, leader, msgs, electionVars,
                           ghostVars, spent>>

\* Whether the tree of the server ends at this zxid, according to the events so far. It may count the
\* start of an epoch as the end, or the last transaction before it.
IsEnd(zxid) ==
    /\ zxid <= end[S]
    /\ IsEpochStart(zxid) \/ \E i \in DOMAIN tree[S] : ZxidOf(tree[S][i]) = zxid
    /\ UpTo(tree[S], zxid) = UpTo(tree[S], applied[S])

\* The thread of a real server that writes snapshots runs while transactions are applied, so the tree
\* may lack transactions that are committed.
StartsSnapshotAside ==
    /\ established[S]
    /\ Z = end[S] \/ IsEnd(Z)
    /\ writing' = [writing EXCEPT ![S] = Z]
    /\ UNCHANGED <<disk, role, tree, end, established, learner, leader, msgs, electionVars,
                   ghostVars, spent>>

\* A server has crashed, or its role has ended, before it knew that the log was on disk up to this zxid.
Logged ==
    /\ role[S] # "DOWN"
    /\ Len(UpTo(disk[S].log, Z)) >= disk[S].synced
    /\ disk' = [disk EXCEPT ![S].synced = Len(UpTo(disk[S].log, Z))]
    /\ UNCHANGED <<role, treeVars, learner, leader, msgs, electionVars, ghostVars, spent>>

\* The configurations that are or were in force. The server from which S has received one of them may
\* have a newer one meanwhile. In a history that contains the configuration in force, earlier ones are
\* committed.
ConfigsInForce ==
    UNION {LET config == disk[t].lists.config
               upTo == UpTo(RecoveredTree(disk[t]), config.version)
               configs == {ConfigOf(txn) : txn \in {x \in Range(upTo) : IsReconfig(x)}}
           IN {config} \union (IF config \in configs THEN configs ELSE {}) : t \in Server}

\* The process that starts has found these member lists. The crash may have prevented the step that
\* belongs to the newest of them.
FoundLists ==
    LET installed == {Install(disk[S], config).lists : config \in ConfigsInForce}
    IN \E lists \in FileLists(disk[S]) \union older[S] \union installed :
          /\ lists.config.version = Z
          /\ lists.seen.version = N
          /\ KeepsDiscarded(S, lists)
          /\ disk' = [disk EXCEPT ![S].lists = lists, ![S].saved = lists, ![S].between = {}]
    /\ UNCHANGED <<role, treeVars, learner, leader, msgs, electionVars, ghostVars, spent>>

InstallsConfig ==
    /\ role[S] = "LOOKING"
    /\ \E config \in ConfigsInForce :
          /\ config.version = Z
          /\ disk' = [disk EXCEPT ![S] = Install(@, config)]
    /\ UNCHANGED <<role, treeVars, learner, leader, msgs, electionVars, ghostVars, spent>>

\* The code designates the smallest sid.
DesignatesFirst ==
    leader'[S].designated \notin {NoServer, leader[S].designated} =>
        \A t \in Designated(leader[S], S, leader'[S].ack) : leader'[S].designated <= t

\* Recovery finds each promise. The simulator raises promises on disk.
Promised ==
    /\ role[S] = "DOWN"
    /\ Z >= disk[S].accepted
    /\ disk' = [disk EXCEPT ![S].accepted = Z]
    /\ UNCHANGED <<role, treeVars, learner, leader, msgs, electionVars, ghostVars, spent>>

\* Transactions are applied in the order of the tree, without a gap. The model's tree may already
\* contain more of them.
Applies ==
    /\ LET next == After(tree[S], applied[S]) IN next # <<>> /\ Head(next) = Transaction
    /\ UNCHANGED vars

\* The end of a tree before the first transaction is applied to it.
EndsTree == IsEnd(Z) /\ UNCHANGED vars

\* After these steps, the tree of the server ends where the model's tree ends.
Settling == {"DecideLeading", "DecideFollowing", "Restart", "ReceiveSNAP", "ReceiveTRUNC"}

\* Only transactions that are known to be committed have events. A learner knows this after UPTODATE,
\* and then applies what it has held back.
NextApplied ==
    CASE Action = "Applied"         -> [applied EXCEPT ![S] = Z]
      [] Action = "ReceiveUPTODATE" -> [applied EXCEPT ![S] = end[S]]
      [] Action \in Settling        -> [applied EXCEPT ![S] = end'[S]]
      [] OTHER                      -> applied

\* In the model, the files contain the lists in memory when a role ends or an epoch is accepted. In the
\* code, the next step may come first. The disk works in order: after later work, they contain them.
NextOlder ==
    LET isWork == \/ Action \in {"Crash", "CutLog", "SaveCurrentEpoch"}
                  \/ Action = "SyncLog" /\ disk'[S].synced = Len(disk'[S].log)
    IN [older EXCEPT ![S] = IF isWork THEN {}
                            ELSE IF disk'[S].saved # disk[S].saved THEN @ \union FileLists(disk[S])
                            ELSE @]

Step ==
    CASE Action = "ReceiveNotification" -> Notified
      \* A reconfiguration may designate a leader. After a failed TRUNC, the learner connects to the
      \* same leader again.
      [] Action = "DecideLeading"       -> /\ N = 1 \/ Elects(S)
                                           /\ DecideLeading(S, Max(Z, disk[S].accepted + 1))
      [] Action = "DecideFollowing"     -> (N = 1 \/ Elects(T)) /\ DecideFollowing(S, T)
      [] Action = "StepDown"            -> StepDown(S)
      [] Action = "HandOver"            -> leader[S].designated = T /\ HandOver(S)
      [] Action = "InstallConfig"       -> InstallsConfig
      \* UPTODATE may have ended the role already.
      [] Action = "LeaveLeader"         -> IF role[S] = "LOOKING" THEN UNCHANGED vars ELSE LeaveLeader(S)
      [] Action = "DropLearner"         -> DropLearner(S, T)
      [] Action = "Crash"               -> Crash(S, Len(UpTo(disk[S].log, Z)), disk[S].lists)
      [] Action = "Restart"             -> /\ Restart(S)
                                           /\ LogEnd(disk'[S]) = Z
                                           /\ disk[S].current = N
      [] Action = "SendFOLLOWERINFO"    -> SendFOLLOWERINFO(S, T, Z)
      [] Action = "ReceiveFOLLOWERINFO" -> Receives("FOLLOWERINFO", Z) /\ ReceiveFOLLOWERINFO(S, T)
      [] Action = "SendLEADERINFO"      -> leader[S].epoch = Z /\ SendLEADERINFO(S)
      [] Action = "SendACKEPOCH"        -> Acknowledges
      [] Action = "ReceiveACKEPOCH"     -> ReceiveACKEPOCH(S, T)
      [] Action = "SyncFollowerDIFF"    -> Synchronises("DIFF")
      [] Action = "SyncFollowerTRUNC"   -> Synchronises("TRUNC")
      [] Action = "SyncFollowerSNAP"    -> Synchronises("SNAP")
      [] Action = "ReceiveDIFF"         -> ReceiveDIFF(S, T)
      [] Action = "ReceiveTRUNC"        -> /\ Receives("TRUNC", Z)
                                           /\ CanTruncate(BeforeCut, Z) = (N = 1)
                                           /\ CutsTo(S, T, BeforeCut)
      [] Action = "ReceiveSNAP"         -> Receives("SNAP", Z) /\ ReceiveSNAP(S, T)
      [] Action = "RefuseSync"          -> RefuseSync(S, T)
      [] Action = "ReceivePROPOSAL"     -> Receives("PROPOSAL", Transaction) /\ ReceivePROPOSAL(S, T)
      [] Action = "ReceiveCOMMIT"       -> Receives("COMMIT", Z) /\ ReceiveCOMMIT(S, T)
      [] Action = "ReceiveCOMMITANDACTIVATE" -> /\ Receives("COMMITANDACTIVATE", Z)
                                                /\ Head(msgs[T][S])[3] = N
                                                /\ ReceiveCOMMITANDACTIVATE(S, T)
      [] Action = "ReceiveNEWLEADER"    -> Receives("NEWLEADER", Z) /\ ReceiveNEWLEADER(S, T)
      [] Action = "CutLog"              -> end[S] = Z /\ CutLog(S)
      [] Action = "WriteSnapshot"       -> end[S] = Z /\ WriteSnapshot(S)
      [] Action = "SaveCurrentEpoch"    -> SaveCurrentEpoch(S) /\ disk'[S].current = Z
      [] Action = "ReceiveNEWLEADERACK" -> ReceiveNEWLEADERACK(S, T)
      [] Action = "EstablishEpoch"      -> EstablishEpoch(S, T)
      [] Action = "ReceiveUPTODATE"     -> ReceiveUPTODATE(S, T)
      [] Action = "SendPROPOSAL"        -> LastProposed(S) + 1 = Z /\ SendPROPOSAL(S, N)
      [] Action = "ProposeReconfig"     -> /\ LastProposed(S) + 1 = Z
                                           /\ ProposeReconfig(S, N, VotersIn(N))
      [] Action = "SyncLog"             -> SyncLog(S, IndexOf(S, Z)) /\ DesignatesFirst
      [] Action = "ReceiveACK"          -> Receives("ACK", Z) /\ ReceiveACK(S, T) /\ DesignatesFirst
      [] Action = "StartSnapshot"       -> StartsSnapshot
      [] Action = "StartSnapshotAside"  -> StartsSnapshotAside
      [] Action = "FinishSnapshot"      -> writing[S] = Z /\ FinishSnapshot(S, N)
      [] Action = "Logged"              -> Logged
      [] Action = "Promised"            -> Promised
      [] Action = "FoundLists"          -> FoundLists
      \* Not steps, but observations: a leader has refused a learner, and a server has applied a
      \* transaction to a tree.
      [] Action = "Refused"             -> leader[S].link[T] = "NONE" /\ UNCHANGED vars
      \* The model has no disk from which a server cannot start.
      [] Action = "CannotStart"         -> FALSE
      [] Action = "TreeEnd"             -> EndsTree
      [] Action = "Applied"             -> Applies

TraceNext ==
    /\ position <= Len(Traces[trace])
    /\ Step
    /\ position' = position + 1
    /\ applied' = NextApplied
    /\ older' = NextOlder
    /\ UNCHANGED trace
    /\ PrintEnd

TraceSpec == TraceInit /\ [][TraceNext]_<<vars, trace, position, applied, older>>

\* Prints the positions of accepted events. The event after the last one is rejected.
PrintSpec ==
    TraceInit /\ [][TraceNext /\ PrintT(<<trace, position>>)]_<<vars, trace, position, applied, older>>
=============================================================================
