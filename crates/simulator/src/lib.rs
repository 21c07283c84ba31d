//! Simulation of whole ensembles in one thread, from one seed.
//!
//! An ensemble has two to seven servers, or one standalone server. Each server runs the real
//! [`Replica`](replica::Replica) with the real `tree` and `storage`, on a simulated disk, network
//! and clock. Clients write, read, watch, lose their connections and reconnect to other servers.
//! Machines lose power in the middle of a write, processes are killed, paths are cut (in one or
//! both directions), connections break, syncs fail, disks fill up and bits flip. Then all faults
//! end, and the ensemble must recover. The seed alone determines every event.
//!
//! * [`run`] runs one seed. The binary runs many.
//! * [`Search`] mutates storms that reached new situations, and [`run_covered`] runs them.
//! * `invariants` are the conditions that must always hold, one file each. `history` contains the
//!   committed transactions, as an omniscient observer sees them.
//! * `history::check` records the change history of every member and compares it with `history`.
//! * `contenders` are processes that run the shipped recipes and client on simulated sockets and
//!   time. [`run_recipes`] runs them.
//! * Mutants are deliberate bugs in the shipped code: patches in the folder `mutants`. The
//!   invariants must catch each of them, because otherwise the invariants would prove nothing.
//! * [`Explorer`] explores all schedules within bounds.
//! * [`scenarios`] reproduce ordering bugs of Apache ZooKeeper step by step, each with its mutant.
//!
//! The crate `simulation` contains the host of a replica, the disk, the network and the clock. This
//! crate owns the events of clients, recipes and faults, and checks each step.

mod checks;
mod client;
mod contenders;
mod ensemble;
mod explorer;
mod history;
mod invariants;
pub mod scenarios;
mod simulated;
mod storms;

pub use checks::Violation;
pub use checks::trace::Trace;
pub use explorer::{Bounds, Choice, Explored, Explorer, Followed, follow, replay};
pub use history::check::FileCounts;
pub use history::secrets::{ComparedAnswers, compare_secrets};

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use checks::actions::ActionTrace;
use contenders::Contenders;
use ensemble::Ensemble;
pub use invariants::recipes::Recipe;
use proto::OpCode;
pub use simulation::server::{Answer, Answers, Times};
use storms::plan::Plan;
pub use storms::{Branch, Pair, Point, Progress, Reached, Search, Situation, Storm, StormError};
use testkit::Random;

/// Results of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Number of committed transactions.
    pub committed: usize,
    /// Number of writes that were acknowledged to clients.
    pub acknowledged: usize,
    /// Number of established epochs.
    pub epochs: usize,
    /// Number of simulated events.
    pub events: u64,
    /// Number of successful requests from clients, by operation.
    pub succeeded: BTreeMap<OpCode, usize>,
    /// Number of linearizability searches that reached the step limit.
    pub undecided: usize,
    /// Number of transactions in the change histories at the end, and number of transactions in
    /// their gaps.
    pub recorded: (usize, usize),
    /// Whether the run ended without a leader because no quorum had kept its acknowledged data.
    pub is_given_up: bool,
    /// Number of times that the servers' schedules gave each answer.
    pub answers: Answers,
    /// First violated invariant, if any.
    pub violation: Option<Violation>,
}

/// Runs one seed to its end or to the first violation. Prints the steps to standard output in the
/// form that `trace` specifies.
pub fn run(seed: u64, trace: Trace) -> Report {
    run_storm(&Storm::of_seed(seed), trace)
}

/// Runs a seed as [`run`] does. Some members also record their change histories in files below
/// `dir`, with the shipped index, and these histories are compared with the committed transactions.
pub fn run_with_files(seed: u64, dir: &Path, trace: Trace) -> (Report, FileCounts) {
    let storm = Storm::of_seed(seed);
    let mut ensemble = Ensemble::of_storm(&storm, trace);
    let histories = &mut ensemble.servers.world.checks.histories;
    histories.record_files(dir, seed);
    ensemble.run_to_the_end(&storm);
    let counts = ensemble.servers.world.checks.histories.file_counts();
    (report(seed, &ensemble), counts)
}

/// Runs a storm to its end or to the first violation. Prints the steps as [`run`] does.
pub fn run_storm(storm: &Storm, trace: Trace) -> Report {
    let mut ensemble = Ensemble::of_storm(storm, trace);
    ensemble.run_to_the_end(storm);
    report(storm.seed, &ensemble)
}

/// Runs a storm as [`run_storm`] does. Also returns the pairs of guards and situations that it
/// reached.
pub fn run_covered(storm: &Storm) -> (Report, Reached) {
    let mut ensemble = Ensemble::of_storm(storm, Trace::Off);
    let servers = ensemble.servers.machines.len();
    ensemble.servers.world.checks.coverage.begin(servers);
    ensemble.run_to_the_end(storm);
    let reached = std::mem::take(&mut ensemble.servers.world.checks.coverage.reached);
    (report(storm.seed, &ensemble), reached)
}

