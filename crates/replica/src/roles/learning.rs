//! The learner's role: packets from the leader, and reports from the disk.

use config::members::MemberRole;
use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use proto::txn::Txn;
use proto::{Epoch, Sid, Zxid};
use tree::Tree;
use zab::Record;
use zab::learner::{Action, Fault, Learner, LearnerKind, LearnerStart};

use super::master_choice::Master;
use super::member_state::WrongTree;
use super::{Learning, NextRole, Role};
use crate::interface::effect::{Effect, Service};
use crate::interface::host::{Host, State, Turn};
use crate::interface::input::Port;
use crate::interface::note::Note;
use crate::limits;
use crate::order::apply::decode;
use crate::order::proposals::InFlight;
use crate::replica::Replica;
use crate::session::Sessions;

/// Last zxid that a learner sends if its log does not count.
const NO_HISTORY: Zxid = Zxid(-1);

impl<H: Host> Replica<H> {
    /// Begins the learner's role, after an election or a reconfiguration.
    // Model: DecideFollowing.
    pub(crate) fn begin_learning(&mut self, leader: Sid, turn: &mut Turn<'_, H>) {
        let Some(member) = &mut self.member else {
            return;
        };
        member.attempt += 1;
        let attempt = member.attempt;
        let Some(addresses) = member.quorum_addresses(leader) else {
            tracing::warn!(%leader, "the elected leader is not in the member list");
            return self.leave_role(NextRole::LookLater, turn);
        };
        let is_observer = member.lists.role() == MemberRole::Observer;
        let at_leader = Master {
            sid: leader,
            addresses,
            pause_ms: 0,
        };
        let master = if is_observer {
            member.masters.next(member.lists.committed(), at_leader)
        } else {
            at_leader
        };
        tracing::debug!(sid = %member.lists.me(), %leader, master = %master.sid, "following");
        turn.effect(Effect::Dial {
            attempt,
            addresses: master.addresses,
            pause_ms: master.pause_ms,
        });
        let role = Role::Learning(Box::new(Learning {
            attempt,
            leader,
            master: master.sid,
            is_observer,
            learner: None,
            is_tree_replaced: false,
            saves_list_after_cut: false,
            exact_after: None,
            spare: Vec::new(),
            waiting: Default::default(),
            forwarded: Default::default(),
            syncs: Default::default(),
            renewals: Default::default(),
            observers: None,
            digest_reported: None,
        }));
        self.set_role(role, turn);
    }

    /// Handles the new connection to the leader.
    pub(crate) fn handle_leader_connected(&mut self, turn: &mut Turn<'_, H>) {
        let (Role::Learning(learning), Some(member)) = (&mut self.role, &mut self.member) else {
            return;
        };
        let kind = match member.lists.role() {
            MemberRole::Participant => LearnerKind::Follower,
            MemberRole::Observer => LearnerKind::Observer,
        };
        let start = LearnerStart {
            sid: member.lists.me(),
            kind,
            accepted_epoch: member.epochs.accepted,
            accepted_floor: member.accepted_floor,
            current_epoch: member.epochs.current,
            last_logged: if member.is_trusted {
                member.last_logged
            } else {
                NO_HISTORY
            },
            truncation_failed_in: member.truncation_failed_in,
            config_version: member.lists.committed().version.0,
            lacks_snapshot: !member.is_trusted,
            needs_snapshot: member.wrong_tree != WrongTree::None,
            committed: std::mem::take(&mut member.committed),
        };
        let mut actions = Vec::new();
        let learner = Learner::new(start, member.settings.zab, turn.now.ms, &mut actions);
        learning.learner = Some(learner);
        self.carry_out_learner(actions, turn);
    }

    /// Handles packets from the leader.
    pub(crate) fn handle_leader_packets(
        &mut self,
        packets: Vec<LeaderPacket>,
        turn: &mut Turn<'_, H>,
    ) {
        if let Role::Learning(learning) = &mut self.role {
            learning.waiting.extend(packets);
            self.read_packets(turn);
        }
    }

