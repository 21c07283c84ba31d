//! From role to role, and what all roles of an ensemble's member have in common.

use jute::{Decode, Encode, Reader};
use proto::request::WriteRequest;
use proto::txn::{Txn, TxnRecord};
use proto::{ErrorCode, Sid, Zxid};
use storage::StorageError;
use tree::{PrepareContext, SessionKind, Tree};
use zab::Record;
use zab::leader::NextConfig;
use zab::learner::Learner;

use super::core::{Core, InFlight, Incoming, Order};
use super::log::ToLog;
use super::observers::Observers;
use super::role::{Draining, Next, Role};
use crate::clock;
use crate::error::exit_code;
use crate::mesh::MeshEvent;
use crate::peer::PeerEvent;

/// Before a leader that was found wanting is looked for again, ms. Apache ZooKeeper comes back at
/// once, 40 to 250 times a second.
const PAUSE_MS: i64 = 1000;

impl Core {
    /// The first thing that a member does is to look for a leader.
    pub(super) fn begin(&mut self) {
        if let Some(member) = &self.member {
            member.look();
            self.show_config();
            self.plan_read_only();
        }
        self.publish_role();
    }

    /// The election has something to say.
    pub(super) fn handle_mesh(&mut self, event: MeshEvent) {
        match event {
            MeshEvent::Elected { state, vote, round } => {
                if matches!(self.role, Role::Looking) {
                    self.take_role(state, vote.leader);
                } else {
                    tracing::debug!(%round, "an election is over that nobody waits for");
                }
            }
            MeshEvent::ConfigSeen { from, membership } => {
                let version = membership.version;
                tracing::info!(%from, %version, "another server has a newer member list");
                self.install_list(membership);
            }
            MeshEvent::SupporterLooks { sid } => {
                tracing::debug!(%sid, "a voter that elected this server looks for a leader");
                self.with_leader(|leader, now_ms, out| leader.handle_supporter_looks(now_ms, out));
            }
            MeshEvent::Failed { error } => {
                tracing::error!(err = %error, "elections cannot go on, stopping");
                self.failure.report(EXIT_UNEXPECTED);
            }
        }
    }

    fn take_role(&mut self, state: proto::notification::PeerState, leader: Sid) {
        use proto::notification::PeerState;
        match state {
            PeerState::Leading => {
                self.end_read_only();
                self.begin_leading();
            }
            PeerState::Following | PeerState::Observing => {
                self.end_read_only();
                self.begin_learning(leader);
            }
            PeerState::Looking | PeerState::Unknown(_) => {}
        }
    }

    /// A connection to another server has something to say. What belongs to an earlier role says
    /// nothing any more.
    pub(super) fn handle_peer(&mut self, event: PeerEvent) {
        match event {
            PeerEvent::LearnerConnected { link, peer } => {
                tracing::debug!(link = link.0, %peer, "a learner connects");
                self.with_leader(|leader, now_ms, _| leader.handle_connected(link, now_ms));
                self.is_role_stale = true;
            }
            PeerEvent::LearnerPackets {
                link,
                packets,
                permit: _permit,
            } => self.handle_learner_packets(link, packets),
            PeerEvent::LearnerClosed { link, .. } => {
                self.with_leader(|leader, _, _| leader.handle_closed(link));
                self.is_role_stale = true;
            }
            PeerEvent::SnapshotSent { link } => {
                self.with_leader(|leader, now_ms, _| leader.handle_snapshot_sent(link, now_ms));
            }
            PeerEvent::LogRecords { link, records } => self.with_leader(|leader, now_ms, out| {
                leader.handle_log_records(link, &records, now_ms, out);
            }),
            PeerEvent::LogUnusable { link } => self.with_leader(|leader, now_ms, out| {
                leader.handle_log_unusable(link, now_ms, out);
            }),
            PeerEvent::LeaderConnected { attempt } if self.is_attempt(attempt) => {
                self.handle_leader_connected();
            }
            PeerEvent::LeaderPackets {
                attempt,
                packets,
                permit,
            } if self.is_attempt(attempt) => self.handle_leader_packets(packets, permit),
            PeerEvent::LeaderUnreachable { attempt, error } if self.is_attempt(attempt) => {
                tracing::warn!(err = %error, "the leader cannot be reached");
                self.leave_role(Next::Look);
            }
            PeerEvent::LeaderClosed { attempt, reason } if self.is_attempt(attempt) => {
                tracing::warn!(%reason, "the connection to the leader is gone");
                self.leave_role(Next::Look);
            }
            PeerEvent::SnapshotProgress { attempt } if self.is_attempt(attempt) => {
                self.with_learner(|learner, now_ms, _| learner.handle_progress(now_ms));
            }
            PeerEvent::SnapshotReceived { attempt, tree } if self.is_attempt(attempt) => {
                self.handle_snapshot_received(*tree);
            }
            PeerEvent::SnapshotDamaged { attempt, error } if self.is_attempt(attempt) => {
                tracing::error!(err = %error, "the leader's snapshot is no good");
                self.with_learner(|learner, _, out| learner.handle_snapshot_damaged(out));
            }
            _ => {}
        }
    }

