//! The core thread as host of a learner.
//!
//! A learner's server takes requests as every server does; what changes the tree goes up to the
//! leader and comes back as a transaction, which is matched with its request by session and cxid.

use std::time::Duration;

use bytes::Bytes;
use config::members::MemberRole;
use jute::{Decode, Encode, Reader};
use proto::leader::LeaderPacket;
use proto::learner::{LearnerPacket, LearnerRequest, Touch};
use proto::txn::{Txn, TxnRecord};
use proto::{Epoch, OpCode, SessionId, Sid, Zxid};
use zab::Record;
use zab::learner::{Action, Fault, Learner, LearnerKind, LearnerStart};

use super::core::{Core, InFlight, Order};
use super::forwarded::Forwarded;
use super::log::ToLog;
use super::observing::Master;
use super::revalidation::Revalidation;
use super::role::{Learning, Next, Role, SyncWaiter};
use super::snapshot::Synchronised;
use crate::metrics::Ages;
use crate::net::handshake;
use crate::peer::ReadAheadPermit;
use crate::service::Service;
use crate::sessions::Sessions;
use crate::{clock, limits};

impl Core {
    /// Another server was elected, or named by a reconfiguration.
    pub(super) fn begin_learning(&mut self, leader: Sid) {
        let Some(member) = &mut self.member else {
            return;
        };
        member.attempt += 1;
        let attempt = member.attempt;
        let Some(addresses) = member.quorum_addresses(leader) else {
            tracing::warn!(%leader, "the elected leader is not in the member list");
            return self.leave_role(Next::LookLater);
        };
        let is_observer = member.keeper.role() == MemberRole::Observer;
        let Master {
            sid: master,
            addresses,
            pause,
        } = match is_observer {
            true => {
                let list = member.keeper.committed();
                member.observing.next_master(list, (leader, addresses))
            }
            false => Master {
                sid: leader,
                addresses,
                pause: Duration::ZERO,
            },
        };
        tracing::info!(sid = %member.keeper.me(), %leader, %master, "following");
        let connection = member.dialer.dial(attempt, addresses, pause);
        self.set_role(Role::Learning(Box::new(Learning {
            attempt,
            leader,
            master,
            is_observer,
            connection,
            learner: None,
            is_tree_replaced: false,
            spare: Vec::new(),
            waiting: Default::default(),
            ages: Ages::default(),
            permits: Vec::new(),
            forwarded: Default::default(),
            syncs: Default::default(),
            revalidations: Default::default(),
            observers: None,
        })));
    }

    /// The connection to the leader is up.
    pub(super) fn handle_leader_connected(&mut self) {
        let (Role::Learning(learning), Some(member)) = (&mut self.role, &mut self.member) else {
            return;
        };
        let kind = match member.keeper.role() {
            MemberRole::Participant => LearnerKind::Follower,
            MemberRole::Observer => LearnerKind::Observer,
        };
        let start = LearnerStart {
            sid: member.keeper.me(),
            kind,
            accepted_epoch: member.epochs.accepted,
            accepted_floor: member.accepted_floor,
            current_epoch: member.epochs.current,
            last_logged: if member.is_trusted {
                member.last_logged
            } else {
                Zxid(-1)
            },
            truncation_failed_in: member.truncation_failed_in,
            config_version: member.keeper.committed().version.0,
            lacks_snapshot: !member.is_trusted,
            committed: std::mem::take(&mut member.committed),
        };
        let mut actions = Vec::new();
        let settings = member.zab_settings;
        let learner = Learner::new(start, settings, clock::session_ms(), &mut actions);
        learning.learner = Some(learner);
        self.carry_out_learner(actions);
    }

    /// The leader has sent packets.
    pub(super) fn handle_leader_packets(
        &mut self,
        packets: Vec<LeaderPacket>,
        permit: ReadAheadPermit,
    ) {
        let Role::Learning(learning) = &mut self.role else {
            return;
        };
        learning.waiting.extend(packets);
        learning.permits.push(permit);
        self.read_packets();
    }

