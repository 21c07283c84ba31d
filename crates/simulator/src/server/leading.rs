//! Host of a leader.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use proto::{Epoch, Zxid};
use session::{Role as SessionRole, SessionTracker};
use tree::{Overlay, SnapshotCursor};
use zab::CommittedLog;
use zab::leader::{Action, Leader, LeaderStart, LinkId, StepDown};

use super::{Job, Role, Server};
use crate::Mutant;
use crate::network::Message;
use crate::quorum;
use crate::world::World;

/// Packets that may wait for a learner.
const BACKLOG_MAX: usize = 5000;

pub(crate) struct Leading {
    pub(crate) core: Leader,
    pub(super) links: BTreeMap<u64, Link>,
    /// Set once the epoch is established.
    pub(crate) office: Option<Office>,
}

/// What only an established leader has.
pub(crate) struct Office {
    pub(super) epoch: Epoch,
    pub(super) overlay: Overlay,
    pub(super) tracker: SessionTracker,
    /// Clients of this server that wait for a `sync`: behind which zxid.
    pub(super) syncs: VecDeque<(Zxid, u64, i32)>,
}

/// A learner's connection.
#[derive(Default)]
pub(super) struct Link {
    /// A snapshot under way.
    sending: Option<SnapshotCursor>,
    /// What comes behind it.
    held: Vec<Message>,
    skips_commit: bool,
}

impl Leading {
    pub(super) fn expiry_ms(&self) -> Option<i64> {
        self.office.as_ref()?.tracker.next_deadline()
    }
}

impl Server {
    pub(super) fn start_leading(&mut self, world: &mut World) {
        let mut committed = std::mem::take(&mut self.committed);
        if world.is(Mutant::CommittedLogKeptOverSnapshot) || world.is(Mutant::DiffNotInCommittedLog)
        {
            committed = self.committed_with_hole(world);
        }
        let start = LeaderStart {
            sid: self.sid,
            accepted_epoch: self.epochs.accepted,
            accepted_floor: self.accepted_floor,
            current_epoch: self.epochs.current,
            last_zxid: self.last_logged(),
            committed,
            log_whole_from: self.log_whole_from,
            quorum: Arc::new(quorum::of(&world.plan)),
            config_version: 0,
            next: None,
        };
        let mut out = Vec::new();
        let core = Leader::new(start, world.plan.zab(), world.now_ms(), &mut out);
        self.role = Role::Leading(Box::new(Leading {
            core,
            links: BTreeMap::new(),
            office: None,
        }));
        self.leader_actions(out, world);
    }

    /// Drives the core and carries out what it says.
    pub(super) fn lead(
        &mut self,
        world: &mut World,
        step: impl FnOnce(&mut Leader, i64, &mut Vec<Action>),
    ) {
        let Role::Leading(leading) = &mut self.role else {
            return;
        };
        let mut out = Vec::new();
        step(&mut leading.core, world.now_ms(), &mut out);
        self.leader_actions(out, world);
    }

    fn leader_actions(&mut self, actions: Vec<Action>, world: &mut World) {
        for action in actions {
            if self.ended.is_some() || !matches!(self.role, Role::Leading(_)) {
                return;
            }
            let is_ping = |action: &Action| {
                matches!(
                    action,
                    Action::Send {
                        packet: LeaderPacket::Ping { .. },
                        ..
                    } | Action::Touch { .. }
                )
            };
            if world.prints && !is_ping(&action) {
                world.say(self.sid, || action.to_string());
            }
            self.leader_action(action, world);
        }
    }

    fn leader_action(&mut self, action: Action, world: &mut World) {
        match action {
            Action::Send { to, packet } => self.send_down(to, packet, world),
            Action::SendSnapshot { to, zxid } => self.start_sending(to, zxid, world),
            Action::ReadLog { to, from, upto } => self.start_reading_log(to, from, upto, world),
            Action::Close { link, .. } => {
                if let Role::Leading(leading) = &mut self.role {
                    leading.links.remove(&link.0);
                }
                world.close(self.place(), link.0);
            }
            Action::SaveAcceptedEpoch(epoch) => self.save_accepted(epoch, world),
            Action::SaveCurrentEpoch(epoch) => self.save_current(epoch, world),
            Action::Append(record) => {
                world.checks.proposes(self.sid, &record);
                self.append(record, world);
            }
            Action::Deliver(record) => {
                self.forget_delivered(record.zxid);
                world
                    .checks
                    .commits(self.sid, &record, self.tree.last_zxid());
                self.apply(&record, world);
                self.own_syncs_done(record.zxid, world);
            }
            Action::Lead { epoch, .. } => self.take_office(epoch, world),
            Action::Request { from, request } => self.learner_request(from, &request, world),
            Action::Touch { from: _, sessions } => {
                let now_ms = world.now_ms();
                if let Role::Leading(leading) = &mut self.role
                    && let Some(office) = &mut leading.office
                {
                    for touch in sessions {
                        office
                            .tracker
                            .touch(touch.session, touch.timeout_ms, now_ms);
                    }
                }
            }
            Action::Revalidate { from, session } => self.revalidate(from, session, world),
            Action::StepDown(reason) => {
                if let StepDown::VoterAhead { accepted, .. } = reason {
                    self.accepted_floor = self.accepted_floor.max(accepted);
                }
                self.end_role(&reason.to_string(), world);
            }
            Action::ActivateConfig { .. } => {
                let text = format!("server {}: {action}", self.sid);
                world.checks.fail("one member list", text);
            }
        }
    }