    /// Passes waiting packets to the learner, unless its tree is being replaced or too much waits
    /// for the log. (The next `Synced` calls this function again.)
    pub(crate) fn read_packets(&mut self, turn: &mut Turn<'_, H>) {
        let Role::Learning(learning) = &mut self.role else {
            return;
        };
        let is_log_behind = self.backlog.bytes() > limits::LEARNER_BACKLOG_BYTES;
        if learning.waiting.is_empty() || is_log_behind {
            return;
        }
        let mut actions = std::mem::take(&mut learning.spare);
        if let Some(learner) = &mut learning.learner {
            while learner.is_reading() {
                let Some(packet) = learning.waiting.pop_front() else {
                    break;
                };
                turn.note(Note::ReceivedByLearner(&packet));
                learner.handle_packet(packet, turn.now.ms, &mut actions);
            }
        }
        self.carry_out_learner(actions, turn);
    }

    /// Calls the learner and executes its actions. Does nothing in any other role.
    pub(crate) fn with_learner(
        &mut self,
        turn: &mut Turn<'_, H>,
        handle: impl FnOnce(&mut Learner, i64, &mut Vec<Action>),
    ) {
        let Role::Learning(learning) = &mut self.role else {
            return;
        };
        let Some(learner) = &mut learning.learner else {
            return;
        };
        let mut actions = std::mem::take(&mut learning.spare);
        handle(learner, turn.now.ms, &mut actions);
        self.carry_out_learner(actions, turn);
    }

    pub(crate) fn carry_out_learner(&mut self, mut actions: Vec<Action>, turn: &mut Turn<'_, H>) {
        for action in actions.drain(..) {
            self.carry_out_learner_action(action, turn);
        }
        turn.effect(Effect::Flush);
        self.apply_delivered(turn);
        if let Role::Learning(learning) = &mut self.role {
            turn.note(Note::LearnerTurnEnds);
            learning.spare = actions;
        }
    }

    fn carry_out_learner_action(&mut self, action: Action, turn: &mut Turn<'_, H>) {
        let is_of_the_stream = matches!(
            action,
            Action::Send(_) | Action::Append(_) | Action::Deliver(_)
        );
        if !is_of_the_stream {
            self.apply_delivered(turn);
        }
        match &action {
            Action::Deliver(record) => self.inform_observers(record, None, turn),
            Action::ActivateConfig {
                record,
                designated_leader,
            } => self.inform_observers(record, Some(*designated_leader), turn),
            _ => {}
        }
        let Role::Learning(learning) = &mut self.role else {
            return;
        };
        let Some(learner) = &mut learning.learner else {
            return;
        };
        match action {
            Action::Send(packet) => turn.effect(Effect::SendToLeader(packet)),
            Action::AnswerPing { zxid } => {
                let touched = turn.state.sessions().take_touched();
                turn.effect(Effect::SendToLeader(LearnerPacket::Ping { zxid, touched }));
            }
            Action::SaveAcceptedEpoch(epoch) => self.save_accepted_epoch(epoch, turn),
            Action::SaveCurrentEpoch(epoch) => self.save_current_epoch(epoch, turn),
            Action::ReceiveSnapshot { .. } => turn.effect(Effect::ReceiveSnapshot),
            Action::Truncate { zxid } => self.reload(Some(zxid), turn),
            Action::WriteSnapshot => self.take_over_tree(turn),
            Action::Append(record) => {
                // An observer does not acknowledge, and transactions from a synchronisation are
                // old.
                let is_measured = !learning.is_observer && learner.is_live();
                if let Some(stamp_ms) = record.stamp_ms().filter(|_| is_measured) {
                    let zxid = record.zxid;
                    turn.note(Note::Received { zxid, stamp_ms });
                }
                self.append(record, turn);
            }
            Action::Deliver(record) => {
                if learner.is_live() {
                    turn.note(Note::Committed {
                        stamp_ms: record.stamp_ms(),
                        by_leader: false,
                    });
                }
                self.delivered.push(record);
            }
            Action::ConfigProposed(record) => self.see_config_of(&record, turn),
            Action::ConfigSeen(text) => self.see_config(&text, turn),
            Action::InstallConfig { text, upto } => self.install_config(&text, upto, turn),
            Action::ActivateConfig {
                record,
                designated_leader,
            } => self.activate_config(&record, Some(designated_leader), turn),
            Action::Serve { epoch } => self.serve_as_learner(epoch, turn),
            Action::SyncDone => self.handle_sync_done(turn),
            Action::Revalidated { session, is_valid } => {
                self.handle_revalidated(session, is_valid, turn);
            }
            Action::ReportDigest { zxid } => self.report_digest(zxid, turn),
            Action::DigestJudged { zxid, agreed } => self.handle_digest_judged(zxid, agreed, turn),
            Action::Leave(fault) => self.leave_leader(&fault, turn),
        }
    }

