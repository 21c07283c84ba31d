//! Roles, phases of the protocol and synchronisation methods, with their names.

use proto::Sid;

/// Role of a server, with the figures specific to the role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The server does not belong to an ensemble.
    Standalone,
    /// The server does not know a leader.
    Looking,
    /// The server does not know a leader but serves clients that only need reads.
    ReadOnly,
    /// The server applies the proposals of a leader. It is a voter, or a participant that does not
    /// vote yet.
    Follower {
        /// Number of synchronised observers; `None` unless this server has an `observerMasterPort`.
        synced_observers: Option<u64>,
    },
    /// The server receives committed transactions but does not vote.
    Observer {
        /// Id of the server to which the observer is connected: the leader, or a follower that
        /// serves observers.
        master: Sid,
    },
    /// The server orders the writes of the ensemble.
    Leader {
        /// Time at which the leader started to accept writes, on a monotonic clock, ms.
        since_ms: u64,
        /// Numbers of the leader's learners.
        learners: Learners,
    },
}

impl Mode {
    /// Returns the name shown by `srvr` and in `zk_server_state`. `looking` never appears there,
    /// because the server does not serve clients then.
    pub fn name(self) -> &'static str {
        match self {
            Self::Standalone => "standalone",
            Self::Looking => "looking",
            Self::ReadOnly => "read-only",
            Self::Follower { .. } => "follower",
            Self::Observer { .. } => "observer",
            Self::Leader { .. } => "leader",
        }
    }

    /// Returns whether the server belongs to an ensemble with a leader.
    pub fn has_leader(self) -> bool {
        match self {
            Self::Standalone | Self::Looking | Self::ReadOnly => false,
            Self::Follower { .. } | Self::Observer { .. } | Self::Leader { .. } => true,
        }
    }

    /// Returns the number of synchronised observers, or `None` if the server does not serve
    /// observers.
    pub fn synced_observers(self) -> Option<u64> {
        match self {
            Self::Leader { learners, .. } => Some(learners.synced_observers),
            Self::Follower { synced_observers } => synced_observers,
            Self::Standalone | Self::Looking | Self::ReadOnly | Self::Observer { .. } => None,
        }
    }

    pub(super) fn is_looking(self) -> bool {
        matches!(self, Self::Looking | Self::ReadOnly)
    }
}

/// Numbers of a leader's learners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Learners {
    /// Number of all connections of learners, including learners that are not synchronised.
    pub connected: u64,
    /// Number of participants that receive proposals, voting or not.
    pub synced_followers: u64,
    /// Number of learners in `synced_followers` that do not vote.
    pub synced_non_voting_followers: u64,
    /// Number of observers that receive commits.
    pub synced_observers: u64,
}

/// Phase of the protocol. Source: QuorumPeer.ZabState.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZabState {
    /// Search for a leader.
    Election,
    /// Agreement on the epoch.
    Discovery,
    /// Agreement on the history.
    Synchronization,
    /// Normal operation with writes.
    Broadcast,
}

impl ZabState {
    /// Returns the name shown in `zk_peer_state` and in the admin server's `zabstate`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Election => "election",
            Self::Discovery => "discovery",
            Self::Synchronization => "synchronization",
            Self::Broadcast => "broadcast",
        }
    }
}

/// Method by which a learner is synchronised. Source: QuorumPeer.SyncMode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncMode {
    /// Missing transactions are sent.
    Diff,
    /// A snapshot is sent.
    Snap,
    /// Uncommitted transactions are truncated.
    Trunc,
}

impl SyncMode {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Diff => "diff",
            Self::Snap => "snap",
            Self::Trunc => "trunc",
        }
    }
}
