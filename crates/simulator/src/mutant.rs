//! Deliberate bugs: each breaks one duty, and must be caught.
//!
//! They are lines of the code that ships, behind a feature that only tests turn on
//! (`proto::mutant`); one is the simulated host's. [`CAUGHT_BY`] names for each a seed that catches it,
//! or it is that of a script ([`crate::scenarios`]); `tests/mutants.rs` runs them.

/// One duty that is not done. `None`: all are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Mutant {
    /// All duties are done.
    #[default]
    None,
    /// A record counts as on disk as soon as it is appended.
    AckBeforeSync,
    /// TRUNC is reported as done, and nothing is cut.
    SkipTruncate,
    /// The log is cut, the tree is not loaded again.
    TruncateKeepsTree,
    /// Half of the voters are a quorum.
    QuorumOffByOne,
    /// The accepted epoch is promised and not written.
    AcceptedEpochNotSaved,
    /// The current epoch is reported as written, and is not.
    CurrentEpochNotSaved,
    /// ZOOKEEPER-3023: NEWLEADER is acknowledged before the snapshot is on disk.
    NewLeaderBeforeSnapshot,
    /// Two commits of one step change places.
    CommitsOutOfOrder,
    /// A follower applies what is only proposed.
    AppliesProposals,
    /// The leader takes NEWLEADER's acknowledgements for granted.
    NewLeaderQuorumSkipped,
    /// The first transaction behind DIFF is left out.
    DiffFromWrongPoint,
    /// A learner does not tell its leader which sessions it heard from.
    TouchLost,
    /// Events are sent after the replies that follow.
    WatchAfterReply,
    /// closeSession leaves the ephemerals.
    EphemeralsStay,
    /// Who holds a session's connection is not looked at.
    OwnerIgnored,
    /// Reads overtake the writes before them.
    ReadsOvertakeWrites,
    /// Replies go out before the transaction is committed.
    ReplyBeforeCommit,
    /// What was logged and not applied is forgotten with the role: votes do not name it.
    VotesByApplied,
    /// A snapshot is named after its end, not after its beginning.
    SnapshotNamedTooLate,
    /// A snapshot that was begun in one role is finished in the next.
    SnapshotOutlivesRole,
    /// A failed sync is taken for a good one.
    FailedSyncIgnored,
    /// ZOOKEEPER-2846: log files with a hole are served from.
    LogWithHoleServed,
    /// ZOOKEEPER-3526: the committed log survives a snapshot that goes beyond it.
    CommittedLogKeptOverSnapshot,
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
    /// ZOOKEEPER-4712: the writer of the last role goes on in the next.
    OldLogWriterLives,
    /// ZOOKEEPER-4785: proposals that came before UPTODATE are acknowledged without being synced.
    SyncProposalsAckedBeforeSync,
    /// ZOOKEEPER-4925: what DIFF brought is missing in the committed log.
    DiffNotInCommittedLog,
    /// ZOOKEEPER-1818: a leader goes on naming the epoch it was elected with.
    LeaderKeepsElectedEpoch,
    /// Whose history is newest does not count in elections. Nothing but liveness may break.
    ElectsAnybody,
}

/// All of them.
const ALL: &[Mutant] = &[
    Mutant::AckBeforeSync,
    Mutant::SkipTruncate,
    Mutant::TruncateKeepsTree,
    Mutant::QuorumOffByOne,
    Mutant::AcceptedEpochNotSaved,
    Mutant::CurrentEpochNotSaved,
    Mutant::NewLeaderBeforeSnapshot,
    Mutant::CommitsOutOfOrder,
    Mutant::AppliesProposals,
    Mutant::NewLeaderQuorumSkipped,
    Mutant::DiffFromWrongPoint,
    Mutant::TouchLost,
    Mutant::WatchAfterReply,
    Mutant::EphemeralsStay,
    Mutant::OwnerIgnored,
    Mutant::ReadsOvertakeWrites,
    Mutant::ReplyBeforeCommit,
    Mutant::VotesByApplied,
    Mutant::SnapshotNamedTooLate,
    Mutant::SnapshotOutlivesRole,
    Mutant::FailedSyncIgnored,
    Mutant::LogWithHoleServed,
    Mutant::CommittedLogKeptOverSnapshot,
    Mutant::HistoryLoggedAfterAck,
    Mutant::CommitBeforeUpToDateLost,
    Mutant::EpochBeforeHistory,
    Mutant::HistoryAckedBeforeSync,
    Mutant::ProposalAckedBeforeNewLeader,
    Mutant::OldLogWriterLives,
    Mutant::SyncProposalsAckedBeforeSync,
    Mutant::DiffNotInCommittedLog,
    Mutant::LeaderKeepsElectedEpoch,
];

