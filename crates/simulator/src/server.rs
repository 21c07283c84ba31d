//! One process of a server: hosts the replica that ships, and decides nothing.
//!
//! * `host` starts it from its disk and carries out effects, `disk` is the log thread and the snapshot
//!   thread, `members` the connections to other servers, `clients` those of clients. They move bytes and
//!   time; what they move is decided by the crates that ship.

mod clients;
mod disk;
mod host;
mod members;

use std::sync::Arc;

use hosting::ServerState;
use replica::{Replica, Turn};

pub(crate) use clients::Waiting;
pub(crate) use host::SimHost;

use crate::network::{End, Heard, Port};
use crate::queue::{Event, Micros};
use crate::world::World;

pub(crate) struct Server {
    pub(crate) replica: Replica<SimHost>,
    pub(crate) state: Arc<ServerState>,
    pub(crate) host: SimHost,
    wake_at: Option<Micros>,
}

impl Server {
    /// Lends the world to this server for a step.
    pub(crate) fn with(&mut self, world: &mut World, step: impl FnOnce(&mut Self)) {
        std::mem::swap(&mut self.host.world, world);
        step(self);
        std::mem::swap(&mut self.host.world, world);
    }

    fn turn(&mut self, step: impl FnOnce(&mut Replica<SimHost>, &mut Turn<'_, SimHost>)) {
        let mut turn = Turn {
            now: self.host.world.clocks_of(self.host.process.server),
            state: &*self.state,
            host: &mut self.host,
        };
        step(&mut self.replica, &mut turn);
    }

    /// The process has started.
    pub(crate) fn begin(&mut self) {
        self.turn(|replica, turn| replica.begin(turn));
    }

    /// Whether somebody listens there.
    pub(crate) fn listens(&self, port: Port) -> bool {
        match port {
            Port::Election | Port::Client => true,
            Port::Members(port) => self.host.members.listens.contains(&port),
        }
    }

    /// Something happened at this end of a connection.
    pub(crate) fn hear(&mut self, end: End, heard: Heard) {
        match end.port {
            Port::Election => self.host.hear_election(end.number, heard),
            Port::Members(port) => self.host.hear_member(port, end.number, heard),
            Port::Client => self.host.hear_client(end.number, heard),
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
        if self.host.ended.is_none() {
            self.host.flush_clients();
        }
        self.host.show_held_back();
        // Never twice at one moment: what is due and not done now is done a little later.
        let soonest = self.host.world.now() + 1000;
        let at_deadline = |ms: i64| ms.saturating_mul(1000).max(soonest);
        let at = self.replica.deadline_ms().map(at_deadline);
        if let Some(at) = at.filter(|at| self.wake_at.is_none_or(|before| *at < before)) {
            self.wake_at = Some(at);
            let process = self.host.process;
            self.host.world.queue.at(at, Event::Wake { process });
        }
    }
}
