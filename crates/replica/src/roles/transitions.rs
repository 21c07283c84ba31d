//! Transitions between roles.

use proto::notification::PeerState;
use proto::{Epoch, Sid, Zxid};
use tree::Tree;

use super::member_state::WrongTree;
use super::{Draining, NextRole, Role};
use crate::interface::effect::{DiskOrder, Effect, Service};
use crate::interface::host::{Host, State, Turn};
use crate::interface::input::{LoadedTree, Port};
use crate::limits::LOOK_PAUSE_MS;
use crate::replica::Replica;
use crate::session::Sessions;

impl<H: Host> Replica<H> {
    pub(crate) fn take_role(&mut self, state: PeerState, leader: Sid, turn: &mut Turn<'_, H>) {
        match state {
            PeerState::Leading => {
                self.end_read_only(turn);
                self.begin_leading(turn);
            }
            PeerState::Following | PeerState::Observing => {
                self.end_read_only(turn);
                self.begin_learning(leader, turn);
            }
            PeerState::Looking | PeerState::Unknown(_) => {}
        }
    }

    pub(crate) fn role_deadline_ms(&self) -> Option<i64> {
        match &self.role {
            Role::Leading(leading) => {
                let oracle = leading.oracle.as_ref().and_then(|watch| watch.query_at_ms);
                [leading.leader.deadline_ms(), oracle]
                    .into_iter()
                    .flatten()
                    .min()
            }
            Role::Learning(learning) => {
                let learner = learning.learner.as_ref();
                let learner = learner.and_then(|learner| learner.deadline_ms());
                let observers = learning.observers.as_ref();
                let observers = observers.and_then(|observers| observers.deadline_ms());
                [learner, observers].into_iter().flatten().min()
            }
            Role::Draining(_) => None,
            Role::Looking => {
                let member = self.member.as_ref()?;
                let deadlines = [member.election_at_ms, member.read_only_at_ms];
                deadlines.into_iter().flatten().min()
            }
        }
    }

    pub(crate) fn handle_role_deadline(&mut self, turn: &mut Turn<'_, H>) {
        let now_ms = turn.now.ms;
        let is_due = self.role_deadline_ms().is_some_and(|at_ms| at_ms <= now_ms);
        match &self.role {
            Role::Leading(_) if is_due => {
                self.query_oracle_if_due(turn);
                self.with_leader(turn, |leader, now_ms, out| {
                    leader.handle_deadline(now_ms, out);
                });
            }
            Role::Learning(_) if is_due => {
                self.with_learner(turn, |learner, now_ms, out| {
                    learner.handle_deadline(now_ms, out);
                });
                self.handle_observers_deadline(turn);
            }
            Role::Looking => {
                if let Some(member) = &mut self.member
                    && member
                        .election_at_ms
                        .take_if(|at_ms| *at_ms <= now_ms)
                        .is_some()
                {
                    self.start_election(turn);
                }
                self.begin_read_only_if_due(turn);
            }
            Role::Leading(_) | Role::Learning(_) | Role::Draining(_) => {}
        }
    }

    pub(crate) fn set_role(&mut self, role: Role, turn: &mut Turn<'_, H>) {
        self.role = role;
        self.publish_view(turn);
    }

    /// Starts serving clients.
    pub(crate) fn serve(&mut self, service: Service, turn: &mut Turn<'_, H>) {
        self.service = service;
        self.expiry.begin(turn.now.ms);
        turn.effect(Effect::Serve(service));
    }

    /// Stops serving clients. Connections end first, so a connection that finds a changed session
    /// table is already closed. Local sessions are over, and another server decides about the
    /// others.
    pub(crate) fn stop_serving(&mut self, turn: &mut Turn<'_, H>) {
        self.service = Service::None;
        self.expiry.end();
        turn.effect(Effect::StopServing);
        *turn.state.sessions() = Sessions::reporting(self.settings.tick_ms);
    }