    /// Hands the learner what has come, unless its tree is being replaced, or too much waits for the
    /// log (its next `Synced` brings us back here).
    pub(super) fn read_packets(&mut self) {
        let Role::Learning(learning) = &mut self.role else {
            return;
        };
        if learning.waiting.is_empty() {
            return learning.permits.clear();
        }
        if self.group.bytes() > limits::LEARNER_BACKLOG_BYTES {
            return;
        }
        let mut actions = std::mem::take(&mut learning.spare);
        let now_ms = clock::session_ms();
        if let Some(learner) = &mut learning.learner {
            while learner.is_reading() {
                let Some(packet) = learning.waiting.pop_front() else {
                    break;
                };
                self.shared.metrics.received_by_learner(&packet);
                learner.handle_packet(packet, now_ms, &mut actions);
            }
        }
        if learning.waiting.is_empty() {
            learning.permits.clear();
        }
        self.carry_out_learner(actions);
    }

    /// Hands something to the learner and carries out what it wants; nothing in any other role.
    pub(super) fn with_learner(
        &mut self,
        handle: impl FnOnce(&mut Learner, i64, &mut Vec<Action>),
    ) {
        let Role::Learning(learning) = &mut self.role else {
            return;
        };
        let Some(learner) = &mut learning.learner else {
            return;
        };
        let mut actions = std::mem::take(&mut learning.spare);
        handle(learner, clock::session_ms(), &mut actions);
        self.carry_out_learner(actions);
    }

    pub(super) fn carry_out_learner(&mut self, mut actions: Vec<Action>) {
        if let Role::Learning(learning) = &mut self.role {
            learning.ages.begin(clock::wall_ms());
        }
        let mut more = Vec::new();
        loop {
            for action in actions.drain(..) {
                self.carry_out_learner_action(action, &mut more);
            }
            if more.is_empty() {
                break;
            }
            std::mem::swap(&mut actions, &mut more);
        }
        if let Role::Learning(learning) = &mut self.role {
            learning.connection.flush();
        }
        self.offer_group();
        self.apply_delivered();
        if let Role::Learning(learning) = &mut self.role {
            learning.ages.of_learner(&self.shared.metrics);
            learning.spare = actions;
        }
    }

    /// `more` is what carrying it out leads to.
    fn carry_out_learner_action(&mut self, action: Action, more: &mut Vec<Action>) {
        if !matches!(
            action,
            Action::Send(_) | Action::Append(_) | Action::Deliver(_)
        ) {
            self.apply_delivered();
        }
        match &action {
            Action::Deliver(record) => self.inform_observers(record, None),
            Action::ActivateConfig {
                record,
                designated_leader,
            } => self.inform_observers(record, Some(*designated_leader)),
            _ => {}
        }
        let (Role::Learning(learning), Some(member)) = (&mut self.role, &mut self.member) else {
            return;
        };
        let Some(learner) = &mut learning.learner else {
            return;
        };
        match action {
            Action::Send(packet) => learning.connection.send(packet),
            Action::AnswerPing { zxid } => {
                let touched = self.shared.sessions.lock().take_touched();
                learning
                    .connection
                    .send(LearnerPacket::Ping { zxid, touched });
            }
            Action::SaveAcceptedEpoch(epoch) => match member.save_accepted_epoch(epoch) {
                Ok(()) => learner.handle_accepted_epoch_saved(more),
                Err(error) => self.fail(&error),
            },
            Action::SaveCurrentEpoch(epoch) => match member.save_current_epoch(epoch) {
                Ok(()) => learner.handle_current_epoch_saved(more),
                Err(error) => self.fail(&error),
            },
            Action::ReceiveSnapshot { .. } => learning.connection.receive_snapshot(),
            Action::Truncate { zxid } => self.reload(Some(zxid)),
            Action::WriteSnapshot => self.write_snapshot(),
            Action::Append(record) => {
                // An observer acknowledges nothing, and what catches a learner up is old.
                let stamp_ms = record.stamp_ms().filter(|_| !learning.is_observer);
                if let Some(stamp_ms) = stamp_ms.filter(|_| learner.is_live()) {
                    learning.ages.received(record.zxid, stamp_ms);
                }
                self.append(&record);
            }
            Action::Deliver(record) => {
                if let Some(stamp_ms) = record.stamp_ms().filter(|_| learner.is_live()) {
                    learning.ages.committed(stamp_ms);
                }
                self.delivered.push(record);
            }
            Action::ConfigProposed(record) => self.see_config_of(&record),
            Action::ConfigSeen(text) => self.see_config(&text),
            Action::InstallConfig(text) => self.install_config(&text),
            Action::ActivateConfig {
                record,
                designated_leader,
            } => self.activate_config(&record, Some(designated_leader)),
            Action::Serve { epoch } => self.serve_as_learner(epoch),
            Action::SyncDone => self.answer_sync(),
            Action::Revalidated { session, is_valid } => self.revalidated(session, is_valid),
            Action::Leave(fault) => self.leave_leader(&fault),
        }
    }

