//! Command line of the simulator, which runs seeds, scripts or the explorer.

mod behaviours;
mod explore;
mod guided;
mod traces;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use simulator::scenarios::{GUARDS, SCENARIOS};
use simulator::{
    Recipe, RecipesReport, Report, Storm, Trace, repeat_command, run, run_recipes, run_storm,
};

/// Simulates ensembles of ZooKeeper servers, each run determined by one number (its seed).
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Runs only this seed or storm, and prints every step.
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<Storm>,
    /// Number of seeds to run.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first seed. The default is a number that was never used.
    #[arg(long)]
    from: Option<u64>,
    /// Continues after a violated invariant, until all seeds have run.
    #[arg(long)]
    keep_going: bool,
    /// Plays scripts instead of seeds. The value is the number of an issue, or the name of a mutant
    /// that removes a guard.
    #[arg(long)]
    scenario: Option<String>,
    /// Runs recipes (locks, elections, queues) instead of single requests.
    #[arg(long)]
    recipes: bool,
    /// Runs only this recipe.
    #[arg(long, requires = "recipes")]
    recipe: Option<String>,
    /// Form of the printed steps. The default is `words` for a single seed, and `off` for several
    /// seeds. `stable` prints only numbers, which are equal for builds with equal behaviour.
    #[arg(long)]
    trace: Option<Trace>,
    /// Writes the actions of the seeds to this directory, for the formal model.
    #[arg(long, conflicts_with_all = ["seed", "recipes", "trace"])]
    model: Option<PathBuf>,
    #[command(flatten)]
    of_traces: traces::TraceArguments,
    /// Explores all schedules of three servers within bounds, instead of seeds.
    #[arg(long, conflicts_with_all = ["seed", "recipes", "model", "scenario"])]
    explore: bool,
    /// Follows the behaviours of the formal model in this folder, each in a file of TLC.
    #[arg(long, conflicts_with_all = ["seed", "recipes", "model", "scenario", "explore"])]
    behaviours: Option<PathBuf>,
    #[command(flatten)]
    of_explorer: explore::ExploreArguments,
    #[command(flatten)]
    of_search: guided::GuidedArguments,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let of = match recipe_of(&arguments) {
        Ok(of) => of,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    if arguments.explore {
        return arguments
            .of_explorer
            .run(arguments.trace.unwrap_or_default());
    }
    if arguments.of_search.guided {
        let from = arguments.from.unwrap_or_else(testkit::seeds::fresh);
        return arguments.of_search.run(from);
    }
    if let Some(folder) = &arguments.behaviours {
        return behaviours::run(folder, arguments.trace.unwrap_or_default());
    }
    if let Some(dir) = &arguments.model {
        let from = arguments.from.unwrap_or_else(testkit::seeds::fresh);
        let seeds = from..from.saturating_add(arguments.seeds);
        let of_traces = &arguments.of_traces;
        return of_traces.write(dir, seeds, arguments.scenario.as_deref());
    }
    if let Some(script) = &arguments.scenario {
        return play(script, arguments.trace.unwrap_or(Trace::Words));
    }
    match &arguments.seed {
        Some(storm) => {
            let trace = arguments.trace.unwrap_or(Trace::Words);
            let report = match of {
                Of::Requests => run_storm(storm, trace),
                Of::Recipes(_) if !storm.points.is_empty() => {
                    eprintln!("storms with points run without recipes");
                    return ExitCode::from(2);
                }
                Of::Recipes(_) => of.run(storm.seed, trace),
            };
            if trace != Trace::Stable {
                println!("{report:?}");
            }
            ExitCode::from(u8::from(report.violation.is_some()))
        }
        None => run_many(&arguments, of),
    }
}

/// Workload of the seeds.
#[derive(Debug, Clone, Copy)]
enum Of {
    Requests,
    Recipes(Option<Recipe>),
}

impl Of {
    fn run(self, seed: u64, trace: Trace) -> Report {
        match self {
            Self::Requests => run(seed, trace),
            Self::Recipes(only) => {
                let RecipesReport { report, done } = run_recipes(seed, only, trace);
                if trace == Trace::Words {
                    println!("{done:?}");
                }
                report
            }
        }
    }

