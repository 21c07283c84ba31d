//! What operators are shown of a member's role. Nothing is decided by it.

use std::sync::Arc;

use config::members::MemberRole;
use config::membership::Membership;
use proto::Sid;
use proto::quorum::QuorumVerifier;
use zab::leader::Leader;
use zab::learner::LearnerKind;

use crate::effect::{Effect, Service};
use crate::host::{Host, Turn};
use crate::members::MemberLists;
use crate::observers::Observers;
use crate::replica::Replica;
use crate::role::Role;

/// The role, and how far it has come.
#[derive(Debug, Clone)]
pub struct View {
    /// What the server does.
    pub role: RoleView,
    /// Whether clients are served.
    pub is_serving: bool,
    /// The phase of the protocol.
    pub phase: Phase,
    /// Whom this server follows or observes, or itself if it leads.
    pub leader: Option<Sid>,
    /// The member list in force.
    pub members: Arc<Membership>,
}

/// What a member does, with the figures that only this role has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoleView {
    /// No leader is known.
    Looking,
    /// No leader is known, and clients that can do with reads are served.
    ReadOnly,
    /// A voter, or a participant that does not vote yet.
    Following {
        /// Observers served; `None` unless this server serves any.
        synced_observers: Option<u64>,
    },
    /// Learns without a vote.
    Observing {
        /// The server it learns from: the leader, or a follower that serves observers.
        master: Sid,
    },
    /// Proposes.
    Leading {
        /// When its epoch began to take writes, ms of the clock of [`Now`](crate::Now).
        since_ms: i64,
        /// Who is connected.
        learners: Learners,
    },
}

/// A phase of Zab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No leader is known.
    Election,
    /// This server is to lead and has no epoch yet.
    Discovery,
    /// This server is brought up to date.
    Synchronization,
    /// Proposals flow.
    Broadcast,
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

impl<H: Host> Replica<H> {
    /// Shows the role to operators.
    pub(crate) fn show(&mut self, turn: &mut Turn<'_, H>) {
        self.is_view_stale = false;
        if let Some(view) = self.view() {
            turn.effect(Effect::Show(view));
        }
    }

    pub(crate) fn show_if_stale(&mut self, turn: &mut Turn<'_, H>) {
        if self.is_view_stale {
            self.show(turn);
        }
    }

    /// Whether its history counts in elections: its files hold all that it may have acknowledged.
    pub fn is_trusted(&self) -> bool {
        self.member.as_ref().is_none_or(|member| member.is_trusted)
    }

    /// What it stands for in elections; `None` outside of an ensemble.
    pub fn candidate(&self) -> Option<election::Candidate> {
        self.member.as_ref().map(|member| member.candidate())
    }

    /// The member lists that it goes by; `None` outside of an ensemble.
    pub fn lists(&self) -> Option<&MemberLists> {
        self.member.as_ref().map(|member| &member.lists)
    }

    /// The role as it is; `None` outside of an ensemble.
    pub fn view(&self) -> Option<View> {
        let member = self.member.as_ref()?;
        let me = member.lists.me();
        let (role, phase, leader) = match &self.role {
            Role::Leading(leading) => {
                let voters = member.lists.committed().quorum();
                let role = RoleView::Leading {
                    since_ms: leading.since_ms,
                    learners: learners(&leading.leader, &*voters),
                };
                let phase = match leading.leader.is_leading() {
                    true => Phase::Broadcast,
                    false => Phase::Discovery,
                };
                (role, phase, Some(me))
            }
            Role::Learning(learning) => {
                let role = match member.lists.role() {
                    MemberRole::Participant => RoleView::Following {
                        synced_observers: learning.observers.as_ref().map(Observers::synced),
                    },
                    MemberRole::Observer => RoleView::Observing {
                        master: learning.master,
                    },
                };
                let phase = match learning.is_live() {
                    true => Phase::Broadcast,
                    false => Phase::Synchronization,
                };
                (role, phase, Some(learning.leader))
            }
            Role::Looking | Role::Draining(_) => {
                let role = match self.service {
                    Service::ReadOnly => RoleView::ReadOnly,
                    Service::None | Service::Deciding | Service::Forwarding => RoleView::Looking,
                };
                (role, Phase::Election, None)
            }
        };
        Some(View {
            role,
            is_serving: self.service != Service::None,
            phase,
            leader,
            members: Arc::new(member.lists.committed().clone()),
        })
    }
}

fn learners(leader: &Leader, voters: &dyn QuorumVerifier) -> Learners {
    let mut learners = Learners::default();
    for learner in leader.learners() {
        learners.connected += 1;
        match learner.kind {
            LearnerKind::Follower if learner.is_synced => {
                learners.synced_followers += 1;
                let votes = learner.sid.is_some_and(|sid| voters.is_voter(sid));
                learners.synced_non_voting_followers += u64::from(!votes);
            }
            LearnerKind::Observer if learner.is_synced => learners.synced_observers += 1,
            LearnerKind::Follower | LearnerKind::Observer => {}
        }
    }
    learners
}
