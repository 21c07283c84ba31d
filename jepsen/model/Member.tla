------------------------------- MODULE Member -------------------------------
(* The state of the members of an ensemble, and the content of their disks.

   A transaction consists of its zxid, a number that no other transaction has, and the voters that
   it installs, which is empty except in a reconfiguration. A tree is the sequence of the
   transactions that it contains, in the order in which they were applied. Its digest is the set of
   these transactions. *)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    Server,        \* The sids.
    Founders,      \* The voters of the first list.
    NoServer,      \* A value that is not a sid.
    AnyLeader,     \* Whether an election may elect any voter. If not, servers compare their votes.
    ShortMemory,   \* Whether a leader may lack the transactions for DIFF and TRUNC.
    Reconfigurable,  \* Whether member lists may change (reconfigEnabled).
    Mutant,        \* The deliberate bug, or "none".
    MaxTxns, MaxElections, MaxCrashes, MaxTimeouts, MaxSnapshots, MaxReconfigs

VARIABLES
    disk,          \* [accepted, current, log, synced, snapshot, base, known, lists, saved, between] of each server
    role,          \* DOWN, LOOKING, FOLLOWING or LEADING
    tree,          \* the transactions in the tree
    end,           \* the zxid of the tree
    established,   \* whether all transactions in the tree are known to be committed
    writing,       \* the name of the snapshot in progress, or NoSnapshot
    learner,       \* the state of a follower
    leader,        \* the state of a leader
    msgs,          \* msgs[i][j]: the packets from i to j that are in flight
    vote,          \* the vote of each server, <<>> without one
    recvset,       \* recvset[i][j]: the vote of j that i has received
    \* The variables that follow only serve the invariants and the bounds.
    proposed,      \* all proposals, each with its leader
    committed,     \* all transactions that a leader has committed
    leaders,       \* pairs of an established epoch and its leader
    spent          \* the number of elections, crashes, timeouts, snapshots and reconfigurations so far

electionVars == <<vote, recvset>>
treeVars     == <<tree, end, established, writing>>
ghostVars    == <<proposed, committed, leaders>>
vars == <<disk, role, treeVars, learner, leader, msgs, electionVars, ghostVars, spent>>
-----------------------------------------------------------------------------
(* Zxids and sequences. *)
Base == 100000
Zxid(epoch, counter) == epoch * Base + counter
EpochOf(zxid)   == zxid \div Base
CounterOf(zxid) == zxid % Base
ZxidOf(txn)     == txn[1]
IsReconfig(txn) == txn[3] # {}

NoSnapshot == -1
NoEpoch    == -1

Max(a, b) == IF a >= b THEN a ELSE b
Range(seq) == {seq[i] : i \in DOMAIN seq}
Last(seq)  == seq[Len(seq)]
DropFirst(seq, n) == SubSeq(seq, n + 1, Len(seq))

After(log, zxid) == SelectSeq(log, LAMBDA txn : ZxidOf(txn) > zxid)
UpTo(log, zxid)  == SelectSeq(log, LAMBDA txn : ZxidOf(txn) <= zxid)

Is(mutant) == Mutant = mutant
-----------------------------------------------------------------------------
(* Configurations, which are member lists with a version: the zxid of the reconfiguration, or 0 for
   the list in the files of a new server.

   `lists.config` is the committed configuration. While `lists.seen` is newer, it was proposed and is
   not known to be committed, and a decision needs a quorum of both. *)
NoConfig == [version |-> -1, voters |-> {}]

FirstLists(voters) == LET config == [version |-> 0, voters |-> voters]
                      IN [config |-> config, seen |-> config]

ConfigOf(txn) == [version |-> ZxidOf(txn), voters |-> txn[3]]

\* The proposed configuration, if it is newer than the committed one.
NextOf(lists) ==
    IF lists.seen.version > lists.config.version /\ ~Is("SeenListIgnored") THEN lists.seen
    ELSE NoConfig

HasQuorum(config, servers) ==
    2 * Cardinality(servers \intersect config.voters) > Cardinality(config.voters)

