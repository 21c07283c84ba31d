//! What clients do in a run, and who judges it.

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

use crate::history::{Event, Recorder};
use crate::verdict::Verdict;

/// What a workload's future is.
pub type Work<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Clients call, faults are made.
    Running,
    /// No more faults; members come back. Clients end what they have open and begin nothing.
    Healing,
    /// All members serve again: what must be read at the end is read now.
    Final,
}

/// What one client of a run is given.
#[derive(Debug, Clone)]
pub struct Context {
    /// Its first process number. After an unknown outcome it goes on with this plus a multiple of
    /// [`processes`](Self::processes).
    pub process: u64,
    /// How many numbers there are: one for each client, one for who prepares, one for who finishes.
    pub processes: u64,
    /// Client addresses of all members, in the order of their ids.
    pub members: Arc<[String]>,
    /// Admin servers of the members of Zoarium, for workloads that [ask them](Workload::asks_admin).
    pub admin: Arc<[String]>,
    /// Between two calls of a client: a history of hours must fit into the memory of its checker.
    pub pace: Duration,
    /// Where every call is recorded.
    pub recorder: Recorder,
    /// Seed of this client's choices.
    pub seed: u64,
    /// How far the run is.
    pub phase: Receiver<Phase>,
}

/// One kind of load with its checker.
pub trait Workload: Send + Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// What is promised, in one line for `list`.
    fn promise(&self) -> &'static str;

    /// Settings of zoo.cfg that it needs, key and value.
    fn settings(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Whether it asks admin servers, which takes an address of its own for each member.
    fn asks_admin(&self) -> bool {
        false
    }

    /// Prepares znodes, once, while all members serve and before any fault.
    fn prepare(&self, context: Context) -> Work<'_>;

    /// One client, until the phase is no longer [`Phase::Running`]. It never gives up: whatever
    /// happens to its session, it goes on with another one.
    fn run(&self, context: Context) -> Work<'_>;

    /// What is read once all members serve again, recorded as well.
    fn finish(&self, context: Context) -> Work<'_>;

    /// Judges a whole history within a budget of steps.
    fn check(&self, events: &[Event], steps_max: u64) -> Verdict;
}

/// All workloads, in the order in which they are listed.
pub fn all() -> &'static [&'static dyn Workload] {
    &[
        &register::Register,
        &set::Set,
        &counter::Counter,
        &bank::Bank,
        &unique::Unique,
        &monotonic::Monotonic,
        &lock::Lock,
        &queue::Queue,
        &ephemeral::GLOBAL,
        &ephemeral::LOCAL,
        &owner::Owner,
        &watch::Watches,
        &sync::Synced,
        &reconfig::Reconfig,
        &quota::Quota,
        &feed::Feed,
    ]
}

/// The workload of this name.
pub fn by_name(name: &str) -> Option<&'static dyn Workload> {
    all()
        .iter()
        .copied()
        .find(|workload| workload.name() == name)
}