    /// The leader's snapshot is in `tree`.
    pub(super) fn handle_snapshot_received(&mut self, tree: tree::Tree) {
        let zxid = tree.last_zxid();
        self.replace_tree(tree);
        if let Role::Learning(learning) = &mut self.role {
            learning.is_tree_replaced = true;
        }
        if let Some(member) = &mut self.member {
            // What the files hold behind it is another history, or leads there with a hole.
            member.log_whole_from = zxid;
            member.last_logged = zxid;
        }
        self.with_learner(|learner, now_ms, _| learner.handle_snapshot_received(now_ms));
        self.read_packets();
    }

    /// The log thread has cut the log and loaded the tree again.
    pub(super) fn handle_truncated(&mut self, end: Zxid) {
        if let Role::Learning(learning) = &mut self.role {
            // What is committed from here on goes into the tree first.
            learning.is_tree_replaced = true;
        }
        self.with_learner(|learner, now_ms, out| learner.handle_truncated(end, now_ms, out));
        self.read_packets();
    }

    /// The snapshot that synchronisation asked for is on disk.
    pub(super) fn handle_snapshot_written(&mut self, attempt: u64) {
        let (Role::Learning(learning), Some(member)) = (&mut self.role, &mut self.member) else {
            return;
        };
        if learning.attempt != attempt {
            // Of an earlier role: it says nothing of the tree that there is now.
            return;
        }
        learning.is_tree_replaced = false;
        member.is_trusted = true;
        self.with_learner(|learner, _, out| learner.handle_snapshot_written(out));
        self.read_packets();
    }

    fn write_snapshot(&mut self) {
        let shared = self.shared.clone();
        let zxid = shared.tree.read().last_zxid();
        if let Role::Learning(learning) = &self.role {
            let of = Synchronised {
                attempt: learning.attempt,
                generation: shared.tree_generation(),
            };
            self.order_log(ToLog::Snapshot { last: zxid, of });
        }
    }

    fn serve_as_learner(&mut self, epoch: Epoch) {
        let tick_ms = self.shared.settings.tick_ms.cast_signed();
        *self.shared.sessions.lock() = Sessions::reporting(tick_ms);
        if let Some(member) = &mut self.member {
            member.truncation_failed_in = None;
            member.mesh.epoch_active(epoch);
            tracing::info!(sid = %member.keeper.me(), %epoch, "in sync with the leader");
        }
        self.shared.serve(Service::Forwarding);
        self.begin_serving_observers();
        self.publish_role();
    }

    /// Passes a client's request on.
    pub(super) fn forward(&mut self, order: Order, body: Bytes) {
        let Role::Learning(learning) = &mut self.role else {
            return self.drop_order(order);
        };
        let (Some(learner), Some(origin)) = (&mut learning.learner, &order.origin) else {
            // What a server wants by itself, only a leader can have.
            return self.drop_order(order);
        };
        if !learner.is_live() || origin.is_closed() {
            return self.drop_order(order);
        }
        let is_new_session = order.op == OpCode::CreateSession;
        let request = LearnerRequest {
            session: order.session,
            cxid: order.cxid,
            op: order.op.number(),
            body,
            authinfo: (!is_new_session).then(|| order.identities.to_vec()),
        };
        let mut actions = std::mem::take(&mut learning.spare);
        if learner.forward(request, &mut actions) {
            learning.forwarded.push(
                order.session,
                Forwarded {
                    cxid: order.cxid,
                    op: order.op,
                    origin: origin.clone(),
                    large: order.large,
                },
            );
        }
        self.carry_out_learner(actions);
    }

    /// Passes a client's sync on.
    pub(super) fn forward_sync(&mut self, sync: super::ForwardedSync) {
        if let Role::Leading(_) = &self.role {
            return self.sync_own(sync.connection);
        }
        let Role::Learning(learning) = &mut self.role else {
            return sync.connection.close();
        };
        let Some(learner) = &mut learning.learner else {
            return sync.connection.close();
        };
        let mut body = Vec::new();
        sync.path.encode(&mut body);
        let request = LearnerRequest {
            session: sync.connection.session(),
            cxid: sync.cxid,
            op: OpCode::Sync.number(),
            body: body.into(),
            authinfo: Some(sync.identities.to_vec()),
        };
        let mut actions = std::mem::take(&mut learning.spare);
        if learner.forward(request, &mut actions) {
            learning
                .syncs
                .push_back(SyncWaiter::Client(sync.connection));
        } else {
            sync.connection.close();
        }
        self.carry_out_learner(actions);
    }

