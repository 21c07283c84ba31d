//! The view of the current role for operators.

use std::sync::Arc;

use config::members::MemberRole;
use proto::quorum::QuorumVerifier;
use zab::leader::Leader;
use zab::learner::LearnerKind;

use super::Role;
use super::observer_master::Observers;
use crate::interface::effect::{Effect, Service};
use crate::interface::host::{Host, Turn};
use crate::interface::view::{Learners, Phase, RoleView, View};
use crate::members::MemberLists;
use crate::replica::Replica;

impl<H: Host> Replica<H> {
    /// Sends the current role to the host, for operators.
    pub(crate) fn publish_view(&mut self, turn: &mut Turn<'_, H>) {
        self.is_view_stale = false;
        if let Some(view) = self.view() {
            turn.effect(Effect::Show(view));
        }
    }

    pub(crate) fn publish_view_if_stale(&mut self, turn: &mut Turn<'_, H>) {
        if self.is_view_stale {
            self.publish_view(turn);
        }
    }

    /// Returns whether the server's log counts in elections. It counts if the files contain
    /// everything that the server may have acknowledged.
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
