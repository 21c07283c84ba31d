//! The core thread as host of a leader.
//!
//! What the leader decides is carried out in its order, with one liberty: commits are applied to
//! the tree in groups, after the packets of the same turn are on their way.

use std::sync::Arc;

use jute::{Encode, Reader};
use proto::leader::LeaderPacket;
use proto::learner::{LearnerPacket, LearnerRequest};
use proto::request::{Request, WriteRequest};
use proto::{Epoch, ErrorCode, OpCode, Sid, Zxid};
use session::{Owner, SessionTracker};
use tree::Overlay;
use zab::Record;
use zab::leader::{Action, Leader, LeaderStart, LinkId, StepDown};

use super::Submission;
use super::core::{Core, Incoming, Order};
use super::oracle::OracleWatch;
use super::role::{Leading, Next, Role};
use crate::metrics::{Ages, is_sampled};
use crate::service::Service;
use crate::sessions::Sessions;
use crate::{clock, limits};

impl Core {
    /// This server was elected, or named by a reconfiguration.
    pub(super) fn begin_leading(&mut self) {
        let Some(member) = &mut self.member else {
            return;
        };
        if let Err(error) = member.port.open() {
            tracing::error!(err = %error, "cannot listen for learners, looking for another leader");
            return self.leave_role(Next::LookLater);
        }
        let keeper = &member.keeper;
        let start = LeaderStart {
            sid: keeper.me(),
            accepted_epoch: member.epochs.accepted,
            accepted_floor: member.accepted_floor,
            current_epoch: member.epochs.current,
            last_zxid: member.last_logged,
            committed: std::mem::take(&mut member.committed),
            log_whole_from: member.log_whole_from,
            quorum: keeper.committed().quorum(),
            config_version: keeper.committed().version.0,
            next: keeper.last_seen().map(|seen| keeper.next_config(seen)),
        };
        let settings = member.zab_settings;
        // Groups and weights know no oracle.
        let is_majority = keeper.committed().hierarchy.is_none();
        let oracle = member.oracle.as_ref().filter(|_| is_majority);
        let oracle = oracle.map(OracleWatch::begin);
        let mut actions = Vec::new();
        let leader = Leader::new(start, settings, clock::session_ms(), &mut actions);
        self.set_role(Role::Leading(Box::new(Leading {
            leader,
            since_ms: clock::monotonic_ms(),
            oracle,
            ages: Ages::default(),
            own_syncs: Default::default(),
            spare: Vec::new(),
        })));
        self.carry_out_leader(actions);
    }

    /// Hands something to the leader and carries out what it wants; nothing in any other role.
    pub(super) fn with_leader(&mut self, handle: impl FnOnce(&mut Leader, i64, &mut Vec<Action>)) {
        let Role::Leading(leading) = &mut self.role else {
            return;
        };
        let mut actions = std::mem::take(&mut leading.spare);
        handle(&mut leading.leader, clock::session_ms(), &mut actions);
        self.carry_out_leader(actions);
    }

    pub(super) fn carry_out_leader(&mut self, mut actions: Vec<Action>) {
        if let Role::Leading(leading) = &mut self.role {
            leading.ages.begin(clock::wall_ms());
        }
        let mut more = Vec::new();
        loop {
            for action in actions.drain(..) {
                self.carry_out_leader_action(action, &mut more);
            }
            if more.is_empty() && !self.incoming.is_empty() {
                self.order_incoming(&mut more);
            }
            if more.is_empty() {
                break;
            }
            std::mem::swap(&mut actions, &mut more);
        }
        if let Some(member) = &self.member {
            member.port.flush();
        }
        self.offer_group();
        self.apply_committed();
        if let Role::Leading(leading) = &mut self.role {
            let pending = leading.leader.pending_syncs();
            self.shared.role.set_pending_syncs(pending);
            leading.ages.of_leader(&self.shared.metrics);
            leading.spare = actions;
        }
        self.step_down_if_log_lags();
    }

    /// What this server's own log says as one of the voters.
    pub(super) fn handle_leader_synced(&mut self, upto: Zxid) {
        let sampled = self.ack_sampling();
        if let (Role::Leading(leading), Some(member)) = (&mut self.role, &self.member) {
            leading.ages.begin(clock::wall_ms());
            let sample = leading.ages.synced(upto, sampled);
            let is_outstanding = |zxid: &Zxid| *zxid > leading.leader.last_committed();
            if let Some((_, stamp_ms)) = sample.filter(|(zxid, _)| is_outstanding(zxid)) {
                leading.ages.acknowledged(member.keeper.me(), stamp_ms);
            }
        }
        self.with_leader(|leader, _, out| leader.handle_synced(upto, out));
    }