HasQuorums(config, next, servers) ==
    HasQuorum(config, servers) /\ (next # NoConfig => HasQuorum(next, servers))

\* An older configuration comes from a new leader that does not know the proposed one, which was
\* therefore never committed.
See(d, config) ==
    IF ~Reconfigurable \/ config.version = d.lists.seen.version THEN d
    ELSE [d EXCEPT !.lists.seen = IF config.version > d.lists.config.version THEN config
                                  ELSE d.lists.config,
                   !.between = @ \union {d.lists}]

Install(d, config) ==
    IF ~Reconfigurable \/ config.version <= d.lists.config.version THEN d
    ELSE [d EXCEPT !.lists = [config |-> config,
                              seen |-> IF @.seen.version > config.version THEN @.seen ELSE config],
                   !.between = @ \union {d.lists}]

\* The disk works in order: after later work, the files contain the lists.
Saved(d) == [d EXCEPT !.saved = d.lists, !.between = {}]

\* Lists that the files may contain.
FileLists(d) == {d.saved, d.lists} \union d.between
-----------------------------------------------------------------------------
(* The disk.

   `log` is the transaction log, of which the first `synced` records survive a power failure. It
   begins after `base`. A snapshot is named by the zxid of the tree at its beginning. It may contain
   later transactions, because it is written while transactions are applied.

   `lists` contains the member lists in memory, and `saved` those that the files contained after the
   last completed work of the disk. The files may also contain the lists `between` them.

   `known` is not on the disk. It is the name of the snapshot that the server has loaded, or that it
   has received from a leader. The name of a later snapshot may be the start of an epoch
   without a transaction, which counts as the end of the log only after it is loaded. *)
EmptyDisk == [accepted |-> 0, current |-> 0, log |-> <<>>, synced |-> 0, base |-> 0, known |-> 0,
              snapshot |-> [zxid |-> 0, tree |-> <<>>],
              lists |-> FirstLists(Founders), saved |-> FirstLists(Founders), between |-> {}]

LogEnd(d) == IF d.log = <<>> THEN d.known ELSE Max(ZxidOf(Last(d.log)), d.known)

\* The end of the log that survives a power failure.
DurableEnd(d) == IF d.synced = 0 THEN d.known ELSE Max(ZxidOf(d.log[d.synced]), d.known)

\* Recovery loads the snapshot and replays the log after the snapshot's name.
RecoveredTree(d) ==
    d.snapshot.tree \o SelectSeq(After(d.log, d.snapshot.zxid),
                                 LAMBDA txn : txn \notin Range(d.snapshot.tree))

\* A log that ends before the snapshot does not continue. Its records are in the snapshot.
RecoveredDisk(d) ==
    IF d.log # <<>> /\ ZxidOf(Last(d.log)) < d.snapshot.zxid
    THEN [d EXCEPT !.log = <<>>, !.synced = 0, !.base = d.snapshot.zxid, !.known = d.snapshot.zxid]
    ELSE [d EXCEPT !.synced = Len(d.log), !.known = d.snapshot.zxid]

CanTruncate(d, zxid) ==
    /\ d.snapshot.zxid <= zxid
    /\ zxid = d.base \/ \E i \in DOMAIN d.log : ZxidOf(d.log[i]) = zxid

Truncated(d, zxid) ==
    LET log == UpTo(d.log, zxid)
    IN [d EXCEPT !.log = log, !.synced = Len(log), !.known = d.snapshot.zxid]
-----------------------------------------------------------------------------
(* The tree. *)

\* A fuzzy snapshot may already contain a transaction that is applied again.
Applied(content, zxid, txn) ==
    IF ZxidOf(txn) > zxid /\ txn \in Range(content) THEN content ELSE Append(content, txn)

\* A recursion would evaluate its arguments again and again.
AppliedAll(content, zxid, txns) ==
    LET before(i)  == IF i = 1 THEN zxid ELSE ZxidOf(txns[i - 1])
        isNew(i)   == \/ ZxidOf(txns[i]) <= before(i)
                      \/ txns[i] \notin Range(content) \union {txns[j] : j \in 1..i - 1}
        numbered   == [i \in DOMAIN txns |-> <<i, txns[i]>>]
        new        == SelectSeq(numbered, LAMBDA pair : isNew(pair[1]))
    IN content \o [i \in DOMAIN new |-> new[i][2]]

EndAfter(zxid, txns) == IF txns = <<>> THEN zxid ELSE ZxidOf(Last(txns))

\* A snapshot in progress is discarded before the tree contains what a later leader may truncate.
Discarded(snapshot) == IF Is("SnapshotGuardRemoved") THEN snapshot ELSE NoSnapshot

\* Applies transactions that are not known to be committed.
ApplyUnestablished(s, txns) ==
    /\ tree' = [tree EXCEPT ![s] = AppliedAll(tree[s], end[s], txns)]
    /\ end'  = [end EXCEPT ![s] = EndAfter(end[s], txns)]
    /\ IF txns = <<>> THEN UNCHANGED <<established, writing>>
       ELSE /\ established' = [established EXCEPT ![s] = FALSE]
            /\ writing' = [writing EXCEPT ![s] = Discarded(writing[s])]

\* Replaces the tree.
ReplaceTree(s, content, zxid) ==
    /\ tree' = [tree EXCEPT ![s] = content]
    /\ end'  = [end EXCEPT ![s] = zxid]
    /\ established' = [established EXCEPT ![s] = FALSE]
    /\ writing' = [writing EXCEPT ![s] = Discarded(writing[s])]
-----------------------------------------------------------------------------
(* Links between a leader and its learners.

   A closed connection is noticed by its two ends at different times. The follower's end is
   `learner[f].open`. At the leader, `stale` contains the learners whose connection has ended
   without the leader's knowledge. *)
NoLearner(failedIn) ==
    [leader |-> NoServer, stage |-> "NONE", open |-> FALSE, epoch |-> 0, needsSnapshot |-> FALSE,
     received |-> <<>>, committed |-> 0, config |-> NoConfig, failedIn |-> failedIn]

NotLeading ==
    [phase |-> "NONE", epoch |-> 0, heard |-> {}, acked |-> {}, stale |-> {},
     quorum |-> NoConfig, next |-> NoConfig, config |-> NoConfig, version |-> 0, reconfig |-> 0,
     designated |-> NoServer,
     link |-> [f \in Server |-> "NONE"], peer |-> [f \in Server |-> 0],
     ack  |-> [f \in Server |-> 0]]

\* `quorum` is the configuration in force. `next` is the proposed one, of which a quorum must agree,
\* too. `config` is in NEWLEADER, and `version` is compared with the versions of learners.
LeaderHasQuorum(lead, servers) == HasQuorums(lead.quorum, lead.next, servers)

\* Links whose learners receive each proposal and each commit.
Forwarding == {"NEWLEADER", "ACTIVATION", "BROADCAST"}

Consumed(packets, from, to) == [packets EXCEPT ![from][to] = Tail(@)]
Sent(packets, from, to, more) == [packets EXCEPT ![from][to] = @ \o more]
SentToAll(packets, from, receivers, more) ==
    [packets EXCEPT ![from] = [to \in Server |->
        IF to \in receivers THEN packets[from][to] \o more ELSE packets[from][to]]]

FirstIs(from, to, kind) == msgs[from][to] # <<>> /\ Head(msgs[from][to])[1] = kind

\* A follower sends nothing over a connection that the leader has closed.
SentToLeader(packets, f, l, more) ==
    IF learner[f].open THEN Sent(packets, f, l, more) ELSE packets

\* A leader sends nothing over a connection that the learner has closed.
SentToLearner(packets, l, f, more) ==
    IF f \in leader[l].stale THEN packets ELSE Sent(packets, l, f, more)

SentToLinks(packets, l, states, more) ==
    LET to == {f \in Server : leader[l].link[f] \in states /\ f \notin leader[l].stale}
    IN SentToAll(packets, l, to, more)

IsLearnerOf(f, l) == role[f] = "FOLLOWING" /\ learner[f].leader = l

\* The follower's end of every connection to l is closed.
ClosedByLeader(l, learners) ==
    [f \in Server |-> IF learners[f].leader = l THEN [learners[f] EXCEPT !.open = FALSE]
                                                ELSE learners[f]]

\* A request to connect that the leader has not seen is gone with its connection.
WithoutIntroduction(packets) == SelectSeq(packets, LAMBDA p : p[1] # "FOLLOWERINFO")
=============================================================================
