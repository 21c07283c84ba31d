------------------------------ MODULE Behaviours ------------------------------
(* Behaviours that a driver makes the simulator follow (crates/simulator/src/explorer/behaviours).

   TLC draws them at random. Each step of `Next` is a step of `Ensemble!Next`, without the reduction
   there, and with `AnyLeader` and `ShortMemory`. README.md lists the steps that are left out, because
   the code cannot take them. *)
EXTENDS Ensemble

VARIABLES
    step,     \* the last step: the action, the servers and the value that the driver needs
    memory,   \* the newest transactions in each server's memory, for DIFF and TRUNC
    ahead     \* ahead[l]: voters that have accepted a later epoch than leader l, which knows it

extended == <<vars, step, memory, ahead>>

InitBehaviours ==
    /\ InitNew
    /\ step = <<"Init", 0, 0, 0>>
    /\ memory = [s \in Server |-> <<>>]
    /\ ahead = [s \in Server |-> {}]
-----------------------------------------------------------------------------
(* Steps that the code takes together with the step before them. *)

\* After a cut that failed, the server follows the same leader without an election.
FollowsAgain == step[1] = "ReceiveTRUNC" /\ role[step[2]] = "LOOKING"

\* A reconfiguration that designates another leader ends the role, and the next role begins without an
\* election.
IsAppointed ==
    \/ step[1] = "HandOver"
    \/ step[1] = "ReceiveCOMMITANDACTIVATE" /\ role[step[2]] = "LOOKING"

Appointee == IF step[1] = "HandOver" THEN step[3] ELSE step[4]

IsFree == ~FollowsAgain /\ ~IsAppointed /\ \A l \in Server : ~IsDue(l)

\* Faults come after some other steps.
Seldom(n) == RandomElement(1..n) = 1

Step(name, s, t, value) == IsFree /\ step' = <<name, s, t, value>>

\* The transactions in memory. A restart, and a snapshot of the leader, leave none. A leader whose
\* log does not end with the newest one forgets all of them. A follower that loses its leader at
\* UPTODATE remembers the transactions that it has held back.
Remembers(s) ==
    memory' = [memory EXCEPT ![s] =
        LET new   == SubSeq(tree'[s], Len(tree[s]) + 1, Len(tree'[s]))
            last  == IF @ = <<>> THEN 0 ELSE ZxidOf(Last(@))
        IN IF step'[1] \in {"Crash", "Restart", "ReceiveSNAP"} THEN <<>>
           ELSE IF step'[1] \in {"DecideLeading", "LeadAsDesignated"}
           THEN IF last = LogEnd(disk[s]) THEN @ ELSE <<>>
           ELSE IF step'[1] = "ReceiveTRUNC" \/ (HasUnsavedTree(s) /\ role'[s] # role[s])
           THEN UpTo(@, end'[s])
           ELSE IF step'[1] = "ReceiveUPTODATE"
           THEN @ \o After(SubSeq(learner[s].received, 1, learner[s].committed), last)
           ELSE @ \o After(new, last)]

\* Step of s that leaves the other servers' memory as it is.
Takes(s) == Remembers(s) /\ UNCHANGED ahead
-----------------------------------------------------------------------------
(* The choice between DIFF, TRUNC and SNAP by the transactions in memory. *)
PlanFor(l, peer) ==
    LET last == LeaderEnd(l)
        max == IF memory[l] = <<>> THEN last ELSE ZxidOf(Last(memory[l]))
        min == IF memory[l] = <<>> THEN last ELSE ZxidOf(Head(memory[l]))
        before == UpTo(memory[l], peer)
        next == After(memory[l], peer)
    IN IF peer = last THEN <<"DIFF", peer>>
       ELSE IF peer > max /\ ~IsEpochStart(peer)
       THEN IF IsEpochStart(max) /\ max # 0 THEN Snap ELSE <<"TRUNC", max>>
       ELSE IF peer < min \/ peer > max THEN Snap
       ELSE IF IsEpochStart(peer) \/ (before # <<>> /\ ZxidOf(Last(before)) = peer)
       THEN <<"DIFF", peer>>
       ELSE IF before # <<>> /\ next # <<>> /\ EpochOf(ZxidOf(Head(next))) = EpochOf(peer)
       THEN <<"TRUNC", ZxidOf(Last(before))>>
       ELSE Snap
-----------------------------------------------------------------------------
(* What the code adds to the conditions of the model. *)

\* The votes of other servers cannot elect a server that no known configuration contains.
MayFollow(s, l) == l \in Electorate(s)

\* The smallest sid among the voters that the model permits.
DesignatesFirst(l, designated, voters) == designated # l => \A s \in voters : designated <= s

\* Of the voters with the longest log, the first one leads.
CommitsFirst(l) ==
    LET designated == leader'[l].designated
        acks == leader'[l].ack
    IN designated # NoServer => DesignatesFirst(l, designated,
           {s \in leader[l].next.voters : acks[s] = acks[designated]})

