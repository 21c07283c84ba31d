//! The leader's role.
//!
//! The replica executes the decisions of [`Leader`] in order, with one exception: it applies
//! commits to the tree in groups, after sending the packets of the turn.

use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use proto::request::WriteRequest;
use proto::{Epoch, Sid, Zxid};
use tree::{Overlay, Tree};
use zab::Record;
use zab::leader::{Action, Leader, LeaderStart, LinkId, StepDown};

use super::{Leading, NextRole, OracleWatch, Role};
use crate::forwarding::from_learners;
use crate::interface::effect::{DiskOrder, Effect, Service};
use crate::interface::host::{Host, State, Turn};
use crate::interface::input::Port;
use crate::interface::note::Note;
use crate::limits;
use crate::order::long_requests::OrderItem;
use crate::order::proposals::ServerRequest;
use crate::replica::Replica;
use crate::session::Sessions;
use crate::session::{Owner, SessionTracker};

/// Sid of a standalone server in `zab`.
const STANDALONE: Sid = Sid(0);

impl<H: Host> Replica<H> {
    /// Begins the role of a standalone server, which is a leader of one until it stops.
    pub(crate) fn begin_standalone(&mut self, turn: &mut Turn<'_, H>) {
        let leader = Leader::standalone(STANDALONE, self.last_zxid);
        self.role = Role::Leading(Box::new(Leading {
            attempt: 0,
            leader,
            since_ms: turn.now.ms,
            oracle: None,
            own_syncs: Default::default(),
            compares_digests: false,
            spare: Vec::new(),
        }));
        let orphans = {
            let tree = turn.state.tree();
            *turn.state.sessions() = self.track_sessions(&tree, turn.now.ms);
            tree.orphan_owners()
        };
        turn.establish(self.last_zxid);
        self.serve(Service::Deciding, turn);
        self.end_orphans(orphans);
        self.carry_out_leader(Vec::new(), turn);
    }

    /// Begins the leader's role, after an election or a reconfiguration.
    // Model: DecideLeading.
    pub(crate) fn begin_leading(&mut self, turn: &mut Turn<'_, H>) {
        let Some(member) = &mut self.member else {
            return;
        };
        member.attempt += 1;
        let attempt = member.attempt;
        let me = member.lists.me();
        turn.effect(Effect::Listen {
            port: Port::Learners,
            attempt,
            addresses: member.quorum_addresses(me).unwrap_or_default(),
        });
        let lists = &member.lists;
        let start = LeaderStart {
            sid: me,
            accepted_epoch: member.epochs.accepted,
            accepted_floor: member.accepted_floor,
            current_epoch: member.epochs.current,
            last_zxid: member.last_logged,
            committed: std::mem::take(&mut member.committed),
            log_whole_from: member.log_whole_from,
            quorum: lists.committed().quorum(),
            config_version: lists.committed().version.0,
            next: lists.last_seen().map(|seen| lists.next_config(seen)),
        };
        // Groups and weights are not compatible with an oracle.
        let has_oracle =
            member.settings.election.has_oracle && lists.committed().hierarchy.is_none();
        let mut actions = Vec::new();
        let leader = Leader::new(start, member.settings.zab, turn.now.ms, &mut actions);
        let role = Role::Leading(Box::new(Leading {
            attempt,
            leader,
            since_ms: turn.now.ms,
            oracle: has_oracle.then(OracleWatch::default),
            own_syncs: Default::default(),
            compares_digests: false,
            spare: Vec::new(),
        }));
        self.set_role(role, turn);
        if has_oracle {
            self.query_oracle(turn);
        }
        self.carry_out_leader(actions, turn);
    }

    /// Calls the leader and executes its actions. Does nothing in any other role.
    pub(crate) fn with_leader(
        &mut self,
        turn: &mut Turn<'_, H>,
        handle: impl FnOnce(&mut Leader, i64, &mut Vec<Action>),
    ) {
        let Role::Leading(leading) = &mut self.role else {
            return;
        };
        let mut actions = std::mem::take(&mut leading.spare);
        handle(&mut leading.leader, turn.now.ms, &mut actions);
        self.carry_out_leader(actions, turn);
    }