    /// Every server was brought to this leader's history, which is therefore committed.
    fn take_office(&mut self, epoch: Epoch, world: &mut World) {
        world.checks.leads(self.sid, epoch, &self.tree);
        if !world.is(Mutant::LeaderKeepsElectedEpoch) {
            self.election.handle_epoch_active(epoch);
        }
        let (now_ms, tick_ms) = (world.now_ms(), world.plan.tick_ms);
        let role = SessionRole::Leader {
            server_id: self.sid.0.to_be_bytes()[7],
            local_sessions: false,
        };
        let mut tracker = SessionTracker::new(tick_ms, role);
        for (session, timeout_ms) in self.tree.sessions() {
            tracker.add(session, timeout_ms, now_ms);
        }
        let overlay = Overlay::new(&self.tree);
        if let Role::Leading(leading) = &mut self.role {
            leading.office = Some(Office {
                epoch,
                overlay,
                tracker,
                syncs: VecDeque::new(),
            });
        }
        for orphan in self.tree.orphan_owners() {
            self.close_session(orphan, world);
        }
    }

    fn send_down(&mut self, to: LinkId, packet: LeaderPacket, world: &mut World) {
        let place = self.place();
        if let Role::Leading(leading) = &mut self.role
            && let Some(link) = leading.links.get_mut(&to.0)
        {
            let new_leader = match packet {
                LeaderPacket::NewLeader { zxid, .. } => Some(zxid),
                _ => None,
            };
            let message = Message::Down(packet);
            if link.sending.is_some() {
                link.held.push(message);
            } else {
                world.send(place, to.0, message);
            }
            if let Some(zxid) = new_leader
                && world.is(Mutant::NewLeaderQuorumSkipped)
                && !link.skips_commit
            {
                link.skips_commit = true;
                let ack = LearnerPacket::Ack { zxid };
                self.lead(world, |core, now_ms, out| {
                    core.handle_packet(to, ack, now_ms, out)
                });
            }
        }
        if world.network.backlog(to.0, 1) > BACKLOG_MAX {
            world.close(self.place(), to.0);
            self.learner_closed(to.0);
        }
    }

    fn start_sending(&mut self, to: LinkId, zxid: Zxid, world: &mut World) {
        if let Role::Leading(leading) = &mut self.role
            && let Some(link) = leading.links.get_mut(&to.0)
        {
            link.sending = Some(self.tree.start_snapshot());
            let snap = Message::Down(LeaderPacket::Snap { zxid });
            world.send(self.place(), to.0, snap);
            self.start_job(Job::SendSnapshot(to.0), 500, world);
        }
    }

    pub(super) fn continue_sending(&mut self, to: u64, world: &mut World) {
        let place = self.place();
        let Role::Leading(leading) = &mut self.role else {
            return;
        };
        let Some(link) = leading.links.get_mut(&to) else {
            return;
        };
        let Some(cursor) = &mut link.sending else {
            return;
        };
        let mut chunk = Vec::new();
        let more = self
            .tree
            .snapshot_chunk(cursor, world.plan.chunk_bytes, &mut chunk);
        world.send(place, to, Message::SnapshotBytes(Bytes::from(chunk)));
        if more {
            let delay = world.random.range(200, 5000);
            return self.start_job(Job::SendSnapshot(to), delay, world);
        }
        link.sending = None;
        world.send(place, to, Message::SnapshotEnd);
        for held in std::mem::take(&mut link.held) {
            world.send(place, to, held);
        }
        leading
            .core
            .handle_snapshot_sent(LinkId(to), world.now_ms());
    }

    pub(super) fn learner_connected(&mut self, connection: u64, world: &mut World) {
        if let Role::Leading(leading) = &mut self.role {
            leading.links.insert(connection, Link::default());
            leading
                .core
                .handle_connected(LinkId(connection), world.now_ms());
        }
    }

    pub(super) fn learner_closed(&mut self, connection: u64) {
        if let Role::Leading(leading) = &mut self.role
            && leading.links.remove(&connection).is_some()
        {
            leading.core.handle_closed(LinkId(connection));
        }
    }

    pub(super) fn hear_learner(
        &mut self,
        connection: u64,
        packet: LearnerPacket,
        world: &mut World,
    ) {
        let link = LinkId(connection);
        self.lead(world, |core, now_ms, out| {
            core.handle_packet(link, packet, now_ms, out)
        });
    }

    pub(super) fn leading_deadlines(&mut self, world: &mut World) {
        self.lead(world, |core, now_ms, out| core.handle_deadline(now_ms, out));
        let now_ms = world.now_ms();
        let expired = match &mut self.role {
            Role::Leading(leading) => leading
                .office
                .as_mut()
                .map(|office| office.tracker.expire(now_ms)),
            _ => None,
        };
        for session in expired.into_iter().flatten() {
            world.say(self.sid, || format!("session {session} expires"));
            world.checks.expires(session);
            self.close_session(session, world);
        }
    }

    /// How far this server has come. A leader has come to the beginning of its epoch, which is what
    /// a learner's tree says that got it as a snapshot.
    pub(super) fn reached(&self) -> Zxid {
        let begun = match &self.role {
            Role::Leading(leading) => leading.office.as_ref().map(|office| office.epoch),
            _ => None,
        };
        let begun = begun.map_or(Zxid::ZERO, |epoch| Zxid::new(epoch, 0));
        begun.max(self.tree.last_zxid())
    }

    /// Told to end its role.
    pub(crate) fn step_down(&mut self, world: &mut World) {
        self.lead(world, |core, _, out| core.handle_told_to_leave(out));
    }

    /// What is left of the committed log if what synchronisation brought is not put into it.
    fn committed_with_hole(&self, world: &World) -> CommittedLog {
        let mut holed = CommittedLog::new(world.plan.committed_len);
        for record in &self.heard_live {
            holed.push(record.clone());
        }
        holed
    }
}
