//! The words for what a server is and how far it has come.

use proto::Sid;

/// What a server is, with the figures that only this role has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// There is no ensemble.
    Standalone,
    /// No leader is known.
    Looking,
    /// No leader is known, and clients that can do with reads are served.
    ReadOnly,
    /// Applies what a leader proposes: a voter, or a participant that does not vote yet.
    Follower {
        /// Observers that are up to date with it; `None` unless this server has an
        /// `observerMasterPort`.
        synced_observers: Option<u64>,
    },
    /// Learns without a vote.
    Observer {
        /// The server it is connected to: the leader, or a follower that serves observers.
        master: Sid,
    },
    /// Orders the writes of the ensemble.
    Leader {
        /// When its epoch began to take writes, on the monotonic clock, ms.
        since_ms: u64,
        /// Who is connected.
        learners: Learners,
    },
}

impl Mode {
    /// Its name in `srvr` and in `zk_server_state`, where a server that looks for a leader is
    /// never seen.
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

    /// Whether it serves with an ensemble that has a leader.
    pub fn has_leader(self) -> bool {
        match self {
            Self::Standalone | Self::Looking | Self::ReadOnly => false,
            Self::Follower { .. } | Self::Observer { .. } | Self::Leader { .. } => true,
        }
    }

    /// Observers that are up to date, of a server that serves observers.
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

/// The learners of a leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Learners {
    /// All connections of learners, synchronised or not.
    pub connected: u64,
    /// Participants that get proposals, with and without a vote.
    pub synced_followers: u64,
    /// Those of them that have no vote.
    pub synced_non_voting_followers: u64,
    /// Observers that get commits.
    pub synced_observers: u64,
}

/// The phase of the protocol. Source: QuorumPeer.ZabState.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZabState {
    /// Looking for a leader.
    Election,
    /// Agreeing on the epoch.
    Discovery,
    /// Agreeing on the history.
    Synchronization,
    /// Taking writes.
    Broadcast,
}

impl ZabState {
    /// Its name in `zk_peer_state` and in the admin server's `zabstate`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Election => "election",
            Self::Discovery => "discovery",
            Self::Synchronization => "synchronization",
            Self::Broadcast => "broadcast",
        }
    }
}

/// How a learner is brought up to date. Source: QuorumPeer.SyncMode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncMode {
    /// With the transactions it lacks.
    Diff,
    /// With a snapshot.
    Snap,
    /// By dropping what no quorum has.
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