    fn is_attempt(&self, number: u64) -> bool {
        matches!(&self.role, Role::Learning(learning) if learning.attempt == number)
    }

    /// When something is to happen if nothing else does, ms.
    pub(super) fn deadline_ms(&self) -> Option<i64> {
        match &self.role {
            Role::Alone(_) => None,
            Role::Leading(leading) => leading.leader.deadline_ms(),
            Role::Learning(learning) => {
                let learner = learning.learner.as_ref().and_then(Learner::deadline_ms);
                let observers = learning.observers.as_ref().and_then(Observers::deadline_ms);
                let log = self.gathers_until_ms();
                [learner, observers, log].into_iter().flatten().min()
            }
            Role::Draining(_) => None,
            Role::Looking => {
                let member = self.member.as_ref()?;
                let deadlines = [member.look_at_ms, member.read_only_at_ms];
                deadlines.into_iter().flatten().min()
            }
        }
    }

    /// What was announced by `deadline_ms` is due.
    pub(super) fn handle_deadline(&mut self) {
        match &self.role {
            Role::Alone(_) | Role::Draining(_) => {}
            Role::Leading(_) => {
                self.with_leader(|leader, now_ms, out| leader.handle_deadline(now_ms, out));
            }
            Role::Learning(_) => {
                self.with_learner(|learner, now_ms, out| learner.handle_deadline(now_ms, out));
                self.handle_observers_deadline();
                self.offer_group();
            }
            Role::Looking => {
                let now_ms = clock::session_ms();
                let member = self.member.as_mut();
                if let Some(member) =
                    member.filter(|member| member.look_at_ms.is_some_and(|at_ms| at_ms <= now_ms))
                {
                    member.look_at_ms = None;
                    member.look();
                }
                self.begin_read_only_if_due(now_ms);
            }
        }
    }

    pub(super) fn set_role(&mut self, role: Role) {
        self.role = role;
        self.publish_role();
    }

    /// The role is over: nobody is served, nothing is ordered. What was appended is made part of
    /// the history before anything else begins.
    pub(super) fn leave_role(&mut self, next: Next) {
        self.apply_committed();
        self.apply_delivered();
        self.shared.stop_serving();
        let Some(member) = &mut self.member else {
            return;
        };
        if matches!(next, Next::Look | Next::LookLater | Next::End) {
            member.mesh.end_role();
        }
        let mut reloads = false;
        match std::mem::replace(&mut self.role, Role::Looking) {
            Role::Leading(leading) => {
                match next {
                    Next::Follow(_) => member.port.hand_over(),
                    _ => member.port.close_all(),
                }
                member.committed = leading.leader.into_committed();
            }
            Role::Learning(learning) => {
                if let Some(port) = &member.observer_port {
                    port.close_all();
                }
                self.shared.permits.give_back(learning.forwarded.len());
                if learning.is_observer {
                    member.look_pause_ms = member.observing.pause_before_look_ms();
                }
                if let Some(learner) = learning.learner {
                    // Until the snapshot has come whole the tree is still the one of before.
                    reloads = learner.is_tree_unsaved() && learning.is_tree_replaced;
                    member.committed = learner.into_committed();
                }
            }
            Role::Draining(draining) => reloads = draining.reloads,
            Role::Alone(_) | Role::Looking => {}
        }
        for incoming in std::mem::take(&mut self.incoming) {
            if let Incoming::Order(order) = incoming {
                self.drop_order(order);
            }
        }
        self.set_role(Role::Draining(Draining { next, reloads }));
        self.drain();
    }

