//! State that all servers and clients share: time, network, random numbers and checks.

use std::collections::BTreeSet;

use host::DiskCommand;
use replica::{DiskOrder, Now};
use testkit::Random;

use crate::checks::StepChecks;
use crate::network::{DialAttempts, Endpoint, Message, Network, Port, Process};
use crate::queue::{Micros, Queue};
use crate::server::{Answers, SimHost};
use crate::settings::EnsembleSettings;

/// Wall-clock time at which every simulation starts, ms since 1970.
pub const BEGIN_MS: i64 = 1_700_000_000_000;

/// If disks stall, about one in this number of syncs by visiting threads stalls.
const VISITS_TO_STALL: usize = 25;

/// Function that continues the work of a process after an operation that took time.
pub type Continuation<C> = Box<dyn FnOnce(&mut SimHost<C>)>;

/// Thread that continues after an operation of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskThread {
    /// The log thread.
    Log,
    /// The snapshot thread.
    Snapshot,
    /// A thread that reads the log for a learner.
    Reader,
}

/// An event at a point in time.
pub enum Event<C: StepChecks> {
    /// The oldest message that one end of a connection has sent may have arrived.
    Arrival {
        /// Number of the connection.
        connection: u64,
        /// End of the connection that has sent the message, 0 or 1.
        lane: usize,
    },
    /// A dial has succeeded or failed.
    Dialled {
        /// Number of the connection.
        connection: u64,
    },
    /// One end learns that the connection is broken.
    Broken {
        /// Number of the connection.
        connection: u64,
        /// End that learns of this.
        end: usize,
    },
    /// A server has to check its deadlines.
    Wake {
        /// Process of the server.
        process: Process,
    },
    /// An operation of a server has made progress.
    JobDone {
        /// Process of the server.
        process: Process,
        /// Next step of the operation.
        then: Continuation<C>,
    },
    /// An operation of a server's disk has made progress.
    DiskDone {
        /// Process of the server.
        process: Process,
        /// Thread that continues.
        thread: DiskThread,
        /// Next step of the operation.
        then: Continuation<C>,
    },
    /// The oracle's answer to a server's query arrives.
    Oracle {
        /// Process of the server.
        process: Process,
    },
    /// A stopped server has to start.
    Start {
        /// Index of the server.
        server: usize,
    },
    /// An event that the owner of the simulation handles.
    Own(C::OwnEvent),
}

/// Error of a server's wall clock. The clock for its deadlines is correct.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock {
    /// Difference from the correct time at the start, positive if the clock is fast.
    pub ahead_ms: i64,
    /// Additional speed, percent.
    pub drift_percent: i64,
}

/// Kind of work that a script can hold back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HeldWork {
    /// Sync of the log.
    Sync,
    /// Write of the current epoch.
    SaveCurrent,
    /// Truncation of the log, after which the tree is loaded again.
    Truncate,
    /// Cut of the log for a tree that this server has received from its leader.
    CutLog,
    /// Snapshot of such a tree.
    AdoptSnapshot,
    /// Report to the replica that this snapshot is on disk.
    Report,
    /// Snapshot that is due, or that an operator requested.
    DueSnapshot,
}

impl HeldWork {
    /// Returns the kind of the work if it can be held back.
    pub(crate) fn of(work: &DiskCommand) -> Option<Self> {
        match work {
            DiskCommand::Group(_) => Some(Self::Sync),
            DiskCommand::Order(DiskOrder::SaveCurrentEpoch(_)) => Some(Self::SaveCurrent),
            DiskCommand::Order(DiskOrder::Reload { keep: Some(_) }) => Some(Self::Truncate),
            DiskCommand::Order(DiskOrder::TakeOver { .. }) => Some(Self::CutLog),
            DiskCommand::Order(_) => None,
        }
    }
}

/// State that all servers and clients share.
pub struct World<C: StepChecks> {
    /// Size and behaviour of the ensemble.
    pub settings: EnsembleSettings,
    /// Future events.
    pub queue: Queue<Event<C>>,
    /// Connections between servers and clients.
    pub network: Network,
    /// Random numbers of the run.
    pub random: Random,
    /// Checks of each step.
    pub checks: C,
    /// Counts of the answers that the servers' schedules gave.
    pub answers: Answers,
    /// Whether the lines of the trace are printed.
    pub prints: bool,
    /// Work that a script holds back, as pairs of a server's index and a kind of work.
    pub held: BTreeSet<(usize, HeldWork)>,
    /// Wall clock of each server.
    pub clocks: Vec<Clock>,
    /// Server that the oracle of an ensemble with two voters names, if any.
    pub oracle: Option<usize>,
    /// Whether all faults have ended.
    pub is_healed: bool,
}

