//! The role at one moment.

use std::sync::Arc;

use config::Ensemble;
use config::members::{MemberAddress, MemberRole};
use config::membership::Membership;
use proto::Sid;

use super::mode::{Learners, Mode, SyncMode, ZabState};
use crate::metrics::BufferSizes;
use crate::view::MemberConfiguration;

/// The role, and how far it has come.
#[derive(Debug, Clone)]
pub struct RoleView {
    /// What the server is.
    pub mode: Mode,
    /// Clients are served: a leader in broadcast (unless `leaderServes=no`), a learner that is up
    /// to date, a standalone or read-only server. Words that need a server are refused before.
    pub is_serving: bool,
    /// The phase of the protocol; `Election` outside of an ensemble.
    pub zab: ZabState,
    /// How the learner was brought up to date; `None` until its leader has said, and at a leader.
    pub sync: Option<SyncMode>,
    /// Whom this server follows or observes, or itself if it leads.
    pub leader: Option<Sid>,
    /// The member list in force; `None` outside of an ensemble.
    pub members: Option<Arc<Membership>>,
}

/// What a leader knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaderFigures {
    /// Who is connected.
    pub learners: Learners,
    /// Transactions whose commit sync requests wait for.
    pub pending_syncs: u64,
    /// Time since its epoch began to take writes.
    pub uptime_ms: u64,
    /// Sizes of its proposals.
    pub proposal_sizes: BufferSizes,
}

impl RoleView {
    /// What the server is, if it serves clients.
    pub fn served_mode(&self) -> Option<Mode> {
        (self.is_serving && self.mode != Mode::Looking).then_some(self.mode)
    }

    /// Voting members, of an ensemble that has a leader.
    pub fn quorum_size(&self) -> Option<u64> {
        let members = self.members.as_ref().filter(|_| self.mode.has_leader())?;
        Some(members.participants().count() as u64)
    }

    /// `zk_peer_state`: what a member does, with the protocol's phase and how it is synced.
    /// Source: QuorumPeer.getDetailedPeerState.
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

    /// Whether this server expires sessions. A learner, and a read-only server as well, knows them
    /// only. Source: LearnerSessionTracker.
    pub fn expires_sessions(&self) -> bool {
        matches!(self.mode, Mode::Standalone | Mode::Leader { .. })
    }

    /// What `conf` shows of a member.
    pub fn configuration(&self, ensemble: &Ensemble) -> MemberConfiguration {
        let members = self.members.as_deref().unwrap_or(&ensemble.membership);
        // A member that was removed runs on at the addresses it had.
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

/// The only election algorithm that is left.
const ELECTION_ALG: i32 = 3;
