//! Carries out what the replica decides, on the simulated world, and hands what it sees to the
//! checks.

use std::collections::VecDeque;
use std::rc::Rc;

use jute::Encode;
use proto::Sid;
use proto::txn::{Txn, TxnRecord};
use replica::{Applied, Effect, Host, Input, Note, Port, Service, State, Ticket};
use tree::Tree;
use zab::Record;
use zab::learner::Fault;

use super::boot::{Birth, sid_of};
use super::clients::Clients;
use super::disk::{DiskWork, Order};
use super::finding::Kept;
use super::members::Members;
use super::state::SimState;
use super::{Jobs, decode};
use crate::Mutant;
use crate::network::{Message, Place};
use crate::world::World;

pub(crate) struct SimHost {
    pub(crate) index: usize,
    pub(crate) life: u64,
    pub(crate) sid: Sid,
    /// The world, while it is lent to this server; a blank one otherwise.
    pub(crate) world: World,
    pub(super) state: Rc<SimState>,
    /// What the replica is told next.
    pub(super) inputs: VecDeque<Input>,
    pub(super) disk: DiskWork,
    pub(super) jobs: Jobs,
    pub(super) members: Members,
    pub(super) clients: Clients,
    pub(super) kept: Kept,
    pub(super) service: Service,
    /// Whether this server leads, or is about to.
    pub(super) leads: bool,
    /// Whether the epoch of its role is established.
    pub(super) is_active: bool,
    /// Why the process must end.
    pub(crate) ended: Option<String>,
}

impl SimHost {
    pub(super) fn new(birth: Birth, state: Rc<SimState>, disk: DiskWork, world: &World) -> Self {
        let sid = sid_of(birth.index);
        Self {
            index: birth.index,
            life: birth.life,
            sid,
            world: World::new(0, world.plan.clone(), false),
            state,
            inputs: VecDeque::new(),
            disk,
            jobs: Jobs::default(),
            members: Members::default(),
            clients: Clients::new(sid, world.now_ms()),
            kept: Kept::new(),
            service: Service::None,
            leads: false,
            is_active: false,
            ended: None,
        }
    }

    pub(crate) fn place(&self) -> Place {
        Place::Server {
            server: self.index,
            life: self.life,
        }
    }

    pub(super) fn send(&mut self, connection: u64, message: Message) {
        let place = self.place();
        self.world.send(place, connection, message);
    }

    pub(super) fn close(&mut self, connection: u64) {
        let place = self.place();
        self.world.close(place, connection);
    }

    /// The process ends with this reason; nothing is done any more.
    pub(super) fn exit(&mut self, reason: String) {
        self.ended.get_or_insert(reason);
    }

    /// Shows an effect to the checks.
    fn watch(&mut self, effect: &Effect) {
        match effect {
            Effect::Listen { .. } => self.leads = true,
            Effect::Dial { .. } => self.leads = false,
            Effect::Append(record) if self.leads => {
                let checks = &mut self.world.checks;
                checks.proposes(self.sid, record);
                // A leader ends sessions of its own accord when their time is up.
                let txn = decode(record).filter(|txn| txn.header.cxid == 0);
                if let Some(txn) = txn.filter(|txn| matches!(txn.txn, Txn::CloseSession { .. })) {
                    checks.expires(txn.header.session);
                }
            }
            Effect::Serve(Service::Deciding | Service::Forwarding) => {
                self.is_active = true;
                let (state, checks) = (&self.state, &mut self.world.checks);
                let (tree, last) = (state.tree(), state.before.get());
                match self.leads {
                    // Its tree begins with its epoch, and ended with its history before.
                    true => checks.leads(self.sid, tree.last_zxid().epoch(), last, &tree),
                    false => checks.serves(self.sid, tree.last_zxid(), &tree),
                }
            }
            Effect::StopServing => self.is_active = false,
            Effect::SaveMembers { .. } => {
                let text = format!("server {}: {effect}", self.sid);
                self.world.checks.fail("one member list", text);
            }
            _ => {}
        }
    }

    /// Shows a transaction that was applied to the checks.
    fn watch_applied(&mut self, record: &TxnRecord, tree: &Tree) {
        let zxid = record.header.zxid;
        let last = self.state.before.replace(zxid);
        if !self.is_active {
            // It goes over a snapshot that may hold parts of it.
            return;
        }
        let (sid, checks) = (self.sid, &mut self.world.checks);
        let bytes = Record::new(zxid, record.to_bytes());
        match self.leads {
            true => checks.commits(sid, &bytes, last),
            false => checks.delivers(sid, &bytes, last),
        }
        checks.applied(sid, record, tree);
    }
}