\* A leader whose own vote decides does not lose its quorum.
NeedsLearners(l) == ~LeaderHasQuorum(leader[l], {l})

\* The end of a role waits for files that are being written.
WritesNoFile(s) ==
    CASE role[s] = "LEADING" ->
           /\ leader[s].phase # "PROMISING"
           /\ leader[s].phase = "SYNCHRONIZATION" => s \in leader[s].acked
      [] role[s] = "FOLLOWING" -> learner[s].stage \notin {"CUT", "EPOCH"}
      [] OTHER -> TRUE

\* Configurations in the files after a crash. The disk works in order: it writes a proposed
\* configuration after all earlier records, and before its proposal. An epoch that is being saved, or
\* a cut, comes before what the follower has received since then.
KeptLists(s, kept) ==
    LET d == disk[s]
        isNext == /\ kept < Len(d.log)
                  /\ d.lists.config = d.saved.config
                  /\ d.lists.seen.version = ZxidOf(d.log[kept + 1])
        isFirst == WritesNoFile(s) \/ role[s] = "LEADING" \/ learner[s].received = <<>>
    IN IF kept > d.synced THEN {d.lists}
       ELSE IF (kept = Len(d.log) \/ isNext) /\ isFirst THEN {d.saved, d.lists}
       ELSE {d.saved}

\* A server refuses files that do not contain it.
AcceptsFiles(s) == s \in disk[s].lists.config.voters

\* A leader that meets a voter with a later promise for the second time ends.
MeetsAgain(l, f) ==
    /\ msgs[f][l] # <<>>
    /\ Head(msgs[f][l])[1] = "FOLLOWERINFO"
    /\ Head(msgs[f][l])[2] > leader[l].epoch
    /\ f \in ahead[l]

Meets(l, f) ==
    ahead' = [ahead EXCEPT ![l] =
        IF /\ leader[l].phase # "DISCOVERY"
           /\ Head(msgs[f][l])[2] > leader[l].epoch
           /\ Head(msgs[f][l])[3] <= leader[l].version
           /\ f \in leader[l].quorum.voters
        THEN @ \union {f} ELSE @ \ {f}]

\* The code keeps older snapshots than the newest, and may cut the log before the newest one. All its
\* snapshots are at `base` or later.
MayCut(f, l) ==
    LET zxid == Head(msgs[l][f])[2]
    IN disk[f].snapshot.zxid <= zxid \/ zxid < disk[f].base