    fn arguments(self) -> String {
        match self {
            Self::Requests => String::new(),
            Self::Recipes(None) => " --recipes".to_owned(),
            Self::Recipes(Some(only)) => format!(" --recipes --recipe {only:?}"),
        }
    }
}

fn recipe_of(arguments: &Arguments) -> Result<Of, String> {
    let Some(name) = &arguments.recipe else {
        return Ok(if arguments.recipes {
            Of::Recipes(None)
        } else {
            Of::Requests
        });
    };
    match Recipe::all().find(|recipe| format!("{recipe:?}").eq_ignore_ascii_case(name)) {
        Some(recipe) => Ok(Of::Recipes(Some(recipe))),
        None => Err(format!(
            "unknown recipe {name:?}; known recipes: {:?}",
            Recipe::all().collect::<Vec<_>>()
        )),
    }
}

fn play(script: &str, trace: Trace) -> ExitCode {
    let mut played = Vec::new();
    if let Some(scenario) = SCENARIOS
        .iter()
        .find(|scenario| scenario.issue.to_string() == script)
    {
        let violation = scenario.play(trace);
        println!("ZOOKEEPER-{script}: {}: {violation:?}", scenario.title);
        played.push(violation);
    }
    for guard in GUARDS
        .iter()
        .filter(|guard| guard.mutant.eq_ignore_ascii_case(script))
    {
        let violation = guard.play(trace);
        println!("{script}: {}: {violation:?}", guard.title);
        played.push(violation);
    }
    if played.is_empty() {
        eprintln!("no script exists for an issue or a mutant {script}");
        return ExitCode::from(2);
    }
    ExitCode::from(u8::from(played.iter().any(Option::is_some)))
}

fn run_many(arguments: &Arguments, of: Of) -> ExitCode {
    let from = arguments.from.unwrap_or_else(testkit::seeds::fresh);
    let trace = arguments.trace.unwrap_or_default();
    let begun = Instant::now();
    let mut total = Total::default();
    let prints_totals = trace != Trace::Stable;
    if prints_totals {
        println!("{} seeds from {from}", arguments.seeds);
    }
    for seed in from..from.saturating_add(arguments.seeds) {
        let report = of.run(seed, trace);
        total.add(&report);
        if let Some(violation) = &report.violation {
            println!("\nseed {seed}: {}: {}", violation.invariant, violation.text);
            println!("  {}{}", repeat_command(seed), of.arguments());
            if !arguments.keep_going {
                break;
            }
        }
        if prints_totals && total.seeds.is_multiple_of(100) {
            print!(
                "\r{} seeds, {} failed, {:.0} s ",
                total.seeds,
                total.failed,
                begun.elapsed().as_secs_f64()
            );
            // A closed standard output is not a reason to stop.
            drop(std::io::stdout().flush());
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    if prints_totals {
        println!("\r{total:?} in {seconds:.0} s");
    }
    ExitCode::from(u8::from(total.failed > 0))
}

/// Sums over all seeds.
#[derive(Debug, Default)]
struct Total {
    seeds: u64,
    failed: u64,
    committed: usize,
    acknowledged: usize,
    epochs: usize,
    events: u64,
    undecided: usize,
    succeeded: BTreeMap<&'static str, usize>,
    given_up: u64,
    recorded: (usize, usize),
}

impl Total {
    fn add(&mut self, report: &Report) {
        self.seeds += 1;
        self.failed += u64::from(report.violation.is_some());
        self.committed += report.committed;
        self.acknowledged += report.acknowledged;
        self.epochs += report.epochs;
        self.events += report.events;
        self.undecided += report.undecided;
        for (op, count) in &report.succeeded {
            *self.succeeded.entry(op.name()).or_default() += count;
        }
        self.given_up += u64::from(report.is_given_up);
        self.recorded.0 += report.recorded.0;
        self.recorded.1 += report.recorded.1;
    }
}
