//! Whole ensembles in one thread, from one number.
//!
//! Three to seven servers, or a standalone one, each the real [`Replica`](replica::Replica) over the real `tree` and
//! `storage`, live on a simulated disk, network and clock. Clients write, read, watch, lose their
//! connections and come back elsewhere. Machines lose power in the middle of a write, processes are
//! killed, paths are cut (also one way), connections break, syncs fail, disks fill up and bits flip.
//! Then everything is mended and must be well. What happens follows from the seed alone.
//!
//! * [`run`] runs one seed; the binary runs many.
//! * `invariants` are what must hold, one file each; `history` is what was committed, as an
//!   onlooker knows it.
//! * `history_check` keeps the change history of every member, and compares it with that.
//! * `contenders` are processes with the recipes and the client that ship, on simulated sockets and
//!   time: [`run_recipes`].
//! * [`Mutant`]s are lines of the code that ships that do not do their duty: each must be
//!   caught, else the invariants prove nothing.
//! * [`scenarios`] are the order bugs that Apache ZooKeeper has had, step by step, each with its
//!   mutant.
//!
//! The host of a replica (`server`) carries out what the replica decides, as the real server does, and
//! decides nothing itself: there are no threads, no sockets and no real time. One thing it has to model,
//! since it is not part of the replica: what a server's connections with clients do.

mod answers;
mod checks;
mod client;
mod configured;
mod contenders;
mod ensemble;
mod history;
mod history_check;
mod invariants;
mod member_files;
mod members;
mod mutant;
mod network;
mod observed;
mod pace;
mod plan;
mod queue;
pub mod scenarios;
mod server;
mod turns;
mod wire;
mod world;

pub use answers::{Answer, Answers, Times};
pub use checks::Violation;
pub use mutant::{CAUGHT_BY, Mutant, RECIPES_CAUGHT_BY, mutant_by_name, mutants};

use std::collections::BTreeMap;

use contenders::Contenders;
pub use contenders::Recipe;
use ensemble::Ensemble;
use plan::Plan;
use proto::OpCode;
use testkit::Random;

/// What a run did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Transactions committed.
    pub committed: usize,
    /// Writes that clients were told to be done.
    pub acknowledged: usize,
    /// Epochs established.
    pub epochs: usize,
    /// Events.
    pub events: u64,
    /// How often each operation was carried out for a client.
    pub succeeded: BTreeMap<OpCode, usize>,
    /// Searches for an order of calls that were given up.
    pub undecided: usize,
    /// Transactions that change histories hold in the end, and those that their holes leave out.
    pub recorded: (usize, usize),
    /// Whether it ended without a quorum that has kept what it acknowledged, and so without a leader.
    pub is_given_up: bool,
    /// How often the schedules of the servers gave each answer.
    pub answers: Answers,
    /// The first promise that was broken.
    pub violation: Option<Violation>,
}

/// Runs one seed to its end, or to the first violation. With `prints` every step goes to standard
/// output.
pub fn run(seed: u64, mutant: Option<Mutant>, prints: bool) -> Report {
    let plan = Plan::drawn(&mut Random::new(!seed), mutant);
    if prints {
        println!("{plan:?}");
    }
    let storm = plan.storm;
    let mut ensemble = Ensemble::new(seed, plan, prints);
    ensemble.start_all();
    ensemble.begin_weather();
    ensemble.run(storm);
    ensemble.heal();
    ensemble.must_be_well();
    report(&ensemble)
}

/// What a run of recipes did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecipesReport {
    /// The same as of other runs.
    pub report: Report,
    /// Of each recipe that was contended for: how much was granted, put or taken.
    pub done: Vec<(Recipe, usize)>,
}

/// Runs recipes through one seed: `only` this one, or two that the seed draws.
pub fn run_recipes(
    seed: u64,
    only: Option<Recipe>,
    mutant: Option<Mutant>,
    prints: bool,
) -> RecipesReport {
    let mut random = Random::new(!seed);
    let plan = Plan::drawn(&mut random, mutant);
    let plan = plan.for_recipes(&mut random);
    if prints {
        println!("{plan:?}");
    }
    let storm = plan.storm;
    let mut ensemble = Ensemble::new(seed, plan, prints);
    ensemble.contenders = Contenders::drawn(&mut random, only);
    ensemble.start_all();
    ensemble.begin_weather();
    ensemble.contenders.begin(&mut ensemble.world);
    ensemble.run(storm);
    ensemble.contend_to_the_end();
    RecipesReport {
        report: report(&ensemble),
        done: ensemble.contenders.done.clone(),
    }
}

/// The command that repeats a seed with every step printed.
pub fn repeat_command(seed: u64, mutant: Option<Mutant>) -> String {
    let (features, mutant) = match mutant {
        None => ("", String::new()),
        Some(mutant) => (" --features mutants", format!(" --mutant {mutant:?}")),
    };
    format!("cargo run --release -p zoarium-simulator{features} -- --seed {seed}{mutant}")
}

fn report(ensemble: &Ensemble) -> Report {
    let checks = &ensemble.world.checks;
    Report {
        committed: checks.history.entries.len(),
        acknowledged: checks.acknowledged.len(),
        epochs: checks.one_leader.len(),
        events: ensemble.world.queue.taken,
        succeeded: checks.succeeded.clone(),
        undecided: checks.undecided(),
        recorded: (ensemble.recorded.recorded, ensemble.recorded.missed),
        is_given_up: ensemble.is_given_up,
        answers: ensemble.world.answers.clone(),
        violation: checks.violation.clone(),
    }
}