-----------------------------------------------------------------------------
TogetherSteps ==
    \/ \E l, f \in Server :
          /\ leader[l].link[f] = "SYNC"
          /\ LET plan == PlanFor(l, leader[l].peer[f])
             IN SyncFollower(l, f, plan) /\ step' = <<"SyncFollower", l, f, plan[1]>> /\ Takes(l)
    \/ \E l, designated \in Server :
          /\ EstablishEpoch(l, designated)
          /\ DesignatesFirst(l, designated, (leader[l].acked \intersect leader[l].next.voters) \ {l})
          /\ step' = <<"EstablishEpoch", l, designated, 0>>
          /\ Takes(l)
    \/ \E l \in Server :
          HandOver(l) /\ step' = <<"HandOver", l, leader[l].designated, 0>> /\ Takes(l)
    \/ /\ IsAppointed
       /\ IF Appointee = step[2]
          THEN /\ DecideLeading(step[2], disk[step[2]].accepted + 1)
               /\ step' = <<"LeadAsDesignated", step[2], 0, 0>>
               /\ Remembers(step[2])
               /\ ahead' = [ahead EXCEPT ![step[2]] = {}]
          ELSE /\ DecideFollowing(step[2], Appointee)
               /\ step' = <<"FollowDesignated", step[2], Appointee, 0>>
               /\ UNCHANGED <<memory, ahead>>
    \/ /\ FollowsAgain
       /\ DecideFollowing(step[2], step[3])
       /\ step' = <<"FollowAgain", step[2], step[3], 0>>
       /\ UNCHANGED <<memory, ahead>>

FaultSteps ==
    \/ \E s \in Server : Seldom(9) /\ Step("StepDown", s, 0, 0) /\ WritesNoFile(s)
          /\ NeedsLearners(s) /\ StepDown(s) /\ Takes(s)
    \/ \E s \in Server : Step("LeaveLeader", s, learner[s].leader, 0) /\ WritesNoFile(s)
          /\ role[s] = "FOLLOWING"
          /\ (IF MustLeave(s) THEN msgs[learner[s].leader][s] = <<>> \/ Seldom(6) ELSE Seldom(15))
          /\ LeaveLeader(s)
          /\ Takes(s)
    \/ \E s, t \in Server : s # t /\ (t \in leader[s].stale \/ Seldom(25))
          /\ Step("DropLearner", s, t, 0) /\ DropLearner(s, t) /\ Takes(s)
    \/ \E s \in Server : Seldom(12) /\ \E kept \in {disk[s].synced, Len(disk[s].log)} :
          \E lists \in KeptLists(s, kept) :
             Step("Crash", s, 0, kept) /\ Crash(s, kept, lists) /\ Takes(s)
    \/ \E s \in Server : Step("Restart", s, 0, 0) /\ AcceptsFiles(s) /\ Restart(s) /\ Takes(s)

