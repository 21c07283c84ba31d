//! Deliberate bugs: each breaks one duty, and must be caught.
//!
//! They are lines of the code that ships, behind a feature that only tests turn on
//! (`proto::mutant`); one is the simulated host's. [`CAUGHT_BY`] names for each a seed that catches it,
//! or it is that of a script ([`crate::scenarios`]); `tests/mutants.rs` runs them.

macro_rules! mutants {
    ($( $(#[$doc:meta])* $name:ident, )+) => {
        /// One duty that is not done. `None`: all are.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
        pub enum Mutant {
            /// All duties are done.
            #[default]
            None,
            /// Reads overtake the writes before them: of the host.
            ReadsOvertakeWrites,
            /// Whose history is newest does not count in elections. Nothing but liveness may break, so it
            /// is none of [`Mutant::all`].
            ElectsAnybody,
            $( $(#[$doc])* $name, )+
        }

        /// All of them.
        const ALL: &[Mutant] = &[Mutant::ReadsOvertakeWrites, $( Mutant::$name, )+];

        impl Mutant {
            /// The same in the code that ships, if it is not the host's.
            pub(crate) fn of_shipped_code(self) -> Option<proto::mutant::Mutant> {
                match self {
                    Self::None | Self::ReadsOvertakeWrites => None,
                    Self::ElectsAnybody => Some(proto::mutant::Mutant::ElectsAnybody),
                    $( Self::$name => Some(proto::mutant::Mutant::$name), )+
                }
            }
        }
    };
}

mutants! {
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
}

/// Each mutant that has no script, and the first seed from 1000 on that catches it: it takes one seed
/// more than the number is above that.
pub const CAUGHT_BY: &[(Mutant, u64)] = &[
    (Mutant::AckBeforeSync, 1000),
    (Mutant::SkipTruncate, 1004),
    (Mutant::TruncateKeepsTree, 1004),
    (Mutant::QuorumOffByOne, 1001),
    (Mutant::AcceptedEpochNotSaved, 1000),
    (Mutant::CurrentEpochNotSaved, 1000),
    (Mutant::CommitsOutOfOrder, 1015),
    (Mutant::AppliesProposals, 1000),
    (Mutant::NewLeaderQuorumSkipped, 1020),
    (Mutant::DiffFromWrongPoint, 1001),
    (Mutant::TouchLost, 1000),
    (Mutant::WatchAfterReply, 1000),
    (Mutant::EphemeralsStay, 1002),
    (Mutant::OwnerIgnored, 1106),
    (Mutant::ReadsOvertakeWrites, 1000),
    (Mutant::ReplyBeforeCommit, 1013),
    (Mutant::VotesByApplied, 1013),
    (Mutant::SnapshotNamedTooLate, 1001),
    (Mutant::SnapshotOutlivesRole, 1133),
    (Mutant::FailedSyncIgnored, 1006),
    (Mutant::TouchForgotten, 1000),
    (Mutant::ClosingSessionUsed, 1065),
    (Mutant::PendingIgnored, 1001),
    (Mutant::FailedMultiKept, 1001),
    (Mutant::VersionIgnored, 1001),
    (Mutant::AclIgnored, 1001),
    (Mutant::ReadAclIgnored, 1001),
    (Mutant::QuotaIgnored, 1011),
    (Mutant::PersistentWatchFiresOnce, 1000),
    (Mutant::RecursiveWatchIsShallow, 1000),
    (Mutant::MissedEventsUntold, 1003),
    (Mutant::ContainersStay, 1010),
    (Mutant::TtlIgnored, 1000),
    (Mutant::LongTransactionTaken, 1013),
    (Mutant::EpochNotRaised, 1000),
    (Mutant::TailNotTruncated, 1004),
    (Mutant::ReconfigByOldQuorum, 1120),
    (Mutant::ObserversNotInformed, 1000),
    (Mutant::ProposalsNotSent, 1000),
    (Mutant::SyncAnsweredHere, 1006),
    (Mutant::RenewalsRefused, 1001),
    (Mutant::UpgradeForgotten, 1000),
    (Mutant::OverlayOutlivesRole, 1003),
    (Mutant::ConnectionsOutliveRole, 1001),
    (Mutant::RepliesMixedUp, 1000),
    (Mutant::VotesIgnoreZxid, 1001),
    (Mutant::CacheTrusted, 1147),
    (Mutant::SnapshotNotSynced, 1000),
    (Mutant::LogNameNotSynced, 1000),
];

impl Mutant {
    /// Whether this build can run it.
    pub fn is_available(self) -> bool {
        self.of_shipped_code().is_none() || proto::mutant::ARE_AVAILABLE
    }

    /// All deliberate bugs that must be caught.
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
