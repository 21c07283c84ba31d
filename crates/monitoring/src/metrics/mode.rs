//! In which role a server serves, with what only that role knows.

use std::fmt;

use proto::Sid;

use super::summary::BufferSizes;

/// How a server serves at the moment.
#[derive(Debug, Clone, PartialEq)]
pub enum Mode {
    /// Alone, by configuration.
    Standalone,
    /// Cut off from its ensemble: reads only.
    ReadOnly,
    /// Voting for and applying what a leader proposes.
    Follower {
        /// Its place in the ensemble.
        member: Member,
        /// Observers that are up to date with it, if it serves any.
        synced_observers: Option<u64>,
    },
    /// Applying what a quorum decided.
    Observer {
        /// Its place in the ensemble.
        member: Member,
        /// The server it learns from.
        master: Sid,
    },
    /// Ordering the writes of the ensemble.
    Leader {
        /// Its place in the ensemble.
        member: Member,
        /// Its epoch so far.
        leading: Leading,
    },
}

/// What every serving member of an ensemble knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Voting members.
    pub quorum_size: u64,
    /// How far it got with its leader.
    pub zab: ZabState,
    /// How it is being brought up to date, while it is.
    pub sync: Option<SyncMode>,
}

/// What a leader knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leading {
    /// Connected followers and observers.
    pub learners: u64,
    /// Followers that are up to date, with and without a vote.
    pub synced_followers: u64,
    /// Those of them without a vote.
    pub synced_non_voting_followers: u64,
    /// Observers that are up to date.
    pub synced_observers: u64,
    /// Transactions whose commit sync requests wait for.
    pub pending_syncs: u64,
    /// Time since its epoch began to take writes.
    pub uptime_ms: u64,
    /// Sizes of its proposals.
    pub proposal_sizes: BufferSizes,
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
    fn name(self) -> &'static str {
        match self {
            Self::Diff => "diff",
            Self::Snap => "snap",
            Self::Trunc => "trunc",
        }
    }
}

impl Mode {
    /// Its name in `srvr` and in `zk_server_state`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Standalone => "standalone",
            Self::ReadOnly => "read-only",
            Self::Follower { .. } => "follower",
            Self::Observer { .. } => "observer",
            Self::Leader { .. } => "leader",
        }
    }

    /// Its place in an ensemble it can serve with.
    pub fn member(&self) -> Option<&Member> {
        match self {
            Self::Standalone | Self::ReadOnly => None,
            Self::Follower { member, .. }
            | Self::Observer { member, .. }
            | Self::Leader { member, .. } => Some(member),
        }
    }

    /// What only a leader knows.
    pub fn leading(&self) -> Option<&Leading> {
        match self {
            Self::Leader { leading, .. } => Some(leading),
            _ => None,
        }
    }

    /// Observers that are up to date, of a server that serves observers.
    pub fn synced_observers(&self) -> Option<u64> {
        match self {
            Self::Leader { leading, .. } => Some(leading.synced_observers),
            Self::Follower {
                synced_observers, ..
            } => *synced_observers,
            _ => None,
        }
    }

    /// `zk_peer_state`: what a member does, with the protocol's phase and how it is synced.
    /// Source: QuorumPeer.getDetailedPeerState.
    pub fn peer_state(&self) -> Option<PeerState> {
        let doing = match self {
            Self::Standalone | Self::ReadOnly => return None,
            Self::Follower { .. } => "following",
            Self::Observer { .. } => "observing",
            Self::Leader { .. } => "leading",
        };
        self.member().map(|member| PeerState {
            doing,
            member: *member,
        })
    }
}

/// The text of `zk_peer_state`.
#[derive(Debug, Clone, Copy)]
pub struct PeerState {
    doing: &'static str,
    member: Member,
}

impl fmt::Display for PeerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.doing)?;
        if self.member.zab != ZabState::Election {
            write!(f, " - {}", self.member.zab.name())?;
        }
        match self.member.sync {
            Some(sync) => write!(f, " - {}", sync.name()),
            None => Ok(()),
        }
    }
}