    /// Handles the leader's complete snapshot.
    pub(crate) fn handle_snapshot_received(&mut self, tree: Tree, turn: &mut Turn<'_, H>) {
        let zxid = tree.last_zxid();
        self.replace_tree(tree, turn);
        if let Role::Learning(learning) = &mut self.role {
            learning.is_tree_replaced = true;
        }
        if let Some(member) = &mut self.member {
            member.last_logged = zxid;
        }
        self.with_learner(turn, |learner, now_ms, _| {
            learner.handle_snapshot_received(now_ms);
        });
        self.read_packets(turn);
    }

    /// Handles the end of a requested cut of the log. Unless the cut was refused, the tree was
    /// reloaded.
    pub(crate) fn handle_truncated(&mut self, end: Zxid, turn: &mut Turn<'_, H>) {
        if let Role::Learning(learning) = &mut self.role {
            // From here on, committed transactions are applied to the tree before they are durable.
            learning.is_tree_replaced = true;
        }
        self.with_learner(turn, |learner, now_ms, out| {
            learner.handle_truncated(end, now_ms, out);
        });
        self.read_packets(turn);
    }

    /// Handles the completed write of the snapshot for the synchronisation.
    // Model: WriteSnapshot.
    pub(crate) fn handle_snapshot_written(
        &mut self,
        attempt: u64,
        zxid: Zxid,
        turn: &mut Turn<'_, H>,
    ) {
        let (Role::Learning(learning), Some(member)) = (&mut self.role, &mut self.member) else {
            return;
        };
        if learning.attempt != attempt {
            // A snapshot requested by an earlier role does not describe the current tree.
            return;
        }
        learning.is_tree_replaced = false;
        member.is_trusted = true;
        member.wrong_tree = WrongTree::None;
        // Earlier files contain another log, or a log with a hole, because transactions that the
        // leader committed while it sent its tree are only in the snapshot.
        member.log_whole_from = zxid;
        self.with_learner(turn, |learner, _, out| learner.handle_snapshot_written(out));
        self.read_packets(turn);
    }

    fn take_over_tree(&mut self, turn: &mut Turn<'_, H>) {
        let last = turn.state.tree().last_zxid();
        if let Role::Learning(learning) = &self.role {
            let attempt = learning.attempt;
            turn.take_over(attempt, last);
        }
        self.save_list_after_cut(turn);
    }

    fn serve_as_learner(&mut self, epoch: Epoch, turn: &mut Turn<'_, H>) {
        *turn.state.sessions() = Sessions::reporting(self.settings.tick_ms);
        if let Some(member) = &mut self.member {
            member.elections.handle_epoch_active(epoch);
            member.truncation_failed_in = None;
            tracing::info!(sid = %member.lists.me(), %epoch, "in sync with the leader");
        }
        let last = turn.state.tree().last_zxid();
        turn.establish(last);
        let delivered = self.in_flight.back().map(|next| next.record.header.zxid);
        let appended = self.undelivered.back().map(|record| record.zxid);
        if let Role::Learning(learning) = &mut self.role {
            learning.exact_after = delivered.max(appended).or(Some(last));
        }
        self.serve(Service::Forwarding, turn);
        self.begin_serving_observers(turn);
        self.publish_view(turn);
    }