    pub(crate) fn carry_out_leader(&mut self, mut actions: Vec<Action>, turn: &mut Turn<'_, H>) {
        let mut more = Vec::new();
        loop {
            for action in actions.drain(..) {
                self.carry_out_leader_action(action, turn);
            }
            if !self.incoming.is_empty() {
                self.order_incoming(&mut more, turn);
            }
            if more.is_empty() {
                turn.effect(Effect::Flush);
                self.apply_committed(turn);
                self.order_waiting(&mut more, turn);
            }
            if more.is_empty() {
                break;
            }
            std::mem::swap(&mut actions, &mut more);
        }
        if let Role::Leading(leading) = &mut self.role {
            if self.member.is_some() {
                let pending_syncs = leading.leader.pending_syncs();
                turn.note(Note::LeaderTurnEnds { pending_syncs });
            }
            leading.spare = actions;
        }
        self.compare_digests_if_due(turn);
        self.query_oracle_if_wanted(turn);
        self.step_down_if_log_lags(turn);
    }

    /// Counts a sync of this server's own log like an acknowledgement from another voter.
    pub(crate) fn handle_leader_synced(
        &mut self,
        before: Zxid,
        upto: Zxid,
        turn: &mut Turn<'_, H>,
    ) {
        if let (Role::Leading(leading), Some(member)) = (&self.role, &self.member) {
            turn.note(Note::Synced(upto));
            let newest = newest_sampled(upto, member.settings.ack_sampling);
            let record = newest
                .filter(|zxid| *zxid > before)
                .and_then(|zxid| leading.leader.outstanding_record(zxid));
            if let Some(stamp_ms) = record.and_then(|record| record.stamp_ms()) {
                let sid = member.lists.me();
                turn.note(Note::Acknowledged { sid, stamp_ms });
            }
        }
        self.with_leader(turn, |leader, _, out| leader.handle_synced(upto, out));
    }

    /// Handles packets from a learner.
    pub(crate) fn handle_learner_packets(
        &mut self,
        link: LinkId,
        packets: Vec<LearnerPacket>,
        turn: &mut Turn<'_, H>,
    ) {
        if let (Role::Leading(leading), Some(member)) = (&self.role, &self.member) {
            let sampling = member.settings.ack_sampling;
            for packet in &packets {
                if let LearnerPacket::Ack { zxid } = packet
                    && newest_sampled(*zxid, sampling) == Some(*zxid)
                    && let Some((sid, record)) = leading.leader.outstanding_of(link, *zxid)
                    && let Some(stamp_ms) = record.stamp_ms()
                {
                    turn.note(Note::Acknowledged { sid, stamp_ms });
                }
            }
        }
        self.with_leader(turn, |leader, now_ms, out| {
            let mut packets = packets.into_iter().peekable();
            while let Some(packet) = packets.next() {
                if !packets
                    .peek()
                    .is_some_and(|next| supersedes_ack(next, &packet))
                {
                    leader.handle_packet(link, packet, now_ms, out);
                }
            }
        });
    }

    /// Steps down if the leader's own log lags. A leader can commit with a quorum of other disks,
    /// but transactions stay in memory until its own disk has them, and long requests wait for that
    /// disk.
    fn step_down_if_log_lags(&mut self, turn: &mut Turn<'_, H>) {
        let (Role::Leading(_), Some(member)) = (&self.role, &self.member) else {
            return;
        };
        let bytes = self.backlog.bytes();
        // Long requests wait for the disk, and would wait indefinitely if it hangs.
        let waits_ms = if self.long_requests.is_empty() {
            0
        } else {
            turn.now.ms - self.backlog.since_ms().unwrap_or(turn.now.ms)
        };
        if bytes > limits::LEADER_BACKLOG_BYTES || waits_ms > member.settings.zab.sync_ms() {
            tracing::error!(bytes, waits_ms, synced = %self.synced, "the disk is too slow for the transaction log, stepping down until it catches up");
            self.leave_role(NextRole::Look, turn);
        }
    }

