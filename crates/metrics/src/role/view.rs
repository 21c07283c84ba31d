//! Role at one time.

use std::sync::Arc;

use config::Ensemble;
use config::members::{MemberAddress, MemberRole};
use config::membership::Membership;
use proto::Sid;

use super::mode::{Learners, Mode, SyncMode, ZabState};
use crate::counters::summary::BufferSizes;
use crate::view::configuration::MemberConfiguration;

/// Role and its progress.
#[derive(Debug, Clone)]
pub struct RoleView {
    /// Role of the server.
    pub mode: Mode,
    /// Whether clients are served. They are served by a leader in broadcast (unless
    /// `leaderServes=no`), a synchronised learner, or a standalone or read-only server. Otherwise
    /// words that need a serving server are refused.
    pub is_serving: bool,
    /// Phase of the protocol; `Election` outside an ensemble.
    pub zab: ZabState,
    /// Method of the learner's synchronisation; `None` until its leader has chosen one, and on a
    /// leader.
    pub sync: Option<SyncMode>,
    /// Id of the server that this server follows or observes, or its own id if it leads. `None`
    /// without a leader.
    pub leader: Option<Sid>,
    /// Current member list; `None` outside an ensemble.
    pub members: Option<Arc<Membership>>,
}

/// Figures that only a leader has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaderFigures {
    /// Numbers of the leader's learners.
    pub learners: Learners,
    /// Number of transactions for whose commits `sync` requests wait.
    pub pending_syncs: u64,
    /// Time since the leader started to accept writes, ms.
    pub uptime_ms: u64,
    /// Sizes of the leader's proposals.
    pub proposal_sizes: BufferSizes,
}

impl RoleView {
    /// Returns the role if the server serves clients.
    pub fn served_mode(&self) -> Option<Mode> {
        (self.is_serving && self.mode != Mode::Looking).then_some(self.mode)
    }

    /// Returns the number of voting members, or `None` if the server does not have a leader.
    pub fn quorum_size(&self) -> Option<u64> {
        let members = self.members.as_ref().filter(|_| self.mode.has_leader())?;
        Some(members.participants().count() as u64)
    }

    /// Returns `zk_peer_state`: the role of a member, the phase of the protocol, and the
    /// synchronisation method. Returns `None` for a standalone or read-only server. Source:
    /// QuorumPeer.getDetailedPeerState.
    pub fn peer_state(&self) -> Option<String> {
        let doing = match self.mode {
            Mode::Standalone | Mode::ReadOnly => return None,
            Mode::Looking => "looking",
            Mode::Follower { .. } => "following",
            Mode::Observer { .. } => "observing",
            Mode::Leader { .. } => "leading",
        };
        let mut parts = vec![doing];
        if self.zab != ZabState::Election {
            parts.push(self.zab.name());
        }
        parts.extend(self.sync.map(SyncMode::name));
        Some(parts.join(" - "))
    }

    /// Returns whether this server expires sessions. A learner or a read-only server only knows
    /// them. Source: LearnerSessionTracker.
    pub fn expires_sessions(&self) -> bool {
        matches!(self.mode, Mode::Standalone | Mode::Leader { .. })
    }

    /// Returns the part of `conf` that concerns a member.
    pub fn configuration(&self, ensemble: &Ensemble) -> MemberConfiguration {
        let members = self.members.as_deref().unwrap_or(&ensemble.membership);
        // A member that was removed from the list continues to use the addresses in `ensemble`.
        let mine = members.members.get(&ensemble.my_id);
        let mine = mine.or_else(|| ensemble.membership.members.get(&ensemble.my_id));
        let ports = |port: fn(&MemberAddress) -> u16| {
            let addresses = mine.iter().flat_map(|member| &member.addresses);
            let mut ports: Vec<u16> = addresses.map(port).collect();
            ports.sort_unstable();
            ports.dedup();
            ports
        };
        let ticks = |ticks: u32| i32::try_from(ticks).unwrap_or(i32::MAX);
        let role = mine.map_or(ensemble.role, |member| member.role);
        MemberConfiguration {
            init_limit: ticks(ensemble.init_limit_ticks),
            sync_limit: ticks(ensemble.sync_limit_ticks),
            election_alg: ELECTION_ALG,
            election_ports: ports(|address| address.election_port),
            quorum_ports: ports(|address| address.quorum_port),
            observer: role == MemberRole::Observer,
            membership: members.node_data(),
        }
    }
}

/// Number of the only supported election algorithm.
const ELECTION_ALG: i32 = 3;
