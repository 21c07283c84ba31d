//! Deliberate bugs in the code that ships, for a simulator that must catch each of them, and for real
//! servers under faults (`jepsen switches`).
//!
//! Without the feature `mutants`, which only tests turn on, none can be chosen and nothing of this is
//! left in the code. With it, nothing changes until one is chosen.

use std::sync::Arc;

use crate::quorum::QuorumVerifier;

macro_rules! mutants {
    ($( $(#[$doc:meta])* $name:ident, )+) => {
        /// One duty that is not done.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mutant {
            $( $(#[$doc])* $name, )+
        }

        impl Mutant {
            /// All of them.
            pub const ALL: &'static [Self] = &[$( Self::$name, )+];

            /// The one that is named so above.
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
    /// Two commits of one turn change places.
    CommitsOutOfOrder,
    /// closeSession leaves the ephemerals.
    EphemeralsStay,
    /// Who holds a session's connection is not looked at.
    OwnerIgnored,
    /// What was logged and not applied is forgotten with the role: votes do not name it.
    VotesByApplied,
    /// ZOOKEEPER-1818: a leader goes on naming the epoch it was elected with.
    LeaderKeepsElectedEpoch,
    /// ZOOKEEPER-3526: the committed log survives a snapshot that goes beyond it.
    CommittedLogKeptOverSnapshot,
    /// ZOOKEEPER-4925: what DIFF brought is missing in the committed log.
    DiffNotInCommittedLog,
    /// Whose history is newest does not count in an election. Zab is safe whoever is elected: what a
    /// wrong leader lacks keeps it from leading. Nothing but liveness may break.
    ElectsAnybody,
    /// A log file counts as synced as soon as it is written.
    AckBeforeSync,
    /// A sync of the log that fails counts as done, and a new file is begun.
    FailedSyncIgnored,
    /// The accepted epoch is reported as saved and is not written.
    AcceptedEpochNotSaved,
    /// The current epoch is reported as saved and is not written.
    CurrentEpochNotSaved,
    /// A snapshot is named after the end of its making, not after its beginning.
    SnapshotNamedTooLate,
    /// A snapshot that was begun in one role is finished in the next.
    SnapshotOutlivesRole,
    /// A snapshot is begun whether the tree is established or not, and goes on while a learner applies what
    /// its leader has not established.
    SnapshotOverSync,
    /// A snapshot goes on while a learner applies what its leader has not established.
    GenerationRaisedLate,
    /// A snapshot is begun of a tree that is not established.
    UnestablishedMadeDurable,
    /// TRUNC is reported as done, and nothing is cut.
    SkipTruncate,
    /// The log is cut, and the tree stays.
    TruncateKeepsTree,
    /// ZOOKEEPER-2846: a leader sends its log files although there is a hole behind their snapshot.
    LogWithHoleServed,
    /// ZOOKEEPER-4712: the writer of the last role goes on in the next.
    OldLogWriterLives,
    /// A follower applies what is only proposed.
    AppliesProposals,
    /// A leader leads as soon as its own epoch is on disk.
    NewLeaderQuorumSkipped,
    /// The first transaction behind DIFF or TRUNC is left out.
    DiffFromWrongPoint,
    /// A learner does not tell its leader which sessions it heard from.
    TouchLost,
    /// No digest of a transaction is compared with the tree.
    DigestsNotCompared,
    /// Of members that hold different data, the leader counts as right.
    LeadersDigestIsRight,
    /// A member that has copied its leader's tree is a witness for it.
    CopiesAreWitnesses,
    /// A leader that holds other data than a quorum goes on.
    WrongLeaderStays,
    /// A member whose tree is wrong votes on, and may be elected.
    WrongTreeVotes,
    /// Events are handed out with the next transaction.
    WatchAfterReply,
    /// Reads overtake the writes before them.
    ReadsOvertakeWrites,
    /// A leader commits, and replies, as soon as its own disk has the transaction.
    ReplyBeforeCommit,
    /// ZOOKEEPER-3023: NEWLEADER is acknowledged before the snapshot is on disk.
    NewLeaderBeforeSnapshot,
    /// ZOOKEEPER-3911: what DIFF brought is acknowledged with NEWLEADER and logged afterwards.
    HistoryLoggedAfterAck,
    /// ZOOKEEPER-4394: a commit between NEWLEADER and UPTODATE is lost.
    CommitBeforeUpToDateLost,
    /// ZOOKEEPER-4643: the current epoch is written before the history.
    EpochBeforeHistory,
    /// ZOOKEEPER-4646: NEWLEADER is acknowledged while the history is still being written.
    HistoryAckedBeforeSync,
    /// ZOOKEEPER-4685: a proposal is acknowledged before NEWLEADER is.
    ProposalAckedBeforeNewLeader,
    /// ZOOKEEPER-4785: proposals that came before UPTODATE are acknowledged without being synced.
    SyncProposalsAckedBeforeSync,
    /// A session lives as long as if it had been heard from once.
    TouchForgotten,
    /// What a session asks for behind its end is carried out.
    ClosingSessionUsed,
    /// A request is judged by what is applied, without what is under way.
    PendingIgnored,
    /// What a multi that fails has noted is not taken back.
    FailedMultiKept,
    /// Any version is the one expected.
    VersionIgnored,
    /// Writes need no permission.
    AclIgnored,
    /// Reads need no permission.
    ReadAclIgnored,
    /// Hard quotas refuse nothing.
    QuotaIgnored,
    /// A persistent watch ends with its first event.
    PersistentWatchFiresOnce,
    /// A recursive watch is not about what lies below.
    RecursiveWatchIsShallow,
    /// A client that comes back is not told what its watches have missed.
    MissedEventsUntold,
    /// Empty containers are not deleted.
    ContainersStay,
    /// Znodes with a TTL are deleted before it is over.
    TtlIgnored,
    /// A transaction may be longer than a member can read.
    LongTransactionTaken,
    /// A leader's epoch is not above what voters have accepted.
    EpochNotRaised,
    /// What a learner has beyond its leader is not cut off.
    TailNotTruncated,
    /// A reconfiguration needs no quorum of the new members.
    ReconfigByOldQuorum,
    /// Observers are not told what is committed.
    ObserversNotInformed,
    /// What is proposed is not sent to those who are in sync.
    ProposalsNotSent,
    /// A learner answers a sync without its leader.
    SyncAnsweredHere,
    /// A leader or a standalone server answers a sync before the writes that it received earlier.
    SyncOvertakesWrites,
    /// A leader says of every session that came to a learner that it is over.
    RenewalsRefused,
    /// A local session does not become global before its first ephemeral.
    UpgradeForgotten,
    /// What was under way in an earlier role counts in the next.
    OverlayOutlivesRole,
    /// Connections of clients live on when a role ends.
    ConnectionsOutliveRole,
    /// A learner takes the next transaction of a session for the answer it waits for.
    RepliesMixedUp,
    /// Votes of one epoch are compared by the ids of servers alone.
    VotesIgnoreZxid,
    /// What an earlier process did not sync is not written once more.
    CacheTrusted,
    /// A snapshot gets its name before it is on disk.
    SnapshotNotSynced,
    /// The name of a new log file is not made durable.
    LogNameNotSynced,
    /// A leader's snapshot takes the place of a history, and nothing says so once it is gone.
    SeamNotNoted,
    /// The change history goes over a place at which the log is parted.
    SeamIgnored,
    /// The change history leaves out a transaction that comes right behind another.
    ChangeLeftOut,
    /// A follower passes on what comes over an older connection of a session than that over which it
    /// came back.
    LateRequestsRelayed,
    /// A follower has an observer cut its log that has heard more of the epoch, and the observer does.
    ObserverCutBack,
    /// A leader decides alone for as long as the oracle has not taken its word back.
    OracleAnswerKept,
    /// A server that has taken over its leader's snapshot counts the log in front of it to the same history.
    LogWholeFromKept,
    /// A follower does not pass on that an observer of it holds other data.
    ObserversDigestsIgnored,
    /// A server that has set its history aside votes with what is left.
    UntrustedVotes,
    /// A log that is damaged, with records behind, ends there.
    DamageEndsLog,
    /// A voter that has accepted a later epoch than its leader's stays outside.
    VoterAheadLeftOut,
    /// A snapshot that does not load is passed over, though the log does not lead to its transaction.
    LostSnapshotIgnored,
    /// A session whose upgrade waits behind its long requests is unknown until then.
    WaitingUpgradeUnknown,
    /// An upgrade gives its session back to the connection that it came over, wherever it is now.
    UpgradeTakesBack,
    /// A client does not look for what may have been created when the answer was lost.
    LostCreationNotSought,
    /// A client does not set its watches again on the next connection.
    WatchesNotSetAgain,
    /// What a handle that was dropped leaves to be done is not done.
    ChoresForgotten,
    /// A contender takes the end of the one ahead for its own turn.
    NotLookedAgain,
    /// What is held counts as held while there is no connection.
    HeldWithoutConnection,
    /// A contender that is let go stays in the queue.
    DroppedPlaceStays,
    /// Readers wait for nobody.
    ReadersIgnoreWriters,
    /// A writer becomes a reader whether it is still there or not.
    DowngradeUnchecked,
    /// Contenders come in the order of their names.
    OrderedByName,
    /// One lease more than there are.
    OneLeaseTooMany,
    /// What is safe in one session only is sent in the next.
    SentInAnySession,
    /// A leader deletes the znode again after a lost answer, whosever it is by now.
    NextLeaderDeleted,
    /// What is asked for again after a lost answer is carried out whether it was before or not.
    RepeatedUnconditionally,
    /// A leader takes a global session that has ended for a local session of another server.
    EndedSessionsForgotten,
    /// A flush that waits for the end of a turn is not carried out.
    FlushOfTurnLost,
    /// A flush that waits for the replies of a step is not carried out.
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
    /// The log thread writes the next group while a visitor has the one before.
    LogThreadOvertakesVisitor,
    /// A group goes to the log before orders that precede it.
    GroupOvertakesOrders,
    /// The core syncs in place while the log thread has work.
    SyncOvertakesLog,
    /// The core syncs in place again directly after a slow sync.
    SlowSyncForgotten,
    /// The group of an observer waits for more without an end.
    GroupGathersForever,
}

impl Mutant {
    /// Wrong rules of the schedule that the tables of its rules catch (`hosting/src/schedule/tests.rs`). They cost time, or
    /// break a rule about threads, which the simulator does not have.
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

/// Whether this build has any. `server` does not compile for release with them.
pub const ARE_AVAILABLE: bool = cfg!(feature = "mutants");

#[cfg(feature = "mutants")]
thread_local! {
    static CHOSEN: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Chooses the bug of everything that runs on this thread from here on. `false`: there are none in
/// this build.
#[cfg(feature = "mutants")]
pub fn choose(mutant: Option<Mutant>) -> bool {
    CHOSEN.set(mutant);
    true
}

/// Chooses the bug of everything that runs on this thread from here on. `false`: there are none in
/// this build.
#[cfg(not(feature = "mutants"))]
pub const fn choose(_: Option<Mutant>) -> bool {
    false
}

/// The bug of a whole process, for servers that are run by tests.
#[cfg(feature = "mutants")]
static OF_PROCESS: std::sync::OnceLock<Mutant> = std::sync::OnceLock::new();

/// Chooses the bug of all threads, for the rest of the process. `false`: there are none in this build,
/// or another one was chosen.
#[cfg(feature = "mutants")]
pub fn choose_for_process(mutant: Mutant) -> bool {
    *OF_PROCESS.get_or_init(|| mutant) == mutant
}

/// Whether this bug is chosen.
#[cfg(feature = "mutants")]
pub fn is(mutant: Mutant) -> bool {
    CHOSEN.get() == Some(mutant) || OF_PROCESS.get() == Some(&mutant)
}

/// Whether this bug is chosen.
#[cfg(not(feature = "mutants"))]
#[inline]
pub const fn is(_: Mutant) -> bool {
    false
}

/// What counts as a quorum of these voters.
pub fn quorum(voters: Arc<dyn QuorumVerifier>) -> Arc<dyn QuorumVerifier> {
    match is(Mutant::QuorumOffByOne) {
        true => Arc::new(HalfIsEnough(voters)),
        false => voters,
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
