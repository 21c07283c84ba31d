//! Carries out what the replica decides, on the simulated world.

use std::collections::VecDeque;
use std::rc::Rc;

use replica::{Applied, Effect, Host, Input, Note, Service, State, Ticket};
use tree::Tree;

use super::Job;
use super::boot::Birth;
use super::clients::Clients;
use super::disk::{DiskWork, Order};
use super::finding::Kept;
use super::members::Members;
use super::state::SimState;
use crate::configured::sid_of;
use crate::invariants::bounds::HeldBack;
use crate::network::{Message, Place};
use crate::observed::{Observed, is_telling};
use crate::queue::{Event, Micros};
use crate::world::World;

pub(crate) struct SimHost {
    pub(crate) index: usize,
    pub(crate) life: u64,
    /// The world, while it is lent to this server; a blank one otherwise.
    pub(crate) world: World,
    pub(super) state: Rc<SimState>,
    /// What the replica is told next.
    pub(crate) inputs: VecDeque<Input>,
    pub(super) disk: DiskWork,
    pub(super) members: Members,
    pub(super) clients: Clients,
    pub(super) kept: Kept,
    pub(super) service: Service,
    pub(super) observed: Observed,
    /// Why the process must end.
    pub(crate) ended: Option<String>,
}

impl SimHost {
    pub(super) fn new(birth: Birth, state: Rc<SimState>, disk: DiskWork, world: &World) -> Self {
        let sid = sid_of(birth.index);
        Self {
            index: birth.index,
            life: birth.life,
            world: World::new(0, world.plan.clone(), false),
            state,
            inputs: VecDeque::new(),
            disk,
            members: Members::default(),
            clients: Clients::new(sid, world.now_ms()),
            kept: Kept::new(),
            service: Service::None,
            observed: Observed::new(sid, birth.index >= world.plan.voters, &world.plan),
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

    pub(super) fn start_job(&mut self, job: Job, delay: Micros) {
        let (server, life) = (self.index, self.life);
        let event = Event::JobDone { server, life, job };
        self.world.queue.after(delay, event);
    }

    pub(super) fn say(&self, line: impl FnOnce() -> String) {
        self.world.say(sid_of(self.index), line);
    }

    /// What it holds between two turns.
    pub(super) fn held_back(&self) -> HeldBack {
        HeldBack {
            unsynced: self.disk.unsynced(),
            inputs: match self.ended {
                Some(_) => 0,
                None => self.inputs.len(),
            },
            requests: self.clients.waiting(),
        }
    }

    /// The process ends with this reason; nothing is done any more.
    pub(super) fn exit(&mut self, reason: String) {
        self.ended.get_or_insert(reason);
    }
}

impl Host for SimHost {
    type State = SimState;

    fn effect(&mut self, effect: Effect) {
        if self.ended.is_some() {
            return;
        }
        if self.world.prints && is_telling(&effect) {
            self.say(|| effect.to_string());
        }
        let (last, checks) = (self.state.before.get(), &mut self.world.checks);
        self.observed
            .effect(&effect, &self.state.tree(), last, checks);
        match effect {
            Effect::Append(record) => self.disk.group.push(record),
            Effect::Flush => self.start_order(),
            Effect::SaveAcceptedEpoch(epoch) => self.order(Order::SaveAccepted(epoch)),
            Effect::SaveCurrentEpoch(epoch) => self.order(Order::SaveCurrent(epoch)),
            Effect::Reload { keep } => self.order(Order::Reload(keep)),
            Effect::TakeOver { attempt, last } => {
                let generation = self.state.generation();
                self.order(Order::TakeOver(last, (attempt, generation)));
            }
            Effect::GiveUpSnapshots => self.state.give_up_snapshots(),
            Effect::Listen { port, .. } => drop(self.members.listens.insert(port)),
            Effect::StopListening { port, .. } => self.stop_listening(port),
            Effect::Send { to, packet, .. } => self.send_down(to.0, Message::Down(packet)),
            Effect::SendSnapshot { to, zxid, .. } => self.send_snapshot(to.0, zxid),
            Effect::ReadLog { to, from, upto } => {
                let delay = self.world.random.range(100, self.world.plan.sync + 101);
                self.start_job(Job::ReadLog { to, from, upto }, delay);
            }
            Effect::CloseLink { link, .. } => self.close_link(link.0),
            Effect::Dial {
                attempt,
                addresses,
                pause_ms,
            } => self.dial_leader(attempt, &addresses, pause_ms),
            Effect::SendToLeader(packet) => {
                let (tree, disk) = (self.state.tree(), &*self.disk.disk);
                let World { plan, checks, .. } = &mut self.world;
                self.observed.sends(&packet, &tree, (disk, plan), checks);
                drop(tree);
                self.send_up(packet);
            }
            Effect::ReceiveSnapshot => self.receive_snapshot(),
            Effect::HangUp => self.hang_up(),
            Effect::Serve(service) => self.service = service,
            Effect::StopServing => {
                self.service = Service::None;
                self.close_clients();
            }
            Effect::CloseClient(ticket) => self.close_client(ticket.0),
            Effect::CloseSession(session) => self.close_client_of(session),
            Effect::Renewed { renewal, is_valid } => {
                let session = is_valid.then_some((renewal.session, renewal.timeout_ms));
                self.answer_handshake(renewal.ticket.0, session);
            }
            Effect::Election(effect) => self.carry_out_election(effect),
            // Requests have no places here, operators look elsewhere, and there is no oracle.
            Effect::Release { .. } | Effect::Show(_) | Effect::AskOracle => {}
            Effect::SaveMembers { file, is_required } => {
                self.order(Order::SaveMembers(file, is_required));
            }
        }
    }

    fn applied(&mut self, tree: &Tree, applied: Applied<'_>) {
        let record = applied.record;
        let last = self.state.before.replace(record.header.zxid);
        let checks = &mut self.world.checks;
        self.observed.applied(record, tree, last, checks);
        self.deliver(tree, applied);
    }

    fn answer_sync(&mut self, tree: &Tree, ticket: Ticket) {
        self.client_sync_done(tree, ticket.0);
    }

    fn tree_released(&mut self) {}

    fn note(&mut self, note: Note<'_>) {
        if let Note::LeaderLeft(fault) = note {
            self.say(|| format!("leaves its leader: {fault}"));
            let world = &mut self.world;
            world.is_observer_ahead |= self.observed.leaves_leader(fault, &mut world.checks);
        }
    }
}
