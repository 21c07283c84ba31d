//! View of a member's role for operators. Decisions do not depend on it.

use std::sync::Arc;

use config::members::MemberRole;
use config::membership::Membership;
use proto::Sid;
use proto::quorum::QuorumVerifier;
use zab::leader::Leader;
use zab::learner::LearnerKind;

use super::effect::{Effect, Service};
use super::host::{Host, Turn};
use crate::members::MemberLists;
use crate::replica::Replica;
use crate::roles::Role;
use crate::roles::observer_master::Observers;

/// Role of a member and the role's progress.
#[derive(Debug, Clone)]
pub struct View {
    /// Current role.
    pub role: RoleView,
    /// Whether clients are served.
    pub is_serving: bool,
    /// Current phase of the protocol.
    pub phase: Phase,
    /// The server that this one follows or observes, or itself if it leads.
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
    /// Leads and proposes.
    Leading {
        /// Time at which its epoch began to accept writes, in ms by the clock of
        /// [`Now`](crate::Now).
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
    /// This server is going to lead, but its epoch is not fixed yet.
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
    /// Non-voting participants among them.
    pub synced_non_voting_followers: u64,
    /// Observers that receive commits.
    pub synced_observers: u64,
}

impl<H: Host> Replica<H> {
    /// Sends the current role to the host, for operators.
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

    /// Returns whether its log counts in elections, because its files contain everything that it
    /// may have acknowledged.
    pub fn is_trusted(&self) -> bool {
        self.member.as_ref().is_none_or(|member| member.is_trusted)
    }

    /// Returns this server's candidate in elections; `None` without an ensemble.
    pub fn candidate(&self) -> Option<election::Candidate> {
        self.member.as_ref().map(|member| member.candidate())
    }

    /// Returns the current member lists; `None` without an ensemble.
    pub fn lists(&self) -> Option<&MemberLists> {
        self.member.as_ref().map(|member| &member.lists)
    }

    /// Returns the current role; `None` without an ensemble.
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
                let phase = if leading.leader.is_leading() {
                    Phase::Broadcast
                } else {
                    Phase::Discovery
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
                let phase = if learning.is_live() {
                    Phase::Broadcast
                } else {
                    Phase::Synchronization
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