impl Host for SimHost {
    type State = SimState;

    fn effect(&mut self, effect: Effect) {
        if self.ended.is_some() {
            return;
        }
        if self.world.prints && is_telling(&effect) {
            self.world.say(self.sid, || effect.to_string());
        }
        self.watch(&effect);
        match effect {
            Effect::Append(record) => self.append(record),
            Effect::Flush => self.flush_log(),
            Effect::SaveAcceptedEpoch(epoch) => self.order(Order::SaveAccepted(epoch)),
            Effect::SaveCurrentEpoch(epoch) => self.order(Order::SaveCurrent(epoch)),
            Effect::Reload { keep } => self.order(Order::Reload(keep)),
            Effect::TakeOver { attempt, last } => self.take_over(attempt, last),
            Effect::GiveUpSnapshots => {
                if !self.world.is(Mutant::SnapshotOutlivesRole) {
                    self.state.give_up_snapshots();
                }
            }
            Effect::Listen { attempt, .. } => self.members.listens = Some(attempt),
            Effect::StopListening { port, .. } => {
                if port == Port::Learners {
                    self.stop_listening();
                }
            }
            Effect::Send { to, packet, .. } => self.send_down(to, packet),
            Effect::SendSnapshot { to, zxid, .. } => self.send_snapshot(to, zxid),
            Effect::ReadLog { to, from, upto } => self.start_reading_log(to, from, upto),
            Effect::CloseLink { link, .. } => self.close_link(link),
            Effect::Dial {
                attempt,
                addresses,
                pause_ms,
            } => self.dial_leader(attempt, &addresses, pause_ms),
            Effect::SendToLeader(packet) => self.send_up(packet),
            Effect::ReceiveSnapshot => self.receive_snapshot(),
            Effect::HangUp => self.hang_up(),
            Effect::Serve(service) => {
                self.service = service;
                self.epoch_is_active();
            }
            Effect::StopServing => {
                self.service = Service::None;
                self.close_clients();
            }
            Effect::CloseClient(ticket) => self.close_client(ticket.0),
            Effect::CloseSession(session) => self.close_client_of(session),
            Effect::Renewed { renewal, is_valid } => {
                let session = is_valid.then_some(renewal.session);
                self.finish_renewal(renewal.ticket.0, session, renewal.timeout_ms);
            }
            // Requests have no places here, operators look elsewhere, and there is no oracle.
            Effect::Release { .. } | Effect::Show(_) => {}
            Effect::AskOracle | Effect::SaveMembers { .. } => {}
            Effect::Election(effect) => self.carry_out_election(effect),
        }
    }

    fn applied(&mut self, tree: &Tree, applied: Applied<'_>) {
        self.watch_applied(applied.record, tree);
        self.deliver(tree, applied);
    }

    fn answer_sync(&mut self, tree: &Tree, ticket: Ticket) {
        self.client_sync_done(tree, ticket.0);
    }

    fn tree_released(&mut self) {}

    fn note(&mut self, note: Note<'_>) {
        let Note::LeaderLeft(fault) = note else {
            return;
        };
        self.world
            .say(self.sid, || format!("leaves its leader: {fault}"));
        match fault {
            Fault::EpochBehind { .. } => {
                self.world.is_observer_ahead |= self.index >= self.world.plan.voters;
            }
            Fault::UnmatchedCommit { .. } | Fault::Gap { .. } | Fault::Unexpected { .. } => {
                // Healthy peers never cause it.
                let text = format!("server {} leaves its leader: {fault}", self.sid);
                self.world.checks.fail("prefix agreement", text);
            }
            _ => {}
        }
    }
}

/// Whether an effect is worth a line.
fn is_telling(effect: &Effect) -> bool {
    use proto::leader::LeaderPacket;
    use proto::learner::LearnerPacket;
    match effect {
        Effect::Send { packet, .. } => !matches!(packet, LeaderPacket::Ping { .. }),
        Effect::SendToLeader(packet) => !matches!(packet, LearnerPacket::Ping { .. }),
        Effect::Flush | Effect::Show(_) | Effect::Release { .. } => false,
        Effect::Election(_) => false,
        _ => true,
    }
}