    /// A learner has sent packets.
    pub(super) fn handle_learner_packets(&mut self, link: LinkId, packets: Vec<LearnerPacket>) {
        let sampled = self.ack_sampling();
        if let Role::Leading(leading) = &mut self.role {
            leading.ages.begin(clock::wall_ms());
            for packet in &packets {
                if let LearnerPacket::Ack { zxid } = packet
                    && is_sampled(*zxid, sampled)
                    && let Some((sid, record)) = leading.leader.outstanding_of(link, *zxid)
                    && let Some(stamp_ms) = record.stamp_ms()
                {
                    leading.ages.acknowledged(sid, stamp_ms);
                }
            }
        }
        self.with_leader(|leader, now_ms, out| {
            let mut packets = packets.into_iter().peekable();
            while let Some(packet) = packets.next() {
                if !packets.peek().is_some_and(|next| says_more(next, &packet)) {
                    leader.handle_packet(link, packet, now_ms, out);
                }
            }
        });
    }

    /// In how many transactions one is taken of which the acknowledgements are measured.
    fn ack_sampling(&self) -> i64 {
        let ensemble = self.shared.settings.config.ensemble.as_ref();
        ensemble.map_or(0, |ensemble| ensemble.leader.ack_logging_frequency.into())
    }

    /// A leader needs no log of its own to commit what a quorum of others has on disk. While its disk
    /// stands still all that would wait for it in memory.
    fn step_down_if_log_lags(&mut self) {
        let bytes = self.group.bytes();
        if bytes > limits::LEADER_BACKLOG_BYTES && matches!(self.role, Role::Leading(_)) {
            tracing::error!(bytes, synced = %self.synced, "the disk does not keep up with the transaction log, leading is over until it has");
            self.leave_role(Next::Look);
        }
    }

    /// `more` is what carrying it out leads to.
    fn carry_out_leader_action(&mut self, action: Action, more: &mut Vec<Action>) {
        let (Role::Leading(leading), Some(member)) = (&mut self.role, &mut self.member) else {
            return;
        };
        match action {
            Action::Send { to, packet } => {
                self.is_role_stale |= matches!(packet, LeaderPacket::UpToDate);
                self.shared.metrics.sent_by_leader(&packet);
                member.port.send(to, packet);
            }
            Action::Append(record) => {
                if let Some(stamp_ms) = record.stamp_ms() {
                    leading.ages.appended(record.zxid, stamp_ms);
                }
                self.append(&record);
            }
            Action::Deliver(record) => {
                // Apache's leader leaves reconfigurations out (Leader.tryToCommit).
                let stamp_ms = record.stamp_ms().filter(|_| !record.is_reconfig());
                if let Some(stamp_ms) = stamp_ms {
                    leading.ages.committed(stamp_ms);
                }
                self.committed += 1;
                self.shared.metrics.commit_count.inc();
            }
            Action::SendSnapshot { to, zxid } => {
                self.shared.metrics.snap_count.inc();
                self.apply_committed();
                if let Some(member) = &self.member {
                    member.port.send_snapshot(to, zxid);
                }
            }
            Action::ReadLog { to, from, upto } => member.port.read_log(to, from, upto),
            Action::Close { link, fault } => {
                member.port.close(link, &fault);
                self.is_role_stale = true;
            }
            Action::SaveAcceptedEpoch(epoch) => {
                if let Err(error) = member.save_accepted_epoch(epoch) {
                    return self.fail(&error);
                }
                let config = match member.keeper.epoch_config(epoch) {
                    Ok(config) => config,
                    Err(error) => return self.fail_writing("the member list", &error),
                };
                let leader = &mut leading.leader;
                leader.handle_accepted_epoch_saved(config, clock::session_ms(), more);
            }
            Action::SaveCurrentEpoch(epoch) => {
                if let Err(error) = member.save_current_epoch(epoch) {
                    return self.fail(&error);
                }
                let leader = &mut leading.leader;
                leader.handle_current_epoch_saved(clock::session_ms(), more);
            }
            Action::Lead {
                epoch,
                designated_leader,
            } => self.lead(epoch, designated_leader),
            Action::ActivateConfig {
                record,
                designated_leader,
            } => {
                self.apply_committed();
                self.activate_config(&record, Some(designated_leader));
            }
            Action::Request { from, request } => {
                self.incoming.extend(incoming(from, request));
            }
            Action::Touch { from: _, sessions } => {
                let now_ms = clock::session_ms();
                let mut tracker = self.shared.sessions.lock();
                for touch in sessions {
                    tracker.touch(touch.session, touch.timeout_ms, now_ms);
                }
            }
            Action::Revalidate { from, session } => {
                let mut sessions = self.shared.sessions.lock();
                let is_valid = sessions.move_to(session, owner_of(from), clock::session_ms());
                drop(sessions);
                let leader = &mut leading.leader;
                leader.revalidated(from, session.session, is_valid, more);
                self.shared.metrics.revalidate_count.inc();
            }
            Action::StepDown(reason) => self.step_down(reason),
        }
    }