impl<C: StepChecks> World<C> {
    /// Creates a world without events.
    pub fn new(seed: u64, settings: EnsembleSettings, checks: C) -> Self {
        let mut random = Random::new(seed);
        let network = Network::new(Random::new(random.any()), settings.delay);
        Self {
            network,
            queue: Queue::default(),
            random,
            checks,
            answers: Answers::default(),
            prints: false,
            held: BTreeSet::new(),
            clocks: vec![Clock::default(); settings.servers()],
            oracle: None,
            is_healed: false,
            settings,
        }
    }

    /// Draws all further random numbers from another seed.
    pub fn draw_from(&mut self, seed: u64) {
        self.random = Random::new(seed);
        self.network.draw_from(self.random.any());
    }

    /// Returns the time since the beginning.
    pub fn now(&self) -> Micros {
        self.queue.now
    }

    /// Returns the time since the beginning, ms.
    pub fn now_ms(&self) -> i64 {
        self.queue.now / 1000
    }

    /// Returns the wall-clock time of a server, ms since 1970.
    pub fn wall_ms(&self, server: usize) -> i64 {
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

    /// Prints one line of the trace if [`World::prints`] is set.
    pub fn say(&self, who: impl std::fmt::Display, line: impl FnOnce() -> String) {
        if self.prints {
            let (seconds, micros) = (self.now() / 1_000_000, self.now() % 1_000_000);
            println!("{seconds:3}.{micros:06} {who}: {}", line());
        }
    }

    /// Queries the oracle for a process. The reply contains the oracle's decision at the time of
    /// the reply.
    pub(crate) fn query_oracle(&mut self, process: Process) {
        let delay = self.random.range(100, 5000);
        self.queue.after(delay, Event::Oracle { process });
    }

    /// Returns whether a script holds back this kind of work.
    pub(crate) fn is_held(&self, process: Process, work: HeldWork) -> bool {
        self.held.contains(&(process.server, work))
    }

    /// Starts an operation of a process, which ends after `delay` and then calls `then`.
    pub(crate) fn start(
        &mut self,
        process: Process,
        delay: Micros,
        then: impl FnOnce(&mut SimHost<C>) + 'static,
    ) {
        let then = Box::new(then);
        self.queue.after(delay, Event::JobDone { process, then });
    }

    /// Starts an operation of a disk, which ends after `delay` and then calls `then`.
    pub(crate) fn start_on_disk(
        &mut self,
        process: Process,
        thread: DiskThread,
        delay: Micros,
        then: impl FnOnce(&mut SimHost<C>) + 'static,
    ) {
        let then = Box::new(then);
        let event = Event::DiskDone {
            process,
            thread,
            then,
        };
        self.queue.after(delay, event);
    }

    /// Dials a server. The result arrives as an event.
    pub fn dial(
        &mut self,
        from: impl Into<Endpoint>,
        port: Port,
        server: usize,
        patience: DialAttempts,
    ) -> u64 {
        let ends = [from.into(), Process { server, life: 0 }.into()];
        self.network.dial(port, ends, patience, &mut self.queue)
    }

    /// Draws the duration of a disk read.
    pub(crate) fn read_delay(&mut self) -> Micros {
        let longest = self.settings.sync;
        self.random.range(100, longest + 101)
    }

    /// Draws the duration of a sync.
    pub(crate) fn sync_delay(&mut self) -> Micros {
        let longest = self.settings.sync;
        if !self.is_healed && self.random.percent(2) {
            return longest * self.random.range(5, 40);
        }
        self.read_delay()
    }

    /// Draws whether the disk stalls at the sync of a visiting thread. Without this draw, few seeds
    /// would have such a stall, because after each stall the log thread syncs the next groups.
    pub(crate) fn stalls_visit(&mut self) -> bool {
        !self.is_healed && self.settings.has_stalls && self.random.below(VISITS_TO_STALL) == 0
    }

    /// Sends a message from this endpoint.
    pub fn send(&mut self, from: impl Into<Endpoint>, connection: u64, message: Message) {
        if let Some(end) = self.end(connection, from.into()) {
            self.network.send(connection, end, message, &mut self.queue);
        }
    }

    /// Closes a connection at this endpoint.
    pub fn close(&mut self, at: impl Into<Endpoint>, connection: u64) {
        if let Some(end) = self.end(connection, at.into()) {
            self.network.close(connection, end, &mut self.queue);
        }
    }

    /// Closes all connections at this endpoint.
    pub fn close_all(&mut self, at: Endpoint) {
        for (connection, _) in self.network.of(at) {
            self.close(at, connection);
        }
    }

    fn end(&self, connection: u64, place: Endpoint) -> Option<usize> {
        let ends = self.network.get(connection)?.ends;
        ends.iter().position(|end| *end == place)
    }
}
