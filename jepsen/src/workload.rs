//! The calls of clients in a run, and their checkers.

mod bank;
pub mod caller;
mod counter;
mod ephemeral;
mod feed;
mod lock;
mod monotonic;
mod owner;
mod queue;
mod quota;
mod reconfig;
mod register;
mod set;
mod steps;
mod sync;
mod unique;
mod watch;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch::Receiver;

use crate::cluster::Access;
use crate::history::{Event, Recorder};
use crate::verdict::Verdict;

/// Future of a workload.
pub type Work<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Clients call, and faults are made.
    Running,
    /// There are no more faults, and members recover. Clients end their open calls and begin no new
    /// ones.
    Healing,
    /// All members serve again. The final reads are made now.
    Final,
}

/// Context of one client of a run.
#[derive(Debug, Clone)]
pub struct Context {
    /// Its first process number. After an unknown outcome it continues with this number plus a
    /// multiple of [`processes`](Self::processes).
    pub process: u64,
    /// The lowest of the first process numbers, 0 unless the run continues earlier legs.
    pub lowest: u64,
    /// Count of numbers: one for each client, one for the preparation, and one for the final reads.
    pub processes: u64,
    /// Client addresses of all members, in the order of their ids.
    pub members: Arc<[String]>,
    /// Admin servers of the Zoarium members, for workloads that [use them](Workload::asks_admin).
    pub admin: Arc<[String]>,
    /// Protection of the client's connections.
    pub access: Access,
    /// Time between two calls of a client: a history of hours must fit into the memory of its
    /// checker.
    pub pace: Duration,
    /// Recorder of every call.
    pub recorder: Recorder,
    /// Seed of this client's choices.
    pub seed: u64,
    /// Progress of the run.
    pub phase: Receiver<Phase>,
}

/// One kind of load with its checker.
pub trait Workload: Send + Sync {
    /// Returns its name on the command line.
    fn name(&self) -> &'static str;

    /// Returns the guarantee, in one line for `list`.
    fn promise(&self) -> &'static str;

    /// Returns the settings of zoo.cfg that it needs, key and value.
    fn settings(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Returns the system properties that it needs, key and value.
    fn properties(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Returns whether it uses admin servers, which need a separate address for each member.
    fn asks_admin(&self) -> bool {
        false
    }

    /// Returns whether its history consists of calls of registers, which porcupine can judge.
    fn has_registers(&self) -> bool {
        false
    }

    /// Returns why the machine cannot run its clients, or `None` if it can. Builds their programs.
    fn lack(&self) -> Option<String> {
        None
    }

    /// Prepares znodes, once, while all members serve and before any fault.
    fn prepare(&self, context: Context) -> Work<'_>;

    /// Runs one client while the phase is [`Phase::Running`]. It never gives up: if its session is
    /// lost, it continues with another one.
    fn run(&self, context: Context) -> Work<'_>;

    /// Makes and records the final reads after all members serve again.
    fn finish(&self, context: Context) -> Work<'_>;

    /// Judges a whole history within a budget of steps.
    fn check(&self, events: &[Event], steps_max: u64) -> Verdict;
}

/// Returns all workloads, in the order of the list.
pub fn all() -> &'static [&'static dyn Workload] {
    &[
        &register::Register,
        &register::Rejoin,
        &register::KAZOO,
        &register::JAVA,
        &register::GO,
        &set::Set,
        &counter::Counter,
        &bank::Bank,
        &unique::Unique,
        &monotonic::Monotonic,
        &lock::Lock,
        &queue::Queue,
        &ephemeral::GLOBAL,
        &ephemeral::LOCAL,
        &ephemeral::First,
        &owner::Owner,
        &watch::Watches,
        &sync::Synced,
        &reconfig::Reconfig,
        &quota::Quota,
        &feed::FEED,
        &feed::LARGE_FEED,
    ]
}

/// Returns the workload of this name.
pub fn by_name(name: &str) -> Option<&'static dyn Workload> {
    all()
        .iter()
        .copied()
        .find(|workload| workload.name() == name)
}