    /// The epoch is established: clients are served from here on.
    fn lead(&mut self, epoch: Epoch, designated_leader: Option<Sid>) {
        let shared = self.shared.clone();
        let start = Zxid::new(epoch, 0);
        let orphans = {
            let mut tree = shared.tree.write();
            tree.begin_epoch(start);
            self.overlay = Overlay::new(&tree);
            self.last_zxid = start;
            *shared.sessions.lock() = self.track_sessions(&tree);
            tree.orphan_owners()
        };
        if let Some(member) = &mut self.member {
            member.mesh.epoch_active(epoch);
            tracing::info!(sid = %member.keeper.me(), %epoch, "leading");
        }
        self.install_seen_config(designated_leader);
        let Some(member) = &self.member else { return };
        if member.serves_clients_as_leader && matches!(self.role, Role::Leading(_)) {
            shared.serve(Service::Deciding);
        }
        shared.role.begin_leading();
        self.publish_role();
        for session in orphans {
            tracing::warn!(%session, "ephemeral znodes of a session that is gone are deleted");
            self.incoming.push(Incoming::Order(Order::own(
                session,
                WriteRequest::CloseSession,
            )));
        }
    }

    /// Every session of the tree starts with a full timeout.
    fn track_sessions(&self, tree: &tree::Tree) -> Sessions {
        let settings = &self.shared.settings;
        let role = session::Role::Leader {
            server_id: settings.session_server_id,
            local_sessions: settings.config.sessions.local_enabled,
        };
        let mut tracker = SessionTracker::new(settings.tick_ms.cast_signed(), role);
        for (id, timeout_ms) in tree.sessions() {
            tracker.add(id, timeout_ms, clock::session_ms());
        }
        Sessions::Deciding(tracker)
    }

    /// Makes transactions out of the requests of this server's own clients and proposes them;
    /// what is to be carried out for that comes back.
    pub(super) fn order_all(&mut self, requests: impl Iterator<Item = Submission>) -> Vec<Action> {
        let Role::Leading(leading) = &mut self.role else {
            return Vec::new();
        };
        let mut actions = std::mem::take(&mut leading.spare);
        let shared = self.shared.clone();
        let tree = shared.tree.read();
        let now_ms = clock::wall_ms();
        for submission in requests {
            if let Some(upgrade) = submission.upgrade() {
                self.propose(&tree, upgrade, now_ms, &mut actions);
            }
            self.propose(&tree, submission.into(), now_ms, &mut actions);
        }
        actions
    }

    /// Makes transactions out of what learners have passed on and proposes them.
    fn order_incoming(&mut self, actions: &mut Vec<Action>) {
        let shared = self.shared.clone();
        let tree = shared.tree.read();
        let now_ms = clock::wall_ms();
        for incoming in std::mem::take(&mut self.incoming) {
            match incoming {
                Incoming::Order(order) => self.propose(&tree, order, now_ms, actions),
                Incoming::Sync(link) => {
                    if let Role::Leading(leading) = &mut self.role {
                        leading.leader.sync(link, actions);
                    }
                }
            }
        }
    }

    /// Makes a transaction and proposes it.
    pub(super) fn propose(
        &mut self,
        tree: &tree::Tree,
        order: Order,
        now_ms: i64,
        actions: &mut Vec<Action>,
    ) {
        let Role::Leading(leading) = &mut self.role else {
            return self.drop_order(order);
        };
        if !leading.leader.is_leading() {
            return self.drop_order(order);
        }
        let zxid = leading.leader.next_zxid();
        let (in_flight, next) = self.prepare_at(tree, order, zxid, now_ms);
        let record = Record::new(zxid, in_flight.record.to_bytes());
        let bytes = u32::try_from(record.txn.len()).unwrap_or(u32::MAX);
        self.shared.role.proposed(bytes);
        self.shared.metrics.proposal_count.inc();
        let Role::Leading(leading) = &mut self.role else {
            return;
        };
        let leader = &mut leading.leader;
        let proposed = match next {
            Some(next) => leader.propose_reconfig(record, next, clock::session_ms(), actions),
            None => leader.propose(record, clock::session_ms(), actions),
        };
        match proposed {
            Ok(()) => self.in_flight.push_back(in_flight),
            Err(error) => {
                // Its client is about to lose the connection with all others.
                tracing::warn!(%zxid, err = %error, "a request is not proposed");
                self.shared
                    .permits
                    .give_back(usize::from(in_flight.is_metered));
            }
        }
    }