    /// Asks the leader about a session that came to this server.
    pub(super) fn revalidate(&mut self, revalidation: Revalidation) {
        let Role::Learning(learning) = &mut self.role else {
            return revalidation.connection.close();
        };
        let touch = Touch {
            session: revalidation.session,
            timeout_ms: revalidation.timeout_ms,
        };
        let mut actions = std::mem::take(&mut learning.spare);
        let learner = learning.learner.as_mut();
        if learner.is_some_and(|learner| learner.revalidate(touch, &mut actions)) {
            learning.revalidations.push(revalidation);
        } else {
            revalidation.connection.close();
        }
        self.carry_out_learner(actions);
    }

    fn revalidated(&mut self, session: SessionId, is_valid: bool) {
        if self.answer_observers_question(session, is_valid) {
            return;
        }
        let Role::Learning(learning) = &mut self.role else {
            return;
        };
        if let Some(revalidation) = learning.revalidations.take(session) {
            handshake::finish_renewal(
                &self.shared,
                &revalidation.connection,
                session,
                is_valid.then_some(revalidation.timeout_ms),
                revalidation.new_style,
            );
            revalidation.connection.wake();
        }
    }

    fn answer_sync(&mut self) {
        let Role::Learning(learning) = &mut self.role else {
            return;
        };
        match learning.syncs.pop_front() {
            Some(SyncWaiter::Client(connection)) => {
                let shared = self.shared.clone();
                let tree = shared.tree.read();
                self.delivery.answer_sync(&shared, &tree, &connection);
                drop(tree);
                self.delivery.wake();
            }
            Some(SyncWaiter::Observer(link)) => self.answer_observers_sync(link),
            None => {}
        }
    }

    /// Applies what is committed.
    pub(super) fn apply_delivered(&mut self) {
        for record in std::mem::take(&mut self.delivered) {
            match self.match_delivered(&record) {
                Ok(matched) => {
                    self.in_flight.push_back(matched);
                    self.committed += 1;
                }
                Err(error) => {
                    tracing::error!(zxid = %record.zxid, err = %error, "the leader's transaction does not decode, leaving the leader");
                    return self.leave_role(Next::LookLater);
                }
            }
        }
        self.apply_committed();
    }

    /// Decodes a committed transaction and finds the request that it answers.
    fn match_delivered(&mut self, record: &Record) -> Result<InFlight, jute::DecodeError> {
        let limits = self.shared.settings.field_limits;
        let mut input = Reader::with_limits(record.txn.clone(), limits);
        let txn = TxnRecord::decode(&mut input)?;
        self.note_delivered(record.zxid);
        if let Txn::CreateSession { timeout_ms } = txn.txn {
            let (session, now_ms) = (txn.header.session, clock::session_ms());
            self.shared.sessions.lock().add(session, timeout_ms, now_ms);
        }
        let mut in_flight = InFlight::of_others(txn);
        if let Role::Learning(learning) = &mut self.role {
            let matched = learning.forwarded.take(&in_flight.record);
            self.shared.permits.give_back(matched.skipped.len());
            for skipped in matched.skipped {
                tracing::warn!(session = %in_flight.record.header.session, cxid = skipped.cxid, "the leader has left out a request, closing its connection");
                skipped.origin.close();
            }
            if let Some(request) = matched.request {
                in_flight.op = request.op;
                in_flight.origin = Some(request.origin);
                in_flight.large = request.large;
                in_flight.is_metered = true;
            }
        }
        Ok(in_flight)
    }

    fn leave_leader(&mut self, fault: &Fault) {
        tracing::warn!(err = %fault, "following is over");
        if let (Fault::CannotTruncate { epoch, .. }, Some(member)) = (fault, &mut self.member) {
            member.truncation_failed_in = Some(*epoch);
        }
        self.leave_role(match (fault, &self.role) {
            (Fault::EpochBehind { .. }, _) => Next::LookLater,
            // It may be the one whose voice the leader lacks: an election would make another epoch,
            // in which it is told to cut again.
            (Fault::CannotTruncate { .. }, Role::Learning(learning)) => {
                Next::Follow(learning.leader)
            }
            _ => Next::Look,
        });
    }
}