    fn carry_out_leader_action(&mut self, action: Action, turn: &mut Turn<'_, H>) {
        if !matches!(self.role, Role::Leading(_)) {
            return;
        }
        let port = Port::Learners;
        match action {
            Action::Send { to, packet } => {
                self.is_view_stale |= matches!(packet, LeaderPacket::UpToDate);
                turn.note(Note::SentByLeader(to, &packet));
                turn.effect(Effect::Send { port, to, packet });
            }
            Action::Append(record) => {
                if self.member.is_some()
                    && let Some(stamp_ms) = record.stamp_ms()
                {
                    let zxid = record.zxid;
                    turn.note(Note::Appended { zxid, stamp_ms });
                }
                self.append(record, turn);
            }
            Action::Deliver(record) => self.count_committed(&record, turn),
            Action::SendSnapshot { to, zxid } => {
                turn.note(Note::SnapshotOrdered(to));
                self.apply_committed(turn);
                turn.effect(Effect::SendSnapshot { port, to, zxid });
            }
            Action::ReadLog { to, from, upto } => turn.effect(Effect::ReadLog { to, from, upto }),
            Action::Close { link, fault } => {
                turn.note(Note::LearnerGone(link));
                turn.effect(Effect::CloseLink { port, link, fault });
                self.is_view_stale = true;
            }
            Action::SaveAcceptedEpoch(epoch) => self.save_accepted_epoch(epoch, turn),
            Action::SaveCurrentEpoch(epoch) => self.save_current_epoch(epoch, turn),
            Action::Lead {
                epoch,
                designated_leader,
            } => self.start_serving(epoch, designated_leader, turn),
            Action::ActivateConfig {
                record,
                designated_leader,
            } => {
                self.apply_committed(turn);
                self.activate_config(&record, Some(designated_leader), turn);
            }
            Action::Request { from, request } => {
                let limits = self.settings.field_limits;
                self.incoming
                    .extend(from_learners::incoming(from, request, limits));
            }
            Action::Touch { from: _, sessions } => self.touch_sessions(&sessions, turn),
            Action::Revalidate { from, session } => {
                let (link, touch) = (from, session);
                self.incoming.push(OrderItem::Revalidate { link, touch });
            }
            Action::CompareDigests { .. } => {
                if let Role::Leading(leading) = &mut self.role {
                    leading.compares_digests = true;
                }
            }
            Action::OwnDigestDiffers {
                zxid,
                record,
                own,
                theirs,
            } => self.handle_own_digest_differs(zxid, record.as_ref(), own, theirs, turn),
            Action::StepDown(reason) => self.step_down(reason, turn),
        }
    }

    /// Counts a commit. On a standalone server, `record` is the last of the records that were
    /// committed together.
    fn count_committed(&mut self, record: &Record, turn: &mut Turn<'_, H>) {
        if self.member.is_none() {
            self.committed = self.in_flight_upto(record.zxid);
            return;
        }
        // Apache's leader does not measure reconfigurations (Leader.tryToCommit).
        let stamp_ms = record.stamp_ms().filter(|_| !record.is_reconfig());
        let by_leader = true;
        turn.note(Note::Committed {
            stamp_ms,
            by_leader,
        });
        self.committed += 1;
    }

    /// Announces the accepted epoch, which is on disk, to the learners, together with the
    /// configuration with which the epoch begins.
    pub(crate) fn announce_epoch(&mut self, epoch: Epoch, turn: &mut Turn<'_, H>) {
        let Some(member) = &mut self.member else {
            return;
        };
        let (config, file) = member.lists.epoch_config(epoch);
        if let Some(file) = file {
            let is_required = true;
            turn.disk(DiskOrder::SaveMembers { file, is_required });
        }
        self.with_leader(turn, |leader, now_ms, out| {
            leader.handle_accepted_epoch_saved(config, now_ms, out);
        });
    }