    fn step_down(&mut self, reason: StepDown) {
        tracing::warn!(%reason, "leading is over");
        self.tell_oracle_needed(reason);
        if reason == StepDown::SupporterLooks {
            let metrics = &self.shared.metrics;
            metrics.quit_leading_due_to_disloyal_voter.inc();
        }
        if let (StepDown::VoterAhead { accepted, .. }, Some(member)) = (reason, &mut self.member) {
            member.accepted_floor = member.accepted_floor.max(accepted);
        }
        self.leave_role(Next::Look);
    }
}

/// Whose session it is that a learner's connection serves.
fn owner_of(link: LinkId) -> Owner {
    Owner(link.0)
}

/// A learner's request, understood; nothing for what is dropped without an answer.
///
/// A body that does not decode becomes an error transaction with a zxid of its own: whoever
/// passed it on waits for one (ensemble-protocol.md 15.1).
fn incoming(from: LinkId, request: LearnerRequest) -> Option<Incoming> {
    let op = request.op();
    let (
        Some(op),
        LearnerRequest {
            session,
            cxid,
            body,
            authinfo,
            ..
        },
    ) = (op, request)
    else {
        tracing::debug!(
            link = from.0,
            "a learner's request of an unknown type is dropped"
        );
        return None;
    };
    if op == OpCode::Sync {
        return Some(Incoming::Sync(from));
    }
    let write = match op {
        OpCode::CreateSession => Reader::new(body)
            .i32()
            .map(|timeout_ms| WriteRequest::CreateSession { timeout_ms }),
        OpCode::CloseSession => Ok(WriteRequest::CloseSession),
        op => match Request::decode(op, &mut Reader::new(body)) {
            Ok(Request::Write(write)) => Ok(write),
            Ok(Request::Read(_) | Request::Sync(_)) => {
                tracing::debug!(link = from.0, op = op.name(), "a learner's read is dropped");
                return None;
            }
            Err(error) => Err(error),
        },
    };
    let has_identities = authinfo.is_some() || op == OpCode::CreateSession;
    let request = match write {
        Ok(write) if has_identities => Ok(write),
        Ok(_) => Err(ErrorCode::MarshallingError),
        Err(error) => {
            tracing::warn!(link = from.0, %session, op = op.name(), err = %error, "a learner passes on a request that does not decode");
            Err(ErrorCode::MarshallingError)
        }
    };
    Some(Incoming::Order(Order {
        origin: None,
        owner: owner_of(from),
        session,
        cxid,
        op,
        identities: Arc::from(authinfo.unwrap_or_default()),
        request,
        large: None,
        is_metered: false,
    }))
}

/// Whether `next` acknowledges what `packet` does, and more: a log has no holes. A follower sends one
/// for each transaction, and dozens come at once.
fn says_more(next: &LearnerPacket, packet: &LearnerPacket) -> bool {
    match (packet, next) {
        // Counter 0 is not of a proposal.
        (LearnerPacket::Ack { zxid }, LearnerPacket::Ack { zxid: next }) => {
            zxid.counter() != 0 && zxid.epoch() == next.epoch() && zxid < next
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_is_passed_over_for_a_later_one_of_its_epoch_alone() {
        let ack = |zxid| LearnerPacket::Ack { zxid: Zxid(zxid) };
        assert!(says_more(&ack(0x1_0000_0009), &ack(0x1_0000_0008)));
        assert!(!says_more(&ack(0x1_0000_0008), &ack(0x1_0000_0008)));
        assert!(!says_more(&ack(0x1_0000_0007), &ack(0x1_0000_0008)));
        // NEWLEADER's own, and those of two epochs.
        assert!(!says_more(&ack(0x1_0000_0001), &ack(0x1_0000_0000)));
        assert!(!says_more(&ack(0x2_0000_0001), &ack(0x1_0000_0008)));
        let ping = LearnerPacket::Ping {
            zxid: Zxid(0x1_0000_0009),
            touched: Vec::new(),
        };
        assert!(!says_more(&ping, &ack(0x1_0000_0008)));
        assert!(!says_more(&ack(0x1_0000_0009), &ping));
    }
}
