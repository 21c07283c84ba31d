//! One load after the other, and one table of them all: a user repeats it on a machine of their own.

mod limits;
mod report;

use std::process::ExitCode;

use self::limits::Limits;
use super::args::{ServersArgs, SuiteArgs, TurnsArgs};
use super::compare::{self, Schedule, Side};
use super::error::{BenchError, Result};
use super::load::{self, Load};
use super::output;
use super::progress::Progress;
use super::round::Work;
use super::workload::Mix;

const GET: &str = "get 16 x 16";
const SET: &str = "set 16 x 16";
const SET_OF_MANY: &str = "set 128 x 16";

/// In their order; a name says sessions and requests of each that are under way.
const LOADS: &[Load] = &[
    Load::requests(GET, Mix::Get, 16, 16),
    Load::requests("get 1 x 1", Mix::Get, 1, 1),
    Load::requests(SET, Mix::Set, 16, 16),
    Load::requests(SET_OF_MANY, Mix::Set, 128, 16),
    Load::requests("set 16 x 1", Mix::Set, 16, 1),
    Load::requests("set 1 x 1", Mix::Set, 1, 1),
    Load {
        payload: 1024,
        ..Load::requests("set 1 KB, 16 x 16", Mix::Set, 16, 16)
    },
    Load::requests("create 16 x 16", Mix::Create, 16, 16),
    Load::requests(
        "mixed 90:10, 16 x 16",
        Mix::Mixed { read_percent: 90 },
        16,
        16,
    ),
    Load::sessions("connect, 16 sessions", Work::Storm, 16),
    Load {
        keys: 8,
        ..Load::sessions("lock, 32 sessions on 8", Work::Locks, 32)
    },
    Load {
        keys: 1,
        ..Load::sessions("watch, 1000 sessions", Work::FanOut, 1000)
    },
];

/// Children of one znode where the servers are filled.
const BREADTH: u32 = 1000;

/// What came of one load.
#[derive(Debug)]
struct Row {
    load: Load,
    /// One or two sides, or why there are none.
    sides: Result<Vec<Side>>,
}

/// All of it.
#[derive(Debug)]
struct Suite<'a> {
    args: &'a SuiteArgs,
    rows: Vec<Row>,
    /// How many znodes the servers were filled with, and what came of it.
    filled: Option<Row>,
    limits: Limits,
}

/// Runs the loads and prints the report. A load that cannot be run is a row that says why, and the
/// others go on; the exit code is 1 then.
pub(crate) fn run(args: &SuiteArgs) -> Result<ExitCode> {
    let loads = chosen(&args.only)?;
    let count = loads.len();
    let measure = |(number, load): (usize, &Load)| {
        let progress = Progress::within(&format!("{} of {count}, {}", number + 1, load.name));
        let load = *load;
        let sides = measure(&args.servers, &args.turns, &load, &progress);
        Row { load, sides }
    };
    let rows: Vec<Row> = loads.iter().enumerate().map(measure).collect();
    let filled = (args.znodes > 0).then(|| fill(args));
    let limits = Limits::measure(args, &loads);
    let suite = Suite {
        args,
        rows,
        filled,
        limits,
    };
    let (text, json) = (suite.markdown(), format!("{:#}\n", suite.json()));
    if let Some(dir) = &args.report {
        output::write(dir, "report.md", &text)?;
        output::write(dir, "report.json", &json)?;
    }
    output::print(if args.json { &json } else { &text });
    Ok(match suite.is_clean() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn chosen(only: &[String]) -> Result<Vec<Load>> {
    let is_chosen =
        |load: &&Load| only.is_empty() || only.iter().any(|word| load.name.contains(word.as_str()));
    let loads: Vec<Load> = LOADS.iter().filter(is_chosen).copied().collect();
    if loads.is_empty() {
        let names: Vec<&str> = LOADS.iter().map(|load| load.name).collect();
        let text = format!(
            "--only: no load has such a name; there are {}",
            names.join("; ")
        );
        return Err(BenchError::Argument(text));
    }
    Ok(loads)
}

fn measure(
    servers: &ServersArgs,
    turns: &TurnsArgs,
    load: &Load,
    progress: &Progress,
) -> Result<Vec<Side>> {
    let schedule = Schedule {
        rounds: turns.rounds,
        keep: false,
    };
    let job = load.job(servers, turns, None)?;
    compare::run(&job, &load::targets(servers)?, schedule, progress)
}

/// What is done once.
fn once(turns: &TurnsArgs) -> TurnsArgs {
    TurnsArgs {
        rounds: 1,
        ..turns.clone()
    }
}

fn fill(args: &SuiteArgs) -> Row {
    let mix = Mix::Fill {
        from: 0,
        znodes: args.znodes,
        breadth: BREADTH,
    };
    let load = Load::requests("fill", mix, 16, 16);
    let sides = measure(
        &args.servers,
        &once(&args.turns),
        &load,
        &Progress::within("fill"),
    );
    Row { load, sides }
}