    /// Ends the role. Clients are no longer served, and requests are no longer ordered. Appended
    /// records become part of the durable state before a new role begins.
    pub(crate) fn leave_role(&mut self, next: NextRole, turn: &mut Turn<'_, H>) {
        self.apply_committed(turn);
        self.apply_delivered(turn);
        if self.member.is_none() {
            return;
        }
        self.stop_serving(turn);
        if let Some(member) = &mut self.member
            && matches!(next, NextRole::Look | NextRole::LookLater | NextRole::End)
        {
            member.elections.end_role();
        }
        let mut reloads = false;
        match std::mem::replace(&mut self.role, Role::Looking) {
            Role::Leading(leading) => {
                turn.effect(Effect::StopListening {
                    port: Port::Learners,
                    hands_over: matches!(next, NextRole::Follow(_)),
                });
                if let Some(member) = &mut self.member {
                    member.committed = leading.leader.into_committed();
                }
            }
            Role::Learning(learning) => reloads = self.end_learning(*learning, turn),
            Role::Draining(draining) => reloads = draining.reloads,
            Role::Looking => {}
        }
        self.drop_incoming(turn);
        self.set_role(Role::Draining(Draining { next, reloads }), turn);
        self.drain(turn);
    }

    /// Continues the end of a role if the disk has finished its work.
    pub(crate) fn drain(&mut self, turn: &mut Turn<'_, H>) {
        turn.effect(Effect::Flush);
        let Role::Draining(draining) = &self.role else {
            return;
        };
        if self.synced < self.appended || self.saves_pending > 0 || self.is_reloading {
            return;
        }
        let (next, reloads) = (draining.next, draining.reloads);
        if reloads {
            self.undelivered.clear();
            self.in_flight.clear();
            if !self.is_ending {
                return self.reload(None, turn);
            }
            // Nothing uses the tree of a server that has ended. The next start loads the files.
            begin_unestablished(turn);
        }
        self.apply_uncommitted(turn);
        if !self.keeps_wrong_tree(turn) {
            self.take_next(next, turn);
        }
    }

    fn take_next(&mut self, next: NextRole, turn: &mut Turn<'_, H>) {
        let next = if self.is_ending { NextRole::End } else { next };
        let Some(member) = &mut self.member else {
            return;
        };
        member.last_logged = member.last_logged.max(self.appended);
        self.role = Role::Looking;
        let pause_ms = std::mem::take(&mut member.election_pause_ms);
        match next {
            NextRole::Look if pause_ms == 0 => {
                self.start_election(turn);
                self.schedule_read_only(turn.now.ms);
            }
            NextRole::Look | NextRole::LookLater => {
                let pause_ms = match next {
                    NextRole::LookLater => pause_ms.max(LOOK_PAUSE_MS),
                    _ => pause_ms,
                };
                member.election_at_ms = Some(turn.now.ms.saturating_add(pause_ms));
                self.schedule_read_only(turn.now.ms);
            }
            NextRole::Follow(leader) => {
                member.appoint(leader);
                self.begin_learning(leader, turn);
            }
            NextRole::Lead => {
                member.appoint(member.lists.me());
                self.begin_leading(turn);
            }
            NextRole::End => {}
        }
        self.publish_view(turn);
    }

    /// Requests that the tree be loaded from disk, after a cut if `keep` is set.
    pub(crate) fn reload(&mut self, keep: Option<Zxid>, turn: &mut Turn<'_, H>) {
        self.is_reloading = true;
        // A snapshot in progress belongs to the old tree.
        begin_unestablished(turn);
        turn.disk(DiskOrder::Reload { keep });
    }

    /// Handles the tree that was loaded from disk, after a cut or because it was unreliable. `loaded`
    /// is `None` if the cut was refused and the disk is unchanged.
    pub(crate) fn handle_reloaded(
        &mut self,
        loaded: Option<Box<LoadedTree>>,
        end: Zxid,
        turn: &mut Turn<'_, H>,
    ) {
        self.is_reloading = false;
        if let Some(member) = &mut self.member {
            // The next role sends this list to learners, so it must not contain what the log lost.
            // The list is cut here, because the learner that ordered the cut may already have
            // ended.
            member.committed.truncate_after(end);
        }
        if let Some(loaded) = loaded {
            let LoadedTree {
                tree,
                log_whole_from,
                has_snapshot,
            } = *loaded;
            self.replace_tree(tree, turn);
            if let Some(member) = &mut self.member {
                member.last_logged = end;
                // The snapshot of a synchronisation may have received its name before the role
                // ended. Its report is ignored, but the log has a hole before it.
                member.log_whole_from = log_whole_from;
                // This member may vote, as after a restart, unless its tree was wrong. The loaded
                // snapshot may then contain the same tree.
                member.is_trusted |= has_snapshot && member.wrong_tree == WrongTree::None;
            }
        }
        match &mut self.role {
            Role::Learning(_) => self.handle_truncated(end, turn),
            Role::Draining(draining) => {
                draining.reloads = false;
                self.drain(turn);
            }
            _ => {}
        }
    }