    /// Starts leading, because the epoch is established. Clients are served from now on, if
    /// `leaderServes` permits it.
    fn start_serving(
        &mut self,
        epoch: Epoch,
        designated_leader: Option<Sid>,
        turn: &mut Turn<'_, H>,
    ) {
        let last = turn.state.tree().last_zxid();
        turn.establish(last);
        let start = Zxid::new(epoch, 0);
        let orphans = {
            let mut tree = turn.state.tree_mut();
            tree.begin_epoch(start);
            self.overlay = Overlay::new(&tree);
            self.last_zxid = start;
            *turn.state.sessions() = self.track_sessions(&tree, turn.now.ms);
            tree.orphan_owners()
        };
        if let Some(member) = &mut self.member {
            member.elections.handle_epoch_active(epoch);
            tracing::info!(sid = %member.lists.me(), %epoch, "leading");
        }
        self.install_seen_config(designated_leader, turn);
        let serves = self
            .member
            .as_ref()
            .is_some_and(|member| member.settings.leader_serves);
        let Role::Leading(leading) = &mut self.role else {
            // The configuration that came into force with the epoch designates another leader.
            return;
        };
        leading.since_ms = turn.now.ms;
        if serves {
            self.serve(Service::Deciding, turn);
        } else {
            self.expiry.begin(turn.now.ms);
        }
        turn.note(Note::LeadingBegins);
        self.publish_view(turn);
        self.end_orphans(orphans);
    }

    /// Ends sessions that own ephemeral znodes but are missing from the tree. Each session ends
    /// with a transaction, so that log and tree stay equal.
    fn end_orphans(&mut self, orphans: Vec<proto::SessionId>) {
        for session in orphans {
            tracing::warn!(%session, "deleting ephemeral znodes whose session no longer exists");
            self.incoming.push(OrderItem::Order(ServerRequest::own(
                session,
                WriteRequest::CloseSession,
            )));
        }
    }

    /// Creates the session table. Every session of the tree starts with a full timeout.
    fn track_sessions(&self, tree: &Tree, now_ms: i64) -> Sessions {
        let settings = &self.settings;
        let role = if self.is_alone() {
            crate::session::Role::Standalone
        } else {
            crate::session::Role::Leader {
                server_id: settings.session_server_id,
                local_sessions: settings.local_sessions,
            }
        };
        let mut tracker = SessionTracker::new(settings.tick_ms, role);
        for (id, timeout_ms) in tree.sessions() {
            tracker.add(id, timeout_ms, now_ms);
            if self.is_alone() {
                tracker.set_owner(id, Owner::THIS_SERVER);
            }
        }
        Sessions::Deciding(tracker)
    }

    // Model: StepDown.
    fn step_down(&mut self, reason: StepDown, turn: &mut Turn<'_, H>) {
        tracing::warn!(%reason, "stopped leading");
        match (reason, &mut self.member) {
            // The next election needs the oracle.
            (StepDown::LostQuorum, Some(member)) => member.elections.set_oracle_needed(true),
            (StepDown::SupporterLooks, _) => turn.note(Note::SupporterLost),
            (StepDown::VoterAhead { accepted, .. }, Some(member)) => {
                member.accepted_floor = member.accepted_floor.max(accepted);
            }
            _ => {}
        }
        self.leave_role(NextRole::Look, turn);
    }

    /// Handles the oracle's answer. `age_ms` is the age of the query. An answer to a query of an
    /// earlier role is valid as well. An answer that is late because the process hung may be
    /// obsolete, and grants nothing.
    pub(crate) fn handle_leaders_oracle(
        &mut self,
        grants: bool,
        age_ms: i64,
        turn: &mut Turn<'_, H>,
    ) {
        let is_late = grants && age_ms > self.settings.tick_ms;
        if is_late {
            tracing::debug!(age_ms, "ignoring an outdated answer of the oracle");
        } else {
            self.with_leader(turn, |leader, now_ms, out| {
                leader.handle_oracle(grants, now_ms, out);
            });
        }
        let half_a_tick_ms = (self.settings.tick_ms / 2).max(1);
        let (Role::Leading(leading), Some(member)) = (&mut self.role, &mut self.member) else {
            return;
        };
        let is_needed = leading.leader.needs_oracle();
        if let Some(watch) = &mut leading.oracle {
            watch.query_at_ms = Some(turn.now.ms.saturating_add(half_a_tick_ms));
            if is_late {
                watch.queried_about = None;
            }
            if watch.is_needed.replace(is_needed) != Some(is_needed) {
                member.elections.set_oracle_needed(is_needed);
            }
        }
        self.query_oracle_if_wanted(turn);
    }