    /// Goes on with the end of a role, if the log is on disk.
    pub(super) fn drain(&mut self) {
        self.offer_group();
        let Role::Draining(draining) = &self.role else {
            return;
        };
        if !self.group.is_empty() || self.synced < self.appended {
            return;
        }
        let (next, reloads) = (draining.next, draining.reloads);
        if self.is_reloading {
            return;
        }
        if reloads {
            self.undelivered.clear();
            self.in_flight.clear();
            return self.reload(None);
        }
        self.apply_uncommitted();
        self.take_next(next);
    }

    fn take_next(&mut self, next: Next) {
        let next = if self.is_ending { Next::End } else { next };
        let Some(member) = &mut self.member else {
            return;
        };
        member.last_logged = member.last_logged.max(self.appended);
        self.role = Role::Looking;
        let pause_ms = std::mem::take(&mut member.look_pause_ms);
        match next {
            Next::Look if pause_ms == 0 => {
                member.look();
                self.plan_read_only();
            }
            Next::Look | Next::LookLater => {
                let pause_ms = match next {
                    Next::LookLater => pause_ms.max(PAUSE_MS),
                    _ => pause_ms,
                };
                member.look_at_ms = Some(clock::session_ms().saturating_add(pause_ms));
                self.plan_read_only();
            }
            Next::Follow(leader) => {
                member.take_appointment(leader);
                self.begin_learning(leader);
            }
            Next::Lead => {
                member.take_appointment(member.keeper.me());
                self.begin_leading();
            }
            Next::End => {}
        }
        self.publish_role();
    }

    /// Appended and not committed: after a restart it would be history, so it is now.
    fn apply_uncommitted(&mut self) {
        let limits = self.shared.settings.field_limits;
        for one in &mut self.in_flight {
            one.origin = None;
        }
        for record in std::mem::take(&mut self.undelivered) {
            let mut input = Reader::with_limits(record.txn, limits);
            match TxnRecord::decode(&mut input) {
                Ok(txn) => self.in_flight.push_back(InFlight::of_others(txn)),
                Err(error) => {
                    tracing::error!(zxid = %record.zxid, err = %error, "an appended transaction does not decode");
                }
            }
        }
        let Some(last) = self.in_flight.back() else {
            return;
        };
        tracing::info!(zxid = %last.record.header.zxid, len = self.in_flight.len(), "appended and not known to be committed, taken into the history");
        if let Some(member) = &mut self.member {
            for one in &self.in_flight {
                let (zxid, txn) = (one.record.header.zxid, one.record.to_bytes());
                member.committed.push(Record::new(zxid, txn));
            }
        }
        self.shared.give_up_snapshots();
        self.committed = self.in_flight.len();
        self.apply_committed();
    }

    /// Has the tree loaded from disk, after a cut if `keep` is given.
    pub(super) fn reload(&mut self, keep: Option<Zxid>) {
        self.is_reloading = true;
        // One under way is of the tree that goes.
        self.shared.give_up_snapshots();
        self.order_log(ToLog::Reload { keep });
    }

    /// The log thread has loaded the tree from disk, after a cut or because it was not to be
    /// trusted. `tree` is `None` if the cut was refused and nothing is changed.
    pub(super) fn handle_reloaded(&mut self, tree: Option<Box<Tree>>, end: Zxid) {
        self.is_reloading = false;
        if let Some(tree) = tree {
            self.replace_tree(*tree);
            if let Some(member) = &mut self.member {
                member.last_logged = end;
            }
        }
        match &mut self.role {
            Role::Learning(_) => self.handle_truncated(end),
            Role::Draining(draining) => {
                draining.reloads = false;
                self.drain();
            }
            _ => {}
        }
    }

    /// Another history takes the place of the tree.
    pub(super) fn replace_tree(&mut self, tree: Tree) {
        let zxid = tree.last_zxid();
        self.shared.replace_tree(tree);
        self.undelivered.clear();
        self.in_flight.clear();
        (self.appended, self.synced, self.last_zxid) = (zxid, zxid, zxid);
        // It is not in the log: each server puts it there (Learner.syncWithLeader).
        self.show_config();
    }