/// Each mutant that has no script, and a seed that catches it.
pub const CAUGHT_BY: &[(Mutant, u64)] = &[
    (Mutant::AckBeforeSync, 1016),
    (Mutant::SkipTruncate, 1013),
    (Mutant::TruncateKeepsTree, 1013),
    (Mutant::QuorumOffByOne, 1003),
    (Mutant::AcceptedEpochNotSaved, 1001),
    (Mutant::CurrentEpochNotSaved, 1023),
    (Mutant::CommitsOutOfOrder, 1066),
    (Mutant::AppliesProposals, 1000),
    (Mutant::NewLeaderQuorumSkipped, 30082),
    (Mutant::DiffFromWrongPoint, 1001),
    (Mutant::TouchLost, 1003),
    (Mutant::WatchAfterReply, 1000),
    (Mutant::EphemeralsStay, 1001),
    (Mutant::OwnerIgnored, 1599),
    (Mutant::ReadsOvertakeWrites, 1001),
    (Mutant::ReplyBeforeCommit, 1001),
    (Mutant::VotesByApplied, 1010),
    (Mutant::SnapshotNamedTooLate, 1008),
    (Mutant::SnapshotOutlivesRole, 1929),
    (Mutant::FailedSyncIgnored, 1348),
];

impl Mutant {
    /// The same in the code that ships, if it is one of those. The others are the host's.
    pub(crate) fn of_shipped_code(self) -> Option<proto::mutant::Mutant> {
        use proto::mutant::Mutant as Shipped;
        Some(match self {
            Self::QuorumOffByOne => Shipped::QuorumOffByOne,
            Self::CommitsOutOfOrder => Shipped::CommitsOutOfOrder,
            Self::EphemeralsStay => Shipped::EphemeralsStay,
            Self::OwnerIgnored => Shipped::OwnerIgnored,
            Self::VotesByApplied => Shipped::VotesByApplied,
            Self::LeaderKeepsElectedEpoch => Shipped::LeaderKeepsElectedEpoch,
            Self::ElectsAnybody => Shipped::ElectsAnybody,
            Self::CommittedLogKeptOverSnapshot => Shipped::CommittedLogKeptOverSnapshot,
            Self::DiffNotInCommittedLog => Shipped::DiffNotInCommittedLog,
            Self::AckBeforeSync => Shipped::AckBeforeSync,
            Self::FailedSyncIgnored => Shipped::FailedSyncIgnored,
            Self::AcceptedEpochNotSaved => Shipped::AcceptedEpochNotSaved,
            Self::CurrentEpochNotSaved => Shipped::CurrentEpochNotSaved,
            Self::SnapshotNamedTooLate => Shipped::SnapshotNamedTooLate,
            Self::SnapshotOutlivesRole => Shipped::SnapshotOutlivesRole,
            Self::SkipTruncate => Shipped::SkipTruncate,
            Self::TruncateKeepsTree => Shipped::TruncateKeepsTree,
            Self::LogWithHoleServed => Shipped::LogWithHoleServed,
            Self::OldLogWriterLives => Shipped::OldLogWriterLives,
            Self::AppliesProposals => Shipped::AppliesProposals,
            Self::NewLeaderQuorumSkipped => Shipped::NewLeaderQuorumSkipped,
            Self::DiffFromWrongPoint => Shipped::DiffFromWrongPoint,
            Self::TouchLost => Shipped::TouchLost,
            Self::WatchAfterReply => Shipped::WatchAfterReply,
            Self::ReplyBeforeCommit => Shipped::ReplyBeforeCommit,
            Self::NewLeaderBeforeSnapshot => Shipped::NewLeaderBeforeSnapshot,
            Self::HistoryLoggedAfterAck => Shipped::HistoryLoggedAfterAck,
            Self::CommitBeforeUpToDateLost => Shipped::CommitBeforeUpToDateLost,
            Self::EpochBeforeHistory => Shipped::EpochBeforeHistory,
            Self::HistoryAckedBeforeSync => Shipped::HistoryAckedBeforeSync,
            Self::ProposalAckedBeforeNewLeader => Shipped::ProposalAckedBeforeNewLeader,
            Self::SyncProposalsAckedBeforeSync => Shipped::SyncProposalsAckedBeforeSync,
            _ => return None,
        })
    }

    /// Whether this build can run it.
    pub fn is_available(self) -> bool {
        self.of_shipped_code().is_none() || proto::mutant::choose(None)
    }

    /// All deliberate bugs.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL.iter().copied()
    }

    /// Its name on the command line.
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    /// The one with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        let mut named = Self::all().chain([Self::ElectsAnybody]);
        named.find(|mutant| mutant.name().eq_ignore_ascii_case(name))
    }
}