    /// Queries the oracle (`oraclePath`) of a two-voter ensemble. The answer arrives as
    /// [`Input::Oracle`](crate::Input::Oracle).
    pub(crate) fn query_oracle(&mut self, turn: &mut Turn<'_, H>) {
        if let Some(member) = &mut self.member {
            member.oracle_queried_ms.push_back(turn.now.ms);
        }
        if let Role::Leading(leading) = &mut self.role
            && let Some(watch) = &mut leading.oracle
        {
            watch.queried_about = leading.leader.oracle_question();
        }
        turn.effect(Effect::QueryOracle);
    }

    /// Queries the oracle immediately if a decision that arose after the last query waits for the
    /// answer. Otherwise, the next query follows half a tick after the last answer.
    fn query_oracle_if_wanted(&mut self, turn: &mut Turn<'_, H>) {
        let Role::Leading(leading) = &mut self.role else {
            return;
        };
        let question = leading.leader.oracle_question();
        if let Some(watch) = &mut leading.oracle
            && question.is_some()
            && watch.queried_about != question
            && watch.query_at_ms.take().is_some()
        {
            self.query_oracle(turn);
        }
    }

    pub(crate) fn query_oracle_if_due(&mut self, turn: &mut Turn<'_, H>) {
        let Role::Leading(leading) = &mut self.role else {
            return;
        };
        let now_ms = turn.now.ms;
        if let Some(watch) = &mut leading.oracle
            && watch
                .query_at_ms
                .take_if(|at_ms| *at_ms <= now_ms)
                .is_some()
        {
            self.query_oracle(turn);
        }
    }
}

/// Returns the newest zxid up to `upto` whose acknowledgements are measured: one in `sampling`
/// zxids. Returns `None` if `sampling` is below one. Source: Leader.processAck
/// (`leader.ackLoggingFrequency`).
fn newest_sampled(upto: Zxid, sampling: i64) -> Option<Zxid> {
    (sampling > 0).then(|| Zxid(upto.0 - upto.0 % sampling))
}

/// Returns whether `next` acknowledges everything that `packet` does, and more. This holds for
/// later zxids because a log is contiguous. A follower sends one acknowledgement per transaction,
/// and dozens arrive together.
fn supersedes_ack(next: &LearnerPacket, packet: &LearnerPacket) -> bool {
    match (packet, next) {
        // A zxid with counter 0 acknowledges NEWLEADER and must not be skipped.
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
    fn an_acknowledgement_is_skipped_only_for_a_later_one_of_its_epoch() {
        let ack = |zxid| LearnerPacket::Ack { zxid: Zxid(zxid) };
        assert!(supersedes_ack(&ack(0x1_0000_0009), &ack(0x1_0000_0008)));
        assert!(!supersedes_ack(&ack(0x1_0000_0008), &ack(0x1_0000_0008)));
        assert!(!supersedes_ack(&ack(0x1_0000_0007), &ack(0x1_0000_0008)));
        // The acknowledgement of NEWLEADER, and acknowledgements in two epochs.
        assert!(!supersedes_ack(&ack(0x1_0000_0001), &ack(0x1_0000_0000)));
        assert!(!supersedes_ack(&ack(0x2_0000_0001), &ack(0x1_0000_0008)));
        let ping = LearnerPacket::Ping {
            zxid: Zxid(0x1_0000_0009),
            touched: Vec::new(),
        };
        assert!(!supersedes_ack(&ping, &ack(0x1_0000_0008)));
        assert!(!supersedes_ack(&ack(0x1_0000_0009), &ping));
    }

    #[test]
    fn one_in_n_positions_is_measured() {
        assert_eq!(newest_sampled(Zxid(7), 3), Some(Zxid(6)));
        assert_eq!(newest_sampled(Zxid(6), 3), Some(Zxid(6)));
        assert_eq!(newest_sampled(Zxid(7), 0), None);
        assert_eq!(newest_sampled(Zxid(7), -1), None);
    }
}