    /// Hands a record to the log.
    pub(super) fn append(&mut self, record: &Record) {
        self.group.push_bytes(record.zxid, &record.txn);
        self.appended = record.zxid;
        if let Some(member) = &mut self.member {
            member.last_logged = record.zxid;
        }
        if matches!(self.role, Role::Learning(_)) {
            self.undelivered.push_back(record.clone());
        }
    }

    /// A record that was appended is being applied.
    pub(super) fn note_delivered(&mut self, zxid: Zxid) {
        while self
            .undelivered
            .front()
            .is_some_and(|record| record.zxid <= zxid)
        {
            self.undelivered.pop_front();
        }
    }

    /// Makes the transaction for `order`; with the configuration that it brings, if it does.
    pub(super) fn prepare_at(
        &mut self,
        tree: &Tree,
        order: Order,
        zxid: Zxid,
        now_ms: i64,
    ) -> (InFlight, Option<NextConfig>) {
        let mut next_config = None;
        let session_check = self.check_session(&order);
        let context = PrepareContext {
            session: order.session,
            cxid: order.cxid,
            zxid,
            time_ms: now_ms,
            identities: &order.identities,
            session_check,
        };
        let record = match &order.request {
            Err(error) => self.overlay.refuse(tree, *error, &context),
            Ok(WriteRequest::Reconfig(request)) => {
                let (record, next) = self.prepare_reconfig(tree, request, &context);
                next_config = next;
                record
            }
            Ok(WriteRequest::CloseSession) => {
                let begun_ms = clock::monotonic_ms();
                let record = self
                    .overlay
                    .prepare(tree, &WriteRequest::CloseSession, &context);
                let took_ms = clock::monotonic_ms() - begun_ms;
                self.shared.metrics.close_session_prep_time.record(took_ms);
                record
            }
            Ok(request) => self.overlay.prepare(tree, request, &context),
        };
        if let Ok(request) = &order.request {
            self.shared.metrics.became(request, &record.txn);
        }
        if let Txn::CreateSession { timeout_ms } = record.txn {
            let mut sessions = self.shared.sessions.lock();
            sessions.add(order.session, timeout_ms, clock::session_ms());
            sessions.set_owner(order.session, order.owner);
        }
        if matches!(record.txn, Txn::CloseSession { .. }) {
            // Requests behind it are refused from here on.
            self.shared.sessions.lock().set_closing(order.session);
        }
        self.last_zxid = zxid;
        let in_flight = InFlight {
            record,
            op: order.op,
            origin: order.origin,
            large: order.large,
            is_metered: order.is_metered,
        };
        (in_flight, next_config)
    }

    fn check_session(&self, order: &Order) -> Result<SessionKind, ErrorCode> {
        match &order.request {
            // The server's own, or what begins and ends a session.
            Ok(
                WriteRequest::CreateSession { .. }
                | WriteRequest::CloseSession
                | WriteRequest::DeleteContainer { .. },
            ) => Ok(SessionKind::Global),
            _ => {
                let mut sessions = self.shared.sessions.lock();
                sessions.check(order.session, order.owner)
            }
        }
    }

    /// A request that nobody will answer.
    pub(super) fn drop_order(&mut self, order: Order) {
        self.shared.permits.give_back(usize::from(order.is_metered));
        if let Some(origin) = &order.origin {
            origin.close();
        }
    }

    /// The disk has failed where no answer is worth anything any more.
    pub(super) fn fail(&mut self, error: &StorageError) {
        tracing::error!(err = %error, "cannot write to the data directory, stopping");
        self.shared.stop_serving();
        self.failure.report(exit_code(error));
        self.is_failed = true;
    }

    /// The same for a file that is not storage's.
    pub(super) fn fail_writing(&mut self, what: &str, error: &std::io::Error) {
        tracing::error!(err = %error, "cannot write {what}, stopping");
        self.shared.stop_serving();
        self.failure.report(EXIT_UNEXPECTED);
        self.is_failed = true;
    }

    /// The server is told to end.
    pub(super) fn end_role(&mut self) {
        match self.role {
            Role::Alone(_) | Role::Looking => {}
            Role::Leading(_) | Role::Learning(_) | Role::Draining(_) => self.leave_role(Next::End),
        }
    }
}

/// Exit code of what nobody has foreseen. Source: ExitCode.UNEXPECTED_ERROR.
const EXIT_UNEXPECTED: u8 = 1;
