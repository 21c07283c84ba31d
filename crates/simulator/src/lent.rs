//! The world as one process of a server has it: whatever it does there is done from its own place,
//! and whatever takes it time comes back to it.

use std::ops::{Deref, DerefMut};

use replica::Now;

use crate::network::{Message, Patience, Place, Port};
use crate::plan::Plan;
use crate::queue::{Event, Micros};
use crate::server::Job;
use crate::world::{Held, World};

/// The world, while it is lent to this process; a blank one otherwise.
pub(crate) struct LentWorld {
    world: World,
    pub(crate) server: usize,
    pub(crate) life: u64,
}

impl LentWorld {
    pub(crate) fn new(server: usize, life: u64, plan: &Plan) -> Self {
        let world = World::new(0, plan.clone(), false);
        Self {
            world,
            server,
            life,
        }
    }

    /// Takes the world, or gives it back.
    pub(crate) fn swap(&mut self, world: &mut World) {
        std::mem::swap(&mut self.world, world);
    }

    /// Where the process is.
    pub(crate) fn place(&self) -> Place {
        Place::Server {
            server: self.server,
            life: self.life,
        }
    }

    /// What its clocks show.
    pub(crate) fn clocks(&self) -> Now {
        self.world.clocks_of(self.server)
    }

    pub(crate) fn send(&mut self, connection: u64, message: Message) {
        self.world.send(self.place(), connection, message);
    }

    pub(crate) fn close(&mut self, connection: u64) {
        self.world.close(self.place(), connection);
    }

    /// Dials a server; the answer comes as an event.
    pub(crate) fn dial(&mut self, port: Port, server: usize, patience: Patience) -> u64 {
        let ends = [self.place(), Place::Server { server, life: 0 }];
        let World { network, queue, .. } = &mut self.world;
        network.dial(port, ends, patience, queue)
    }

    /// Its end of a connection that it dialled takes messages again.
    pub(crate) fn resume(&mut self, connection: u64) {
        let World { network, queue, .. } = &mut self.world;
        network.resume(connection, 1, queue);
    }

    /// Something that is done after so long.
    pub(crate) fn start(&mut self, job: Job, delay: Micros) {
        let (server, life) = (self.server, self.life);
        let event = Event::JobDone { server, life, job };
        self.world.queue.after(delay, event);
    }

    /// A deadline at this time.
    pub(crate) fn wake_at(&mut self, at: Micros) {
        let (server, life) = (self.server, self.life);
        self.world.queue.at(at, Event::Wake { server, life });
    }

    /// Asks the oracle; what it says comes as an event.
    pub(crate) fn ask_oracle(&mut self) {
        self.world.ask_oracle(self.server, self.life);
    }

    /// Whether a script keeps back this kind of work of its disk.
    pub(crate) fn holds(&self, work: Held) -> bool {
        self.world.held.contains(&(self.server, work))
    }

    /// How long its disk takes to read something.
    pub(crate) fn read_delay(&mut self) -> Micros {
        let longest = self.world.plan.sync;
        self.world.random.range(100, longest + 101)
    }

    /// How long its disk takes for a sync.
    pub(crate) fn sync_delay(&mut self) -> Micros {
        let longest = self.world.plan.sync;
        if !self.world.is_healed && self.world.random.percent(2) {
            return longest * self.world.random.range(5, 40);
        }
        self.read_delay()
    }
}

impl Deref for LentWorld {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl DerefMut for LentWorld {
    fn deref_mut(&mut self) -> &mut World {
        &mut self.world
    }
}
