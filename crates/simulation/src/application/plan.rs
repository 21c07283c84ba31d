//! The plan of a simulation: the servers and the faults.

use std::time::Duration;

use testkit::Random;

/// Process that is hit by a fault. Applications and servers are numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// An application, in the order of [`Simulation::start`](super::Simulation::start).
    Application(usize),
    /// A server of the ensemble.
    Server(usize),
}

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A process does not run for this time. Its connections stay open.
    Pause {
        /// Paused process.
        target: Target,
        /// Duration of the pause.
        lasts: Duration,
    },
    /// No data passes between an application and the servers, or between a server and all other
    /// servers. Connections stay open.
    Partition {
        /// Isolated process.
        target: Target,
        /// Duration of the partition.
        lasts: Duration,
    },
    /// A process is killed and starts again later.
    Restart {
        /// Killed process.
        target: Target,
        /// Time without a process.
        lasts: Duration,
    },
    /// A server's machine loses power and may lose unsynced data. The server starts again later.
    PowerFailure {
        /// Server that loses power.
        server: usize,
        /// Time without power.
        lasts: Duration,
    },
    /// The servers end the current session of an application.
    Expiry {
        /// Application whose session ends.
        application: usize,
    },
}

/// Plan of a simulation: its servers and faults.
///
/// ```
/// use std::time::Duration;
/// use zoarium_simulation::{Fault, Plan, Target};
///
/// let target = Target::Application(0);
/// let pause = Fault::Pause { target, lasts: Duration::from_secs(60) };
/// let plan = Plan::new().with_servers(5).with(Duration::from_secs(10), pause);
/// assert_eq!(plan.faults(), [(Duration::from_secs(10), pause)]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub(super) servers: usize,
    faults: Vec<(Duration, Fault)>,
}

impl Default for Plan {
    fn default() -> Self {
        Self::new()
    }
}

impl Plan {
    /// Returns a plan with three servers and no faults.
    pub fn new() -> Self {
        Self {
            servers: 3,
            faults: Vec::new(),
        }
    }

    /// Draws a plan with three servers. Until the time `end`, faults hit these applications and the
    /// servers, about one per second. All faults are over at `end`.
    pub fn drawn(seed: u64, applications: usize, end: Duration) -> Self {
        let mut random = Random::new(!seed);
        let mut plan = Self::new();
        let mut at = Duration::ZERO;
        loop {
            at += millis(&mut random, 100, 2000);
            if at >= end {
                return plan;
            }
            let longest = random.pick(&[300, 1500, 5000]).unwrap_or(300);
            let lasts = millis(&mut random, 10, longest).min(end - at);
            let application = random.below(applications);
            let server = random.below(plan.servers);
            let target = if applications > 0 && random.percent(70) {
                Target::Application(application)
            } else {
                Target::Server(server)
            };
            let fault = match random.below(10) {
                0..=3 => Fault::Pause { target, lasts },
                4..=5 => Fault::Partition { target, lasts },
                6..=7 => Fault::Restart { target, lasts },
                8 if applications > 0 => Fault::Expiry { application },
                _ => Fault::PowerFailure { server, lasts },
            };
            plan = plan.with(at, fault);
        }
    }

    /// Sets the number of servers.
    #[must_use]
    pub fn with_servers(mut self, servers: usize) -> Self {
        self.servers = servers;
        self
    }

    /// Adds a fault at this time after the beginning.
    #[must_use]
    pub fn with(mut self, at: Duration, fault: Fault) -> Self {
        self.faults.push((at, fault));
        self
    }

    /// Returns the faults with their times.
    pub fn faults(&self) -> &[(Duration, Fault)] {
        &self.faults
    }
}

fn millis(random: &mut Random, from: i64, end: i64) -> Duration {
    Duration::from_millis(random.range(from, end).unsigned_abs())
}
