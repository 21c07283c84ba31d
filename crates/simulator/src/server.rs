//! One process of a server: hosts the replica that ships, and decides nothing.
//!
//! * `boot` starts it from its disk, `host` carries out effects, `disk` is the log thread and the
//!   snapshot thread, `members` the connections to other servers, `clients` those of clients,
//!   `finding` those of elections. They move bytes and time; what they move is decided by the crates
//!   that ship.

mod boot;
mod clients;
mod disk;
mod finding;
mod host;
mod members;
mod state;

use std::rc::Rc;

use proto::Zxid;
use replica::{Replica, Service, Turn};
use zab::leader::LinkId;

pub(crate) use boot::Birth;

use crate::configured::sid_of;
use crate::network::{Message, Port};
use crate::queue::{Event, Micros};
use crate::world::World;
use host::SimHost;
use state::SimState;

pub(crate) struct Server {
    pub(crate) replica: Replica<SimHost>,
    pub(crate) state: Rc<SimState>,
    pub(crate) host: SimHost,
    wake_at: Option<Micros>,
}

/// What takes time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Job {
    /// What the log thread does.
    Log,
    /// The next piece of a snapshot.
    Snapshot,
    /// The next piece of a snapshot for a learner.
    SendSnapshot(u64),
    ReadLog {
        to: LinkId,
        from: Zxid,
        upto: Zxid,
    },
}

/// A kind of work that a script can have held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Held {
    Sync,
    SaveCurrent,
    AdoptSnapshot,
}

impl Server {
    /// Lends the world to this server for a step.
    pub(crate) fn with(&mut self, world: &mut World, step: impl FnOnce(&mut Self)) {
        std::mem::swap(world, &mut self.host.world);
        step(self);
        std::mem::swap(world, &mut self.host.world);
    }

    fn turn(&mut self, step: impl FnOnce(&mut Replica<SimHost>, &mut Turn<'_, SimHost>)) {
        let mut turn = Turn {
            now: boot::now(&self.host.world, self.host.index),
            state: &*self.state,
            host: &mut self.host,
        };
        step(&mut self.replica, &mut turn);
    }

    /// The process has started.
    pub(crate) fn begin(&mut self) {
        self.turn(|replica, turn| replica.begin(turn));
    }

    /// Whether clients are served.
    pub(crate) fn is_serving(&self) -> bool {
        self.host.service != Service::None
    }

    pub(crate) fn is_leading(&self) -> bool {
        self.host.service == Service::Deciding
    }

    /// Something that takes time has come further.
    pub(crate) fn handle_job(&mut self, job: Job) {
        match job {
            Job::Log => self.host.continue_log(),
            Job::Snapshot => self.host.continue_snapshot(),
            Job::SendSnapshot(link) => self.host.continue_sending(link),
            Job::ReadLog { to, from, upto } => self.host.read_log(to, from, upto),
        }
    }

    /// Whether a message on this connection can be taken now.
    pub(crate) fn may_take(&self, connection: u64) -> bool {
        self.host.members.may_take(connection)
    }

    /// Something came over a connection.
    pub(crate) fn handle_message(&mut self, connection: u64, message: Message) {
        let host = &mut self.host;
        match message {
            Message::Hello(sid) => host.hear_hello(connection, sid),
            Message::Vote(notification) => host.hear_vote(connection, *notification),
            Message::Up(packet) => host.learner_packet(connection, packet),
            Message::ToServer(request) => host.hear_client(connection, *request),
            Message::ToClient(_) => {}
            Message::End => {
                host.close(connection);
                self.handle_closed(connection);
            }
            from_leader => host.hear_leader(connection, from_leader),
        }
    }

    /// A connection is gone.
    pub(crate) fn handle_closed(&mut self, connection: u64) {
        self.host.election_closed(connection);
        self.host.client_closed(connection);
        self.host.leader_closed(connection);
        self.host.learner_closed(connection);
    }

    /// Whether somebody listens there.
    pub(crate) fn listens(&self, port: Port) -> bool {
        let listens = &self.host.members.listens;
        match port {
            Port::Election | Port::Client => true,
            Port::Quorum => listens.contains(&replica::Port::Learners),
            Port::Observers => listens.contains(&replica::Port::Observers),
        }
    }

    /// Somebody has connected.
    pub(crate) fn handle_accepted(&mut self, connection: u64, port: Port) {
        match port {
            Port::Election => {}
            Port::Quorum => {
                let port = replica::Port::Learners;
                self.host.learner_connected(connection, port);
            }
            Port::Observers => {
                let port = replica::Port::Observers;
                self.host.learner_connected(connection, port);
            }
            Port::Client => self.host.client_connected(connection),
        }
    }

    /// A dial of this server has ended.
    pub(crate) fn handle_dialled(&mut self, connection: u64, port: Port, is_open: bool) {
        match port {
            Port::Election => self.host.election_dialled(connection, is_open),
            Port::Quorum | Port::Observers => self.host.leader_dialled(connection, is_open),
            Port::Client => {}
        }
    }

    /// A deadline may have come.
    pub(crate) fn handle_wake(&mut self) {
        self.wake_at = None;
        let now_ms = self.host.world.now_ms();
        if self.replica.deadline_ms().is_some_and(|at| at <= now_ms) {
            self.turn(|replica, turn| replica.handle_deadline(turn));
        }
    }

    /// After anything that happened: what the replica is told of it, and when to wake up.
    pub(crate) fn settle(&mut self) {
        while self.host.ended.is_none()
            && let Some(input) = self.host.inputs.pop_front()
        {
            self.turn(|replica, turn| replica.handle(input, turn));
        }
        let held_back = self.host.held_back();
        let sid = sid_of(self.host.index);
        self.host.world.checks.holds_back(sid, held_back);
        let Some(deadline_ms) = self.replica.deadline_ms() else {
            return;
        };
        // Never twice at one moment: what is due and not done now is done a little later.
        let soonest = self.host.world.now() + 1000;
        let at = deadline_ms.saturating_mul(1000).max(soonest);
        if self.wake_at.is_none_or(|before| at < before) {
            self.wake_at = Some(at);
            let (server, life) = (self.host.index, self.host.life);
            self.host.world.queue.at(at, Event::Wake { server, life });
        }
    }
}
