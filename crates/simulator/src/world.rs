//! The shared state of all servers and clients: time, network, random numbers and checks.

use std::collections::BTreeSet;

use crate::answers::Answers;
use crate::checks::Checks;
use crate::ensemble::Oracle;
use crate::history_check::Histories;
use crate::network::{DialAttempts, Endpoint, Message, Network, Port, Process};
use crate::plan::Plan;
use crate::queue::{Event, Micros, Queue};
use crate::server::SimHost;
use crate::trace::{StableTrace, Trace};
use host::ToDisk;
use replica::{DiskOrder, Now};
use testkit::Random;

/// Start time of every simulation.
const BEGIN_MS: i64 = 1_700_000_000_000;

/// One in this many syncs by visiting threads stalls, if disks stall.
const VISITS_TO_STALL: usize = 25;

/// Error of the wall clock of a server. The clock for its deadlines is correct.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Clock {
    pub(crate) ahead_ms: i64,
    pub(crate) drift_percent: i64,
}

/// Kind of work that a script can hold back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HeldWork {
    Sync,
    SaveCurrent,
    /// Snapshot that a learner receives from a leader.
    AdoptSnapshot,
    /// Snapshot that is due, or that an operator requested.
    DueSnapshot,
}

impl HeldWork {
    /// Returns the kind of the work, if it can be held back.
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
    pub(crate) trace: StableTrace,
    /// Work that disks hold back, in scripts.
    pub(crate) held: BTreeSet<(usize, HeldWork)>,
    /// Wall clock of each server.
    pub(crate) clocks: Vec<Clock>,
    /// Oracle of two voters.
    pub(crate) oracle: Oracle,
    /// Whether all faults have ended.
    pub(crate) is_healed: bool,
    /// Whether an observer found a leader with an earlier epoch than the observer has accepted. The
    /// observer has no vote, so it stays outside until the leader changes, as with Apache
    /// ZooKeeper.
    pub(crate) is_observer_ahead: bool,
}

impl World {
    pub(crate) fn new(seed: u64, plan: Plan, trace: Trace) -> Self {
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
            prints: trace == Trace::Words,
            trace: StableTrace {
                is_on: trace == Trace::Stable,
            },
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

    /// Returns the wall-clock time of a server, ms since 1970.
    pub(crate) fn wall_ms(&self, server: usize) -> i64 {
        let clock = self.clocks.get(server).copied().unwrap_or_default();
        let now_ms = self.now_ms();
        BEGIN_MS + now_ms + clock.ahead_ms + now_ms * clock.drift_percent / 100
    }

    /// Returns the times of both clocks of a server.
    pub(crate) fn clocks_of(&self, server: usize) -> Now {
        Now {
            ms: self.now_ms(),
            wall_ms: self.wall_ms(server),
        }
    }

    /// Prints one line of the trace.
    pub(crate) fn say(&self, who: impl std::fmt::Display, line: impl FnOnce() -> String) {
        if self.prints {
            let (seconds, micros) = (self.now() / 1_000_000, self.now() % 1_000_000);
            println!("{seconds:3}.{micros:06} {who}: {}", line());
        }
    }

    /// Queries the oracle for a process. The reply contains the oracle's decision at the time of
    /// the reply.
    pub(crate) fn ask_oracle(&mut self, process: Process) {
        let delay = self.random.range(100, 5000);
        self.queue.after(delay, Event::Oracle { process });
    }

    /// Returns whether a script holds back this kind of work.
    pub(crate) fn is_held(&self, process: Process, work: HeldWork) -> bool {
        self.held.contains(&(process.server, work))
    }

    /// Starts an operation of a process with this duration.
    pub(crate) fn start(
        &mut self,
        process: Process,
        delay: Micros,
        then: impl FnOnce(&mut SimHost) + 'static,
    ) {
        let then = Box::new(then);
        self.queue.after(delay, Event::JobDone { process, then });
    }

    /// Starts an operation of a disk with this duration.
    pub(crate) fn start_on_disk(
        &mut self,
        process: Process,
        delay: Micros,
        then: impl FnOnce(&mut SimHost) + 'static,
    ) {
        let then = Box::new(then);
        self.queue.after(delay, Event::DiskDone { process, then });
    }

    /// Dials a server. The result arrives as an event.
    pub(crate) fn dial(
        &mut self,
        from: Process,
        port: Port,
        server: usize,
        patience: DialAttempts,
    ) -> u64 {
        let ends = [from.into(), Process { server, life: 0 }.into()];
        self.network.dial(port, ends, patience, &mut self.queue)
    }

    /// Draws the duration of a disk read.
    pub(crate) fn read_delay(&mut self) -> Micros {
        let longest = self.plan.sync;
        self.random.range(100, longest + 101)
    }

    /// Draws the duration of a sync.
    pub(crate) fn sync_delay(&mut self) -> Micros {
        let longest = self.plan.sync;
        if !self.is_healed && self.random.percent(2) {
            return longest * self.random.range(5, 40);
        }
        self.read_delay()
    }

    /// Returns whether the disk stalls at the sync of a visiting thread. Without this draw few
    /// seeds would have such a stall, because after one stall the log thread syncs for a long time.
    pub(crate) fn stalls_visit(&mut self) -> bool {
        !self.is_healed && self.plan.has_stalls && self.random.below(VISITS_TO_STALL) == 0
    }

    /// Sends a message from this place.
    pub(crate) fn send(&mut self, from: impl Into<Endpoint>, connection: u64, message: Message) {
        if let Some(end) = self.end(connection, from.into()) {
            self.network.send(connection, end, message, &mut self.queue);
        }
    }

    pub(crate) fn close(&mut self, at: impl Into<Endpoint>, connection: u64) {
        if let Some(end) = self.end(connection, at.into()) {
            self.network.close(connection, end, &mut self.queue);
        }
    }

    fn end(&self, connection: u64, place: Endpoint) -> Option<usize> {
        let ends = self.network.get(connection)?.ends;
        ends.iter().position(|end| *end == place)
    }
}