    /// Replaces the tree with one that belongs to another log, and resets the state that depends on
    /// the old log.
    pub(crate) fn replace_tree(&mut self, tree: Tree, turn: &mut Turn<'_, H>) {
        let zxid = tree.last_zxid();
        turn.state.replace_tree(tree);
        self.undelivered.clear();
        self.in_flight.clear();
        self.backlog = Default::default();
        (self.appended, self.synced, self.last_zxid) = (zxid, zxid, zxid);
        // The config znode is not in the log: each server writes it itself
        // (Learner.syncWithLeader).
        self.show_config(turn);
    }

    /// Requests that the accepted epoch be made durable. The role continues when the host reports
    /// this.
    pub(crate) fn save_accepted_epoch(&mut self, epoch: Epoch, turn: &mut Turn<'_, H>) {
        self.saves_pending += 1;
        turn.disk(DiskOrder::SaveAcceptedEpoch(epoch));
    }

    /// Requests that the current epoch be made durable. The role continues when the host reports
    /// this.
    pub(crate) fn save_current_epoch(&mut self, epoch: Epoch, turn: &mut Turn<'_, H>) {
        self.saves_pending += 1;
        turn.disk(DiskOrder::SaveCurrentEpoch(epoch));
    }

    pub(crate) fn handle_accepted_epoch_saved(&mut self, epoch: Epoch, turn: &mut Turn<'_, H>) {
        self.saves_pending = self.saves_pending.saturating_sub(1);
        if let Some(member) = &mut self.member {
            member.epochs.accepted = epoch;
        }
        match &self.role {
            Role::Leading(_) => self.announce_epoch(epoch, turn),
            Role::Learning(_) => {
                self.with_learner(turn, |learner, _, out| {
                    learner.handle_accepted_epoch_saved(out);
                });
                self.read_packets(turn);
            }
            Role::Draining(_) => self.drain(turn),
            Role::Looking => {}
        }
    }

    // Model: SaveCurrentEpoch.
    pub(crate) fn handle_current_epoch_saved(&mut self, epoch: Epoch, turn: &mut Turn<'_, H>) {
        self.saves_pending = self.saves_pending.saturating_sub(1);
        if let Some(member) = &mut self.member {
            member.epochs.current = epoch;
        }
        match &self.role {
            Role::Leading(_) => self.with_leader(turn, |leader, now_ms, out| {
                leader.handle_current_epoch_saved(now_ms, out);
            }),
            Role::Learning(_) => {
                self.with_learner(turn, |learner, _, out| {
                    learner.handle_current_epoch_saved(out);
                });
                self.read_packets(turn);
            }
            Role::Draining(_) => self.drain(turn),
            Role::Looking => {}
        }
    }

    pub(crate) fn handle_listen_failed(
        &mut self,
        port: Port,
        attempt: u64,
        turn: &mut Turn<'_, H>,
    ) {
        match (port, &mut self.role) {
            (Port::Learners, Role::Leading(leading)) if leading.attempt == attempt => {
                tracing::error!("cannot listen for learners, searching for another leader");
                self.leave_role(NextRole::LookLater, turn);
            }
            (Port::Observers, Role::Learning(learning)) if learning.attempt == attempt => {
                tracing::error!("cannot listen for observers, continuing without them");
                learning.observers = None;
            }
            _ => {}
        }
    }

    /// Ends the role because the server stops.
    pub(crate) fn end_role(&mut self, turn: &mut Turn<'_, H>) {
        match self.role {
            Role::Looking => {}
            Role::Leading(_) | Role::Learning(_) | Role::Draining(_) => {
                self.leave_role(NextRole::End, turn);
            }
        }
    }
}

/// Begins a generation that is not established, because the tree is about to be replaced, or to
/// contain records that may be cut.
pub(crate) fn begin_unestablished<H: Host>(turn: &mut Turn<'_, H>) {
    turn.state.begin_unestablished();
}
