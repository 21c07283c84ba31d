//! What all servers and clients share: time, network, chance, and what is watched.

use std::collections::BTreeSet;

use crate::answers::Answers;
use crate::checks::Checks;
use crate::ensemble::Oracle;
use crate::history_check::Histories;
use crate::network::{Message, Network, Patience, Place, Port, Process};
use crate::plan::Plan;
use crate::queue::{Event, Micros, Queue};
use crate::server::SimHost;
use hosting::ToDisk;
use replica::{DiskOrder, Now};
use testkit::Random;

/// When every simulation begins.
const BEGIN_MS: i64 = 1_700_000_000_000;

/// One of so many syncs of visitors stalls where disks do.
const VISITS_TO_STALL: usize = 25;

/// How the clock on the wall of a server goes; that of its deadlines goes right.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Clock {
    pub(crate) ahead_ms: i64,
    pub(crate) drift_percent: i64,
}

/// A kind of work that a script can have held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Held {
    Sync,
    SaveCurrent,
    /// The snapshot that is taken over from a leader.
    AdoptSnapshot,
    /// One that is due, or that an operator wants.
    DueSnapshot,
}

impl Held {
    /// What this is, if it can be held back.
    pub(crate) fn of<T>(work: &ToDisk<T>) -> Option<Self> {
        match work {
            ToDisk::Group(_) => Some(Self::Sync),
            ToDisk::Order(DiskOrder::SaveCurrentEpoch(_)) => Some(Self::SaveCurrent),
            ToDisk::Order(_) => None,
        }
    }
}

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) queue: Queue,
    pub(crate) network: Network,
    pub(crate) random: Random,
    pub(crate) checks: Checks,
    pub(crate) histories: Histories,
    pub(crate) answers: Answers,
    pub(crate) prints: bool,
    /// Disks that keep back what they are asked for, in scripts.
    pub(crate) held: BTreeSet<(usize, Held)>,
    /// Of each server.
    pub(crate) clocks: Vec<Clock>,
    /// The oracle of two voters.
    pub(crate) oracle: Oracle,
    /// Whether everything is mended: nothing breaks any more.
    pub(crate) is_healed: bool,
    /// An observer found a leader whose epoch is behind what it has promised. It has no vote, so it
    /// stays outside until the leader changes, as with Apache ZooKeeper.
    pub(crate) is_observer_ahead: bool,
}

impl World {
    pub(crate) fn new(seed: u64, plan: Plan, prints: bool) -> Self {
        let mut random = Random::new(seed);
        let network = Network::new(Random::new(random.any()), plan.delay);
        let checks = Checks::new(&plan);
        Self {
            network,
            queue: Queue::default(),
            random,
            checks,
            histories: Histories::new(seed, plan.servers()),
            answers: Answers::default(),
            prints,
            held: BTreeSet::new(),
            clocks: vec![Clock::default(); plan.servers()],
            oracle: Oracle::default(),
            is_healed: false,
            is_observer_ahead: false,
            plan,
        }
    }

    pub(crate) fn now(&self) -> Micros {
        self.queue.now
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.queue.now / 1000
    }

    /// What the clock on the wall of a server shows, ms since 1970.
    pub(crate) fn wall_ms(&self, server: usize) -> i64 {
        let clock = self.clocks.get(server).copied().unwrap_or_default();
        let now_ms = self.now_ms();
        BEGIN_MS + now_ms + clock.ahead_ms + now_ms * clock.drift_percent / 100
    }

    /// What the clocks of a server show.
    pub(crate) fn clocks_of(&self, server: usize) -> Now {
        Now {
            ms: self.now_ms(),
            wall_ms: self.wall_ms(server),
        }
    }

    /// One line of the trace.
    pub(crate) fn say(&self, who: impl std::fmt::Display, line: impl FnOnce() -> String) {
        if self.prints {
            let (seconds, micros) = (self.now() / 1_000_000, self.now() % 1_000_000);
            println!("{seconds:3}.{micros:06} {who}: {}", line());
        }
    }

    /// A process asks the oracle; it is told what the oracle says when the answer comes.
    pub(crate) fn ask_oracle(&mut self, process: Process) {
        let delay = self.random.range(100, 5000);
        self.queue.after(delay, Event::Oracle { process });
    }

    /// Whether a script keeps back this kind of work.
    pub(crate) fn is_held(&self, process: Process, work: Held) -> bool {
        self.held.contains(&(process.server, work))
    }

    /// Something takes a process so long.
    pub(crate) fn start(
        &mut self,
        process: Process,
        delay: Micros,
        then: impl FnOnce(&mut SimHost) + 'static,
    ) {
        let then = Box::new(then);
        self.queue.after(delay, Event::JobDone { process, then });
    }

    /// Something takes its disk so long.
    pub(crate) fn start_on_disk(
        &mut self,
        process: Process,
        delay: Micros,
        then: impl FnOnce(&mut SimHost) + 'static,
    ) {
        let then = Box::new(then);
        self.queue.after(delay, Event::DiskDone { process, then });
    }

    /// Dials a server; the answer comes as an event.
    pub(crate) fn dial(
        &mut self,
        from: Process,
        port: Port,
        server: usize,
        patience: Patience,
    ) -> u64 {
        let ends = [from.into(), Process { server, life: 0 }.into()];
        self.network.dial(port, ends, patience, &mut self.queue)
    }

    /// How long a disk takes to read something.
    pub(crate) fn read_delay(&mut self) -> Micros {
        let longest = self.plan.sync;
        self.random.range(100, longest + 101)
    }

    /// How long a disk takes for a sync.
    pub(crate) fn sync_delay(&mut self) -> Micros {
        let longest = self.plan.sync;
        if !self.is_healed && self.random.percent(2) {
            return longest * self.random.range(5, 40);
        }
        self.read_delay()
    }

    /// Whether the disk stalls at the sync of a visitor. Without this few seeds would have such a stall: after one the
    /// log thread syncs for a long time.
    pub(crate) fn stalls_visit(&mut self) -> bool {
        !self.is_healed && self.plan.has_stalls && self.random.below(VISITS_TO_STALL) == 0
    }

    /// Sends from this place.
    pub(crate) fn send(&mut self, from: impl Into<Place>, connection: u64, message: Message) {
        if let Some(end) = self.end(connection, from.into()) {
            self.network.send(connection, end, message, &mut self.queue);
        }
    }

    pub(crate) fn close(&mut self, at: impl Into<Place>, connection: u64) {
        if let Some(end) = self.end(connection, at.into()) {
            self.network.close(connection, end, &mut self.queue);
        }
    }

    fn end(&self, connection: u64, place: Place) -> Option<usize> {
        let ends = self.network.get(connection)?.ends;
        ends.iter().position(|end| *end == place)
    }
}
