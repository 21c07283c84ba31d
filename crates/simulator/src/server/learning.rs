//! Host of a learner.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use bytes::Bytes;
use jute::Limits;
use proto::leader::LeaderPacket;
use proto::learner::{LearnerPacket, Touch};
use proto::{SessionId, Zxid};
use recovery::Restore;
use storage::read_body;
use zab::Record;
use zab::learner::{Action, Fault, Learner, LearnerKind, LearnerStart};

use super::boot::tree_settings;
use super::{Role, Server};
use crate::Mutant;
use crate::network::Message;
use crate::world::World;

pub(crate) struct Learning {
    pub(crate) core: Learner,
    pub(super) connection: u64,
    /// The snapshot that is coming in, and the zxid it stands for.
    receiving: Option<(Zxid, Vec<u8>)>,
    /// The role ends with a tree that is no good.
    pub(super) is_tree_bad: bool,
    /// Clients that wait for a `sync`, in the order it was sent up.
    pub(super) syncs: VecDeque<(u64, i32)>,
    /// Sessions heard from since the last ping.
    pub(super) touched: BTreeMap<SessionId, i32>,
    whole_from: Zxid,
    /// Records that a mutant logs too late.
    pub(super) kept: Vec<Record>,
    /// For mutants: what stands behind DIFF is still to come, NEWLEADER was there.
    drops_next: bool,
    had_new_leader: bool,
    /// It was told to serve. The core is live a little earlier: what follows until then still
    /// goes over a snapshot that may hold parts of it.
    pub(super) serves: bool,
}

impl Learning {
    pub(super) fn may_take(&self) -> bool {
        self.receiving.is_some() || self.core.is_reading()
    }
}

impl Server {
    pub(super) fn start_learning(&mut self, connection: u64, world: &mut World) {
        world.say(self.sid, || "is connected to its leader".into());
        let start = LearnerStart {
            sid: self.sid,
            kind: self.kind,
            accepted_epoch: self.epochs.accepted,
            accepted_floor: self.accepted_floor,
            current_epoch: self.epochs.current,
            last_logged: self.last_logged(),
            truncation_failed_in: self.truncation_failed_in,
            config_version: 0,
            lacks_snapshot: self.is_untrusted,
            committed: std::mem::take(&mut self.committed),
        };
        let mut out = Vec::new();
        let core = Learner::new(start, world.plan.zab(), world.now_ms(), &mut out);
        self.role = Role::Learning(Box::new(Learning {
            core,
            connection,
            receiving: None,
            is_tree_bad: false,
            syncs: VecDeque::new(),
            touched: BTreeMap::new(),
            whole_from: self.log_whole_from,
            kept: Vec::new(),
            drops_next: false,
            had_new_leader: false,
            serves: false,
        }));
        self.learner_actions(out, world);
    }

    /// Drives the core and carries out what it says.
    pub(super) fn learn(
        &mut self,
        world: &mut World,
        step: impl FnOnce(&mut Learner, i64, &mut Vec<Action>),
    ) {
        let Role::Learning(learning) = &mut self.role else {
            return;
        };
        let mut out = Vec::new();
        step(&mut learning.core, world.now_ms(), &mut out);
        self.learner_actions(out, world);
    }

    fn learner_actions(&mut self, mut actions: Vec<Action>, world: &mut World) {
        if world.is(Mutant::CommitsOutOfOrder) {
            swap_deliveries(&mut actions);
        }
        let serves = actions
            .iter()
            .any(|action| matches!(action, Action::Serve { .. }));
        for action in actions {
            if self.ended.is_some() || !matches!(self.role, Role::Learning(_)) {
                return;
            }
            if world.prints && !matches!(action, Action::AnswerPing { .. }) {
                world.say(self.sid, || action.to_string());
            }
            self.learner_action(action, serves, world);
        }
    }

