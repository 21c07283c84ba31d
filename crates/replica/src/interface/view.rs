//! View of a member's role for operators. Decisions do not depend on it.

use std::sync::Arc;

use config::membership::Membership;
use proto::Sid;

/// Role of a member and the role's progress.
#[derive(Debug, Clone)]
pub struct View {
    /// Current role.
    pub role: RoleView,
    /// Whether clients are served.
    pub is_serving: bool,
    /// Current phase of the protocol.
    pub phase: Phase,
    /// Server that this server follows or observes; this server itself if it leads; `None` during
    /// an election.
    pub leader: Option<Sid>,
    /// The member list in force.
    pub members: Arc<Membership>,
}

/// Role of a member and the figures specific to the role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoleView {
    /// Looks for a leader.
    Looking,
    /// Looks for a leader, and serves reads to clients that accept this.
    ReadOnly,
    /// Follows a leader: a voter, or a participant that does not vote yet.
    Following {
        /// Number of up-to-date observers; `None` if this server does not serve observers.
        synced_observers: Option<u64>,
    },
    /// Learns without a vote.
    Observing {
        /// Server that it learns from: the leader, or a follower that serves observers.
        master: Sid,
    },
    /// Leads, or is about to lead.
    Leading {
        /// Time of the election, or later the time at which the epoch was established, in ms by the
        /// clock of [`Now`](crate::Now).
        since_ms: i64,
        /// Connected learners.
        learners: Learners,
    },
}

/// Phase of Zab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No leader is known.
    Election,
    /// This server is about to lead, but its epoch is not established yet.
    Discovery,
    /// This server is being synchronised.
    Synchronization,
    /// Proposals and commits are sent.
    Broadcast,
}

/// Learners of a leader, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Learners {
    /// All connections of learners, synchronised or not.
    pub connected: u64,
    /// Participants that receive proposals, voting or not.
    pub synced_followers: u64,
    /// Non-voting participants among `synced_followers`.
    pub synced_non_voting_followers: u64,
    /// Observers that receive commits.
    pub synced_observers: u64,
}
