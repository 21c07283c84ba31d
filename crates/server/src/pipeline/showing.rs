//! What operators are shown of a member's role.

use std::sync::Arc;

use config::members::MemberRole;
use monitoring::role::{Learners, Mode, ZabState};
use proto::quorum::QuorumVerifier;
use zab::leader::Leader;
use zab::learner::{Learner, LearnerKind};

use super::core::Core;
use super::observers::Observers;
use super::role::Role;
use crate::clock;
use crate::service::Service;

impl Core {
    /// Shows the role to operators.
    pub(super) fn publish_role(&mut self) {
        let Some(member) = &self.member else { return };
        let me = member.keeper.me();
        let is_serving = self.shared.service.get() != Service::None;
        let (mode, zab, leader) = match &self.role {
            Role::Leading(leading) => {
                let voters = member.keeper.committed().quorum();
                let learners = learners(&leading.leader, &*voters);
                let zab = match leading.leader.is_leading() {
                    true => ZabState::Broadcast,
                    false => ZabState::Discovery,
                };
                let since_ms = leading.since_ms;
                (Mode::Leader { since_ms, learners }, zab, Some(me))
            }
            Role::Learning(learning) => {
                let mode = match member.keeper.role() {
                    MemberRole::Participant => Mode::Follower {
                        synced_observers: learning.observers.as_ref().map(Observers::synced),
                    },
                    MemberRole::Observer => Mode::Observer {
                        master: learning.master,
                    },
                };
                let is_live = learning.learner.as_ref().is_some_and(Learner::is_live);
                let zab = if is_live {
                    ZabState::Broadcast
                } else {
                    ZabState::Synchronization
                };
                (mode, zab, Some(learning.leader))
            }
            Role::Alone(_) | Role::Looking | Role::Draining(_) => {
                let mode = match self.shared.service.get() {
                    Service::ReadOnly => Mode::ReadOnly,
                    Service::None | Service::Deciding | Service::Forwarding => Mode::Looking,
                };
                (mode, ZabState::Election, None)
            }
        };
        let members = Arc::new(member.keeper.committed().clone());
        self.shared.role.update(clock::monotonic_ms(), |view| {
            view.mode = mode;
            view.is_serving = is_serving;
            view.zab = zab;
            view.leader = leader;
            view.members = Some(members);
        });
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