    fn learner_action(&mut self, action: Action, serves: bool, world: &mut World) {
        match action {
            Action::Send(packet) => self.send_up(packet, world),
            Action::AnswerPing { zxid } => self.answer_ping(zxid, world),
            Action::SaveAcceptedEpoch(epoch) => self.save_accepted(epoch, world),
            Action::SaveCurrentEpoch(epoch) => self.save_current(epoch, world),
            Action::ReceiveSnapshot { zxid } => {
                self.snapshot = None;
                self.undelivered.clear();
                if let Role::Learning(learning) = &mut self.role {
                    learning.receiving = Some((zxid, Vec::new()));
                }
            }
            Action::Truncate { zxid } => self.start_truncate(zxid, world),
            Action::WriteSnapshot => self.start_adopt_snapshot(world),
            Action::Append(record) => self.learner_append(record, serves, world),
            Action::Deliver(record) => self.learner_deliver(&record, world),
            Action::ConfigSeen(_) | Action::InstallConfig(_) => {}
            Action::Serve { epoch } => {
                self.election.handle_epoch_active(epoch);
                self.is_untrusted = false;
                if let Role::Learning(learning) = &mut self.role {
                    learning.serves = true;
                }
                self.append_kept(world);
                world.checks.serves(self.sid, &self.tree);
            }
            Action::SyncDone => self.sync_done(world),
            Action::Revalidated { session, is_valid } => {
                self.session_revalidated(session, is_valid, world);
            }
            Action::Leave(fault) => self.learner_leaves(&fault, world),
            Action::ConfigProposed(_) | Action::ActivateConfig { .. } => {
                let text = format!("server {}: {action}", self.sid);
                world.checks.fail("one member list", text);
            }
        }
    }

    fn learner_append(&mut self, record: Record, serves: bool, world: &mut World) {
        let is_live = self.is_serving();
        let copy = record.clone();
        self.append(record, world);
        if world.is(Mutant::SyncProposalsAckedBeforeSync) && serves {
            let zxid = copy.zxid;
            self.learn(world, |core, _, out| core.handle_synced(zxid, out));
        }
        if world.is(Mutant::AppliesProposals) && is_live && copy.zxid > self.tree.last_zxid() {
            self.apply(&copy, world);
        }
    }

    fn learner_deliver(&mut self, record: &Record, world: &mut World) {
        let was_live = self.is_serving();
        self.forget_delivered(record.zxid);
        if world.is(Mutant::AppliesProposals) && record.zxid <= self.tree.last_zxid() {
            return;
        }
        let by_diff = self.log_whole_from == self.whole_from_at_start();
        if was_live || (by_diff && world.is(Mutant::CommittedLogKeptOverSnapshot)) {
            self.heard_live.push(record.clone());
        }
        if was_live {
            world
                .checks
                .delivers(self.sid, record, self.tree.last_zxid());
        }
        self.apply(record, world);
    }

    fn whole_from_at_start(&self) -> Zxid {
        match &self.role {
            Role::Learning(learning) => learning.whole_from,
            _ => self.log_whole_from,
        }
    }

    pub(super) fn forget_delivered(&mut self, upto: Zxid) {
        while self
            .undelivered
            .front()
            .is_some_and(|record| record.zxid <= upto)
        {
            self.undelivered.pop_front();
        }
    }

    fn learner_leaves(&mut self, fault: &Fault, world: &mut World) {
        if let Role::Learning(learning) = &mut self.role {
            learning.is_tree_bad |= fault.exit_code().is_some();
        }
        match fault {
            Fault::EpochBehind { .. } => {
                world.is_observer_ahead |= self.kind == LearnerKind::Observer;
                self.end_role_and_pause(&fault.to_string(), world);
            }
            Fault::CannotTruncate { epoch, .. } => {
                self.truncation_failed_in = Some(*epoch);
                self.end_role(&fault.to_string(), world);
            }
            Fault::UnmatchedCommit { .. } | Fault::Gap { .. } | Fault::Unexpected { .. } => {
                // Healthy peers never cause it.
                let text = format!("server {} leaves its leader: {fault}", self.sid);
                world.checks.fail("prefix agreement", text);
            }
            _ => self.end_role(&fault.to_string(), world),
        }
    }

    pub(super) fn send_up(&mut self, packet: LearnerPacket, world: &mut World) {
        if let Role::Learning(learning) = &self.role {
            world.send(self.place(), learning.connection, Message::Up(packet));
        }
    }

