//! Deliberate bugs in the shipped code. A simulator must catch each of them; they are also used
//! with real servers under faults (`jepsen switches`).
//!
//! Without the feature `mutants`, which only tests enable, no bug can be chosen and the checks are
//! compiled out. With the feature, the code behaves as usual until a bug is chosen.

use std::sync::Arc;

use crate::quorum::QuorumVerifier;

macro_rules! mutants {
    ($( $(#[$doc:meta])* $name:ident, )+) => {
        /// A deliberate bug.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mutant {
            $( $(#[$doc])* $name, )+
        }

        impl Mutant {
            /// All bugs.
            pub const ALL: &'static [Self] = &[$( Self::$name, )+];

            /// Returns the bug with this name.
            pub fn by_name(name: &str) -> Option<Self> {
                match name {
                    $( stringify!($name) => Some(Self::$name), )+
                    _ => None,
                }
            }
        }
    };
}

mutants! {
    /// Half of the voters are a quorum for a leader.
    QuorumOffByOne,
    /// Two commits of one turn are swapped.
    CommitsOutOfOrder,
    /// closeSession does not delete the ephemerals.
    EphemeralsStay,
    /// The server that owns a session's connection is not checked.
    OwnerIgnored,
    /// Transactions that were logged but not applied are forgotten when a role ends: votes omit
    /// them.
    VotesByApplied,
    /// ZOOKEEPER-1818: a leader continues to announce the epoch with which it was elected.
    LeaderKeepsElectedEpoch,
    /// ZOOKEEPER-3526: the committed log survives a snapshot that is newer.
    CommittedLogKeptOverSnapshot,
    /// ZOOKEEPER-4925: transactions of DIFF are missing in the committed log.
    DiffNotInCommittedLog,
    /// Elections ignore which history is newest. Zab is safe with any elected server, because a
    /// wrong leader cannot lead without the missing transactions. Only liveness may break.
    ElectsAnybody,
    /// A log file is treated as synced as soon as it is written.
    AckBeforeSync,
    /// A failed sync of the log is treated as done, and a new file is begun.
    FailedSyncIgnored,
    /// The accepted epoch is reported as saved but not written.
    AcceptedEpochNotSaved,
    /// The current epoch is reported as saved but not written.
    CurrentEpochNotSaved,
    /// A snapshot is named after the zxid at its end, not at its beginning.
    SnapshotNamedTooLate,
    /// A snapshot that was begun in one role is finished in the next.
    SnapshotOutlivesRole,
    /// A snapshot is begun whether or not the tree is established, and continues while a learner
    /// applies transactions that its leader has not established.
    SnapshotOverSync,
    /// A snapshot continues while a learner applies transactions that its leader has not
    /// established.
    GenerationRaisedLate,
    /// A snapshot of a tree is begun that is not established.
    UnestablishedMadeDurable,
    /// TRUNC is reported as done, but nothing is truncated.
    SkipTruncate,
    /// The log is truncated, but the tree is kept.
    TruncateKeepsTree,
    /// ZOOKEEPER-2846: a leader sends its log files although there is a hole after their snapshot.
    LogWithHoleServed,
    /// ZOOKEEPER-4712: the log writer of the previous role continues in the next.
    OldLogWriterLives,
    /// A follower applies transactions that are only proposed.
    AppliesProposals,
    /// A leader leads as soon as its own epoch is on disk.
    NewLeaderQuorumSkipped,
    /// The first transaction after DIFF or TRUNC is omitted.
    DiffFromWrongPoint,
    /// A learner does not report its active sessions to its leader.
    TouchLost,
    /// The digests of transactions are not compared with the tree.
    DigestsNotCompared,
    /// If members have different data, the leader's data is considered correct.
    LeadersDigestIsRight,
    /// A member that has copied its leader's tree is a witness for the leader.
    CopiesAreWitnesses,
    /// A leader whose data differ from a quorum's data continues.
    WrongLeaderStays,
    /// A member with a wrong tree continues to vote, and may be elected.
    WrongTreeVotes,
    /// Events are sent with the next transaction.
    WatchAfterReply,
    /// Reads overtake the preceding writes.
    ReadsOvertakeWrites,
    /// A leader commits and replies as soon as the transaction is on its own disk.
    ReplyBeforeCommit,
    /// ZOOKEEPER-3023: NEWLEADER is acknowledged before the snapshot is on disk.
    NewLeaderBeforeSnapshot,
    /// ZOOKEEPER-3911: transactions of DIFF are acknowledged with NEWLEADER and logged afterwards.
    HistoryLoggedAfterAck,
    /// ZOOKEEPER-4394: a commit between NEWLEADER and UPTODATE is lost.
    CommitBeforeUpToDateLost,
    /// ZOOKEEPER-4643: the current epoch is written before the history.
    EpochBeforeHistory,
    /// ZOOKEEPER-4646: NEWLEADER is acknowledged while the history is still being written.
    HistoryAckedBeforeSync,
    /// ZOOKEEPER-4685: a proposal is acknowledged before NEWLEADER is.
    ProposalAckedBeforeNewLeader,
    /// ZOOKEEPER-4785: proposals received before UPTODATE are acknowledged without being synced.
    SyncProposalsAckedBeforeSync,
    /// A session lives as long as if it had been active only once.
    TouchForgotten,
    /// Requests of a session after its end are executed.
    ClosingSessionUsed,
    /// A request is checked against the applied state, without the transactions in flight.
    PendingIgnored,
    /// The changes of a failed multi are not undone.
    FailedMultiKept,
    /// Any version matches the expected one.
    VersionIgnored,
    /// Writes need no permission.
    AclIgnored,
    /// Reads need no permission.
    ReadAclIgnored,
    /// Hard quotas refuse nothing.
    QuotaIgnored,
    /// A persistent watch ends with its first event.
    PersistentWatchFiresOnce,
    /// A recursive watch ignores descendants.
    RecursiveWatchIsShallow,
    /// A reconnecting client is not notified of the events that its watches missed.
    MissedEventsUntold,
    /// Empty containers are not deleted.
    ContainersStay,
    /// Znodes with a TTL are deleted before it expires.
    TtlIgnored,
    /// A transaction may be longer than a member can read.
    LongTransactionTaken,
    /// A leader's epoch is not higher than the epochs that voters have accepted.
    EpochNotRaised,
    /// Transactions that only the learner has are not truncated.
    TailNotTruncated,
    /// A reconfiguration does not need a quorum of the new members.
    ReconfigByOldQuorum,
    /// Observers do not receive committed transactions.
    ObserversNotInformed,
    /// Proposals are not sent to synchronised learners.
    ProposalsNotSent,
    /// A learner answers a sync without its leader.
    SyncAnsweredHere,
    /// A leader or a standalone server answers a sync before the writes that it received earlier.
    SyncOvertakesWrites,
    /// A leader reports each session that moved to a learner as expired.
    RenewalsRefused,
    /// A local session does not become global before its first ephemeral.
    UpgradeForgotten,
    /// Transactions in flight in an earlier role are used in the next.
    OverlayOutlivesRole,
    /// Clients' connections survive the end of a role.
    ConnectionsOutliveRole,
    /// A learner treats the next transaction of a session as the reply that the session waits for.
    RepliesMixedUp,
    /// Votes of one epoch are compared only by the ids of servers.
    VotesIgnoreZxid,
    /// Data that an earlier process did not sync is not rewritten.
    CacheTrusted,
    /// A snapshot gets its name before it is on disk.
    SnapshotNotSynced,
    /// The name of a new log file is not made durable.
    LogNameNotSynced,
    /// A leader's snapshot replaces a history, and no record of it remains after the snapshot is
    /// removed.
    SeamNotNoted,
    /// The change history continues across a seam of the log.
    SeamIgnored,
    /// The change history omits a transaction that follows another one directly.
    ChangeLeftOut,
    /// A follower forwards requests that arrive over an older connection of a session than its
    /// current one.
    LateRequestsRelayed,
    /// A follower orders an observer that is further in the epoch to truncate its log, and the
    /// observer does.
    ObserverCutBack,
    /// A leader decides alone until the oracle withdraws its answer.
    OracleAnswerKept,
    /// A server that has loaded its leader's snapshot treats the log before it as part of that
    /// history.
    LogWholeFromKept,
    /// A follower does not forward that one of its observers has different data.
    ObserversDigestsIgnored,
    /// A server that has set its history aside votes with its remaining data.
    UntrustedVotes,
    /// A corrupted log ends at the corruption, although records follow.
    DamageEndsLog,
    /// A record whose checksum lost a sector's end to a power failure counts as corrupted.
    LostChecksumIsDamage,
    /// A voter that has accepted a later epoch than its leader's cannot join.
    VoterAheadLeftOut,
    /// A snapshot that does not load is skipped, though the log does not lead to its transaction.
    LostSnapshotIgnored,
    /// A session whose upgrade waits for its long requests is unknown until then.
    WaitingUpgradeUnknown,
    /// An upgrade returns its session to the connection over which it arrived, regardless of the
    /// session's current server.
    UpgradeTakesBack,
    /// A client does not search for a znode that may have been created when the reply was lost.
    LostCreationNotSought,
    /// A client does not set its watches again on the next connection.
    WatchesNotSetAgain,
    /// The deferred work of a dropped handle is not done.
    ChoresForgotten,
    /// A contender treats the end of its predecessor as its own turn.
    NotLookedAgain,
    /// A lock or lease counts as held without a connection.
    HeldWithoutConnection,
    /// A contender that is dropped stays in the queue.
    DroppedPlaceStays,
    /// Readers do not wait for writers.
    ReadersIgnoreWriters,
    /// A writer becomes a reader without checking that it still holds the lock.
    DowngradeUnchecked,
    /// Contenders are ordered by their names.
    OrderedByName,
    /// One more lease is granted than exists.
    OneLeaseTooMany,
    /// A request that is safe only in one session is sent in the next.
    SentInAnySession,
    /// A leader deletes the znode again after a lost reply, regardless of its current owner.
    NextLeaderDeleted,
    /// A request that is repeated after a lost reply is executed without checking whether it
    /// already was.
    RepeatedUnconditionally,
    /// A leader treats an ended global session as a local session of another server.
    EndedSessionsForgotten,
    /// A flush that waits for the end of a turn is not executed.
    FlushOfTurnLost,
    /// A flush that waits for the replies of a step is not executed.
    FlushOfStepLost,
    /// A sync in place is reported before it has ended. The simulator's host contains this bug.
    InPlaceSyncReportedEarly,
    /// A thread runs the core while another thread runs it. The simulator's host contains this bug.
    CoreRunTwice,
    /// The core of a member syncs in place.
    MemberSyncsInPlace,
    /// A visiting thread runs a core that may sync in place.
    VisitorMaySync,
    /// A visiting thread syncs although no other thread continues its work.
    EachVisitorSyncs,
    /// The log thread writes the next group while a visitor has the previous one.
    LogThreadOvertakesVisitor,
    /// A group is logged before preceding orders are executed.
    GroupOvertakesOrders,
    /// The core syncs in place while the log thread has work.
    SyncOvertakesLog,
    /// The core syncs in place again directly after a slow sync.
    SlowSyncForgotten,
    /// The group of an observer waits for more transactions without a limit.
    GroupGathersForever,
}

impl Mutant {
    /// Wrong rules of the schedule, which the tables of its rules catch
    /// (`hosting/src/schedule/tests.rs`). They cost time, or break a rule about threads, which the
    /// simulator does not have.
    pub const CAUGHT_BY_TABLES: [Self; 8] = [
        Self::MemberSyncsInPlace,
        Self::VisitorMaySync,
        Self::EachVisitorSyncs,
        Self::LogThreadOvertakesVisitor,
        Self::GroupOvertakesOrders,
        Self::SyncOvertakesLog,
        Self::SlowSyncForgotten,
        Self::GroupGathersForever,
    ];
}

/// Whether this build contains the bugs. `server` does not compile for release with these bugs.
pub const ARE_AVAILABLE: bool = cfg!(feature = "mutants");

#[cfg(feature = "mutants")]
thread_local! {
    static CHOSEN: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Chooses the bug of everything that runs on this thread from now on. Returns `false` if this
/// build does not contain the bugs.
#[cfg(feature = "mutants")]
pub fn choose(mutant: Option<Mutant>) -> bool {
    CHOSEN.set(mutant);
    true
}

/// Chooses the bug of everything that runs on this thread from now on. Returns `false` if this
/// build does not contain the bugs.
#[cfg(not(feature = "mutants"))]
pub const fn choose(_: Option<Mutant>) -> bool {
    false
}

/// Bug of a whole process, for servers that tests start.
#[cfg(feature = "mutants")]
static OF_PROCESS: std::sync::OnceLock<Mutant> = std::sync::OnceLock::new();

/// Chooses the bug of all threads for the rest of the process. Returns `false` if this build does
/// not contain the bugs, or another one was chosen.
#[cfg(feature = "mutants")]
pub fn choose_for_process(mutant: Mutant) -> bool {
    *OF_PROCESS.get_or_init(|| mutant) == mutant
}

/// Returns whether this bug is chosen.
#[cfg(feature = "mutants")]
pub fn is(mutant: Mutant) -> bool {
    CHOSEN.get() == Some(mutant) || OF_PROCESS.get() == Some(&mutant)
}

/// Returns whether this bug is chosen.
#[cfg(not(feature = "mutants"))]
#[inline]
pub const fn is(_: Mutant) -> bool {
    false
}

/// Returns the quorum verifier of these voters, possibly with the bug.
pub fn quorum(voters: Arc<dyn QuorumVerifier>) -> Arc<dyn QuorumVerifier> {
    if is(Mutant::QuorumOffByOne) {
        Arc::new(HalfIsEnough(voters))
    } else {
        voters
    }
}

#[derive(Debug)]
struct HalfIsEnough(Arc<dyn QuorumVerifier>);

impl QuorumVerifier for HalfIsEnough {
    fn voters(&self) -> &std::collections::BTreeSet<crate::Sid> {
        self.0.voters()
    }

    fn weight(&self, sid: crate::Sid) -> u64 {
        self.0.weight(sid)
    }

    fn is_quorum(&self, has: &dyn Fn(crate::Sid) -> bool) -> bool {
        let voters = self.voters();
        let having = voters.iter().filter(|sid| has(**sid)).count();
        self.0.is_quorum(has) || having >= voters.len() / 2
    }
}