impl Ensemble {
    fn of_storm(storm: &Storm, trace: Trace) -> Self {
        let plan = Plan::drawn(&mut Random::new(!storm.seed));
        if trace == Trace::Words {
            println!("{plan:?}");
        }
        Self::new(storm.seed, plan, trace)
    }

    fn run_to_the_end(&mut self, storm: &Storm) {
        self.start_all();
        self.begin_weather();
        self.run_storm(&storm.points);
        self.heal();
        self.must_be_well();
    }
}

/// A trace for the formal model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelTrace {
    /// Consecutive pieces of the trace. Each of them except the last one ends where an epoch is
    /// established.
    pub pieces: Vec<TracePiece>,
    /// First violated invariant of the simulator, if any.
    pub violation: Option<Violation>,
}

/// A piece of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracePiece {
    /// The events, as a sequence of TLA+.
    pub text: String,
    /// Number of events.
    pub events: usize,
}

/// Length of a trace.
#[derive(Debug, Clone, Copy)]
pub struct TraceLength {
    /// Minimum number of events in a piece.
    pub events: usize,
    /// Maximum number of pieces.
    pub pieces: usize,
}

/// Servers of a trace.
#[derive(Debug, Clone, Copy)]
pub struct TracedServers {
    /// Number of servers, all of which vote at the beginning.
    pub count: usize,
    /// Whether an operator removes and adds voters.
    pub reconfigure: bool,
}

/// Runs the storm of one seed with this number of servers, without the features that the formal
/// model lacks, and returns the actions of the servers. A violated invariant does not end the run,
/// because the model judges the trace.
pub fn record(seed: u64, servers: TracedServers, length: TraceLength) -> ModelTrace {
    let mut plan = Plan::drawn(&mut Random::new(!seed)).for_model(servers.count);
    if servers.reconfigure {
        plan = plan.with_reconfigurations();
    }
    let storm = plan.storm;
    let mut ensemble = Ensemble::new(seed, plan, Trace::Off).recorded(length.events);
    ensemble.start_all();
    ensemble.begin_weather();
    while ensemble.servers.world.checks.actions.complete() < length.pieces
        && let Some(event) = ensemble.servers.world.queue.next(storm)
    {
        ensemble.happen(event);
    }
    ensemble.model_trace()
}

/// Returns the actions of real servers, which have appended facts about themselves to one file
/// (`zoarium.trace.model`). Each piece has at least `events` events.
///
/// # Errors
/// If the text is not a complete trace of this number of servers.
pub fn record_servers(text: &str, servers: usize, events: usize) -> Result<ModelTrace, String> {
    let trace = ActionTrace::of_servers(text, servers, events)?;
    Ok(ModelTrace {
        pieces: trace.pieces(),
        violation: None,
    })
}

impl Ensemble {
    /// Begins to record actions for the formal model. Called before the first server starts.
    fn recorded(mut self, piece_min: usize) -> Self {
        let servers = self.servers.machines.len();
        self.servers.world.checks.actions.begin(servers, piece_min);
        self
    }

    fn model_trace(&self) -> ModelTrace {
        let checks = &self.servers.world.checks;
        ModelTrace {
            pieces: checks.actions.pieces(),
            violation: checks.violation.clone(),
        }
    }
}

/// Results of a run with recipes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecipesReport {
    /// Results that every run has.
    pub report: Report,
    /// Number of grants, puts, takes and other completed steps of each recipe.
    pub done: Vec<(Recipe, usize)>,
}

/// Runs recipes with one seed: only the recipe `only`, or two recipes that the seed draws.
pub fn run_recipes(seed: u64, only: Option<Recipe>, trace: Trace) -> RecipesReport {
    let mut random = Random::new(!seed);
    let plan = Plan::drawn(&mut random);
    let plan = plan.for_recipes(&mut random);
    if trace == Trace::Words {
        println!("{plan:?}");
    }
    let storm = plan.storm;
    let mut ensemble = Ensemble::new(seed, plan, trace);
    ensemble.contenders = Contenders::drawn(&mut random, only);
    ensemble.start_all();
    ensemble.begin_weather();
    ensemble.contenders.begin(&mut ensemble.servers.world);
    ensemble.run(storm);
    ensemble.contend_to_the_end();
    RecipesReport {
        report: report(seed, &ensemble),
        done: ensemble.contenders.done.clone(),
    }
}

/// Returns the command that repeats a seed or a storm and prints every step.
pub fn repeat_command(storm: impl fmt::Display) -> String {
    format!("cargo run --release -p zoarium-simulator -- --seed {storm}")
}

fn report(seed: u64, ensemble: &Ensemble) -> Report {
    let world = &ensemble.servers.world;
    let checks = &world.checks;
    let report = Report {
        committed: checks.history.entries.len(),
        acknowledged: checks.acknowledged.len(),
        epochs: checks.one_leader.len(),
        events: world.queue.taken,
        succeeded: checks.succeeded.clone(),
        undecided: checks.undecided(),
        recorded: (ensemble.recorded.recorded, ensemble.recorded.missed),
        is_given_up: ensemble.is_given_up,
        answers: world.answers.clone(),
        violation: checks.violation.clone(),
    };
    checks.trace.end(world.now(), seed, &report);
    report
}