    fn answer_ping(&mut self, zxid: Zxid, world: &mut World) {
        let Role::Learning(learning) = &mut self.role else {
            return;
        };
        let touched = std::mem::take(&mut learning.touched);
        let mut touched: Vec<Touch> = touched
            .into_iter()
            .map(|(session, timeout_ms)| Touch {
                session,
                timeout_ms,
            })
            .collect();
        if world.is(Mutant::TouchLost) {
            touched.clear();
        }
        self.send_up(LearnerPacket::Ping { zxid, touched }, world);
    }

    pub(super) fn hear_leader(&mut self, connection: u64, packet: LeaderPacket, world: &mut World) {
        if !matches!(&self.role, Role::Learning(learning) if learning.connection == connection) {
            return;
        }
        if self.mutant_swallows(&packet, world) {
            return;
        }
        self.learn(world, |core, now_ms, out| {
            core.handle_packet(packet, now_ms, out)
        });
        self.resume_reading(world);
    }

    /// What a mutant does instead of handing a packet to the core.
    fn mutant_swallows(&mut self, packet: &LeaderPacket, world: &mut World) -> bool {
        let is_synchronising = self.is_synchronising();
        let Role::Learning(learning) = &mut self.role else {
            return false;
        };
        match packet {
            LeaderPacket::Diff { .. } => learning.drops_next = world.is(Mutant::DiffFromWrongPoint),
            LeaderPacket::NewLeader { zxid, .. } => {
                learning.had_new_leader = true;
                learning.drops_next = false;
                if world.is(Mutant::EpochBeforeHistory) {
                    self.save_current_too_early(zxid.epoch());
                }
            }
            LeaderPacket::Proposal { zxid, .. } if is_synchronising => {
                if learning.drops_next {
                    return true;
                }
                if world.is(Mutant::ProposalAckedBeforeNewLeader) {
                    self.send_up(LearnerPacket::Ack { zxid: *zxid }, world);
                }
            }
            LeaderPacket::Commit { .. } if is_synchronising => {
                let is_lost = learning.had_new_leader && world.is(Mutant::CommitBeforeUpToDateLost);
                return is_lost || std::mem::take(&mut learning.drops_next);
            }
            _ => {}
        }
        false
    }

    /// Packets that waited while the core did not read.
    pub(super) fn resume_reading(&mut self, world: &mut World) {
        if let Role::Learning(learning) = &self.role
            && learning.may_take()
        {
            let (network, queue) = (&mut world.network, &mut world.queue);
            network.resume(learning.connection, 1, queue);
        }
    }

    pub(super) fn hear_snapshot(&mut self, connection: u64, bytes: &Bytes, world: &mut World) {
        let now_ms = world.now_ms();
        if let Role::Learning(learning) = &mut self.role
            && learning.connection == connection
            && let Some((_, received)) = &mut learning.receiving
        {
            received.extend_from_slice(bytes);
            learning.core.handle_progress(now_ms);
        }
    }

    pub(super) fn hear_snapshot_end(&mut self, connection: u64, world: &mut World) {
        let now_ms = world.now_ms();
        let Role::Learning(learning) = &mut self.role else {
            return;
        };
        if learning.connection != connection {
            return;
        }
        let Some((zxid, bytes)) = learning.receiving.take() else {
            return;
        };
        let mut restore = Restore::new(tree_settings());
        let read = read_body(
            &bytes[..],
            Path::new("SNAP"),
            Limits::default(),
            &mut restore,
        );
        let tree = read.map_err(|error| error.to_string());
        let tree = tree.and_then(|_| restore.finish(zxid).map_err(|error| error.to_string()));
        match tree {
            Ok(tree) => {
                world.say(self.sid, || format!("has received snapshot {zxid}"));
                self.tree = tree;
                learning.core.handle_snapshot_received(now_ms);
            }
            Err(error) => {
                world.checks.fail("snapshots are whole", error);
            }
        }
        self.resume_reading(world);
    }
}

/// The first two deliveries change places.
fn swap_deliveries(actions: &mut [Action]) {
    let is_delivery = |action: &Action| matches!(action, Action::Deliver(_));
    let mut at = actions.iter().enumerate();
    let mut next = || at.find(|(_, action)| is_delivery(action)).map(|(at, _)| at);
    if let (Some(first), Some(second)) = (next(), next()) {
        actions.swap(first, second);
    }
}