    /// Decodes a committed transaction and finds the request that it answers.
    pub(crate) fn match_delivered(
        &mut self,
        record: &Record,
        turn: &mut Turn<'_, H>,
    ) -> Result<InFlight, jute::DecodeError> {
        let txn = decode(record)?;
        self.forget_undelivered(record.zxid);
        if let Txn::CreateSession { timeout_ms } = txn.txn {
            let session = txn.header.session;
            let mut sessions = turn.state.sessions();
            sessions.add(session, timeout_ms, turn.now.ms);
        }
        let mut in_flight = InFlight::of_others(txn);
        let Role::Learning(learning) = &mut self.role else {
            return Ok(in_flight);
        };
        let matched = learning.forwarded.take(&in_flight.record);
        for skipped in matched.skipped {
            tracing::warn!(session = %in_flight.record.header.session, cxid = skipped.cxid, "the leader skipped a forwarded request, closing the connection of its client");
            turn.effect(Effect::Release {
                requests: 1,
                large_bytes: skipped.large_bytes,
            });
            turn.effect(Effect::CloseClient(skipped.origin));
        }
        if let Some(request) = matched.request {
            in_flight.op = request.request.op();
            in_flight.origin = Some(request.origin);
            in_flight.large_bytes = request.large_bytes;
            in_flight.is_counted = true;
        }
        Ok(in_flight)
    }

    // Model: LeaveLeader.
    fn leave_leader(&mut self, fault: &Fault, turn: &mut Turn<'_, H>) {
        tracing::warn!(err = %fault, "stopped following");
        turn.note(Note::LeaderLeft(fault));
        if let (Fault::CannotTruncate { epoch, .. }, Some(member)) = (fault, &mut self.member) {
            member.truncation_failed_in = Some(*epoch);
        }
        let next = match (fault, &self.role) {
            (Fault::EpochBehind { proposed, accepted }, Role::Learning(learning)) => {
                if learning.is_observer {
                    // A voter does not need this warning: its leader steps down, and the next epoch
                    // is higher than the accepted one.
                    tracing::warn!(%proposed, %accepted, "this observer cannot join until the ensemble's epoch reaches this observer's accepted epoch. Unless this observer's data is newer than the ensemble's data, stop this observer, move its data away and start it again");
                }
                NextRole::LookLater
            }
            (Fault::LeaderBehind { .. }, _) => NextRole::LookLater,
            // The leader may lack a quorum without this server. An election would begin another
            // epoch, and its leader would request the cut again.
            (Fault::CannotTruncate { .. }, Role::Learning(learning)) => {
                NextRole::Follow(learning.leader)
            }
            _ => NextRole::Look,
        };
        self.leave_role(next, turn);
    }

    /// Ends the learner's role. Returns whether the tree must be loaded again.
    pub(crate) fn end_learning(&mut self, learning: Learning, turn: &mut Turn<'_, H>) -> bool {
        turn.effect(Effect::HangUp);
        let Some(member) = &mut self.member else {
            return false;
        };
        if member.settings.observer.master_port.is_some() {
            turn.effect(Effect::StopListening {
                port: Port::Observers,
                hands_over: false,
            });
        }
        turn.effect(Effect::Release {
            requests: learning.forwarded.len(),
            large_bytes: learning.forwarded.large_bytes(),
        });
        if learning.is_observer {
            member.election_pause_ms = member.masters.pause_before_look_ms();
        }
        let Some(learner) = learning.learner else {
            return false;
        };
        // The tree is unchanged until the snapshot has arrived completely.
        let reloads = learner.is_tree_unsaved() && learning.is_tree_replaced;
        member.committed = learner.into_committed();
        reloads
    }
}