RoleSteps ==
    \/ \E s \in Server : ((\A t \in Server : role[t] # "LEADING") \/ Seldom(3))
          /\ Step("DecideLeading", s, 0, disk[s].accepted + 1) /\ DecideLeading(s, disk[s].accepted + 1)
          /\ Remembers(s) /\ ahead' = [ahead EXCEPT ![s] = {}]
    \/ \E s, t \in Server : role[t] = "LEADING" /\ MayFollow(s, t) /\ Step("DecideFollowing", s, t, 0)
          /\ DecideFollowing(s, t) /\ Takes(s)
    \/ \E s, t \in Server : Step("InstallConfig", s, t, 0) /\ InstallConfig(s, t) /\ Takes(s)

DiscoverySteps ==
    \/ \E s, t \in Server : Step("SendFOLLOWERINFO", s, t, 0)
          /\ SendFOLLOWERINFO(s, t, disk[s].accepted) /\ Takes(s)
    \/ \E s, t \in Server : ~MeetsAgain(s, t) /\ Step("ReceiveFOLLOWERINFO", s, t, 0)
          /\ ReceiveFOLLOWERINFO(s, t) /\ Remembers(s) /\ Meets(s, t)
    \/ \E s \in Server : Step("SendLEADERINFO", s, 0, 0) /\ SendLEADERINFO(s) /\ Takes(s)
    \/ \E s, t \in Server : Step("SendACKEPOCH", s, t, 0) /\ SendACKEPOCH(s, t) /\ Takes(s)
    \/ \E s, t \in Server : Step("ReceiveACKEPOCH", s, t, 0) /\ ReceiveACKEPOCH(s, t) /\ Takes(s)

SyncSteps ==
    \/ \E s, t \in Server : Step("ReceiveDIFF", s, t, 0) /\ ReceiveDIFF(s, t) /\ Takes(s)
    \/ \E s, t \in Server : Step("ReceiveTRUNC", s, t, 0) /\ FirstIs(t, s, "TRUNC")
          /\ MayCut(s, t) /\ ReceiveTRUNC(s, t) /\ Takes(s)
    \/ \E s, t \in Server : Step("RefuseSync", s, t, 0) /\ RefuseSync(s, t) /\ Takes(s)
    \/ \E s, t \in Server : Step("ReceiveSNAP", s, t, 0) /\ ReceiveSNAP(s, t) /\ Takes(s)
    \/ \E s, t \in Server : Step("ReceiveNEWLEADER", s, t, 0) /\ ReceiveNEWLEADER(s, t) /\ Takes(s)
    \/ \E s \in Server : Step("CutLog", s, 0, 0) /\ CutLog(s) /\ Takes(s)
    \/ \E s \in Server : Step("WriteSnapshot", s, 0, 0) /\ WriteSnapshot(s) /\ Takes(s)
    \/ \E s \in Server : Step("SaveCurrentEpoch", s, 0, 0) /\ SaveCurrentEpoch(s) /\ Takes(s)
    \/ \E s, t \in Server : Step("ReceiveNEWLEADERACK", s, t, 0) /\ ReceiveNEWLEADERACK(s, t) /\ Takes(s)
    \/ \E s, t \in Server : Step("ReceiveUPTODATE", s, t, 0) /\ ReceiveUPTODATE(s, t) /\ Takes(s)

BroadcastSteps ==
    \/ \E s \in Server : Seldom(2) /\ Step("SendPROPOSAL", s, 0, Len(proposed) + 1)
          /\ SendPROPOSAL(s, Len(proposed) + 1) /\ Takes(s)
    \/ \E s \in Server : \E voters \in SUBSET Server \ {{}} : Seldom(3)
          /\ Step("ProposeReconfig", s, 0, Len(proposed) + 1)
          /\ voters # leader[s].quorum.voters
          /\ ProposeReconfig(s, Len(proposed) + 1, voters)
          /\ Takes(s)
    \/ \E s, t \in Server : Step("ReceivePROPOSAL", s, t, 0) /\ ReceivePROPOSAL(s, t) /\ Takes(s)
    \/ \E s, t \in Server : Step("ReceiveACK", s, t, 0) /\ ReceiveACK(s, t)
          /\ CommitsFirst(s) /\ Takes(s)
    \/ \E s, t \in Server : Step("ReceiveCOMMIT", s, t, 0) /\ ReceiveCOMMIT(s, t) /\ Takes(s)
    \/ \E s, t \in Server : /\ FirstIs(t, s, "COMMITANDACTIVATE")
          /\ LET designated == Head(msgs[t][s])[3]
             IN /\ Step("ReceiveCOMMITANDACTIVATE", s, t, designated)
                /\ designated = t \/ WritesNoFile(s)
          /\ ReceiveCOMMITANDACTIVATE(s, t)
          /\ Takes(s)
    \/ \E s \in Server : Step("SyncLog", s, 0, 0) /\ SyncLog(s, Len(disk[s].log))
          /\ CommitsFirst(s) /\ Takes(s)
    \/ \E s \in Server : Seldom(6) /\ Step("StartSnapshot", s, 0, 0) /\ StartSnapshot(s) /\ Takes(s)
    \/ \E s \in Server : Step("FinishSnapshot", s, 0, 0) /\ FinishSnapshot(s, end[s]) /\ Takes(s)

\* A behaviour must not end because each fault came too seldom.
Idle ==
    /\ IsFree
    /\ spent.timeouts < MaxTimeouts \/ spent.crashes < MaxCrashes
    /\ step' = <<"Idle", 0, 0, 0>>
    /\ UNCHANGED <<vars, memory, ahead>>

BehavioursNext ==
    \/ TogetherSteps
    \/ FaultSteps
    \/ RoleSteps
    \/ DiscoverySteps
    \/ SyncSteps
    \/ BroadcastSteps
    \/ Idle

SpecBehaviours == InitBehaviours /\ [][BehavioursNext]_extended
=============================================================================
