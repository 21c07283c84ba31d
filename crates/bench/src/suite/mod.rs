//! Series of loads whose results form one table. A user can repeat the series on another machine.

pub(crate) mod args;
mod digests;
mod events;
mod fleet;
mod limits;
mod report;
mod rows;

use std::process::ExitCode;

use self::args::SuiteArgs;
use self::events::Events;
use self::events::figures::EventKind;
use self::fleet::Fleet;
use self::limits::Limits;
use self::rows::{LOADS, Row};
use crate::args::ServersArgs;
use crate::error::{BenchError, Result};
use crate::report::output;
use crate::report::progress::Progress;
use crate::rounds::compare::{self, Schedule, Side};
use crate::rounds::load::{self, Load};
use crate::rounds::round::Job;
use crate::target::Target;

/// All results of a suite.
#[derive(Debug)]
struct Suite<'a> {
    args: &'a SuiteArgs,
    /// Cargo profile of this program. A comparison of two builds requires the profile `dist` on
    /// both sides.
    profile: &'static str,
    rows: Vec<Row>,
    events: Events,
    limits: Limits,
    /// Time of one comparison of digests, in ns. `None` if the row is not chosen.
    digest_ns: Option<f64>,
}

/// Runs the loads and events, and prints the report. If a load fails, its row contains the reason,
/// the other loads still run, and the exit code is 1.
pub(crate) fn run(args: &SuiteArgs, profile: &'static str) -> Result<ExitCode> {
    let RowFilter {
        loads,
        kinds,
        compares_digests,
    } = RowFilter::new(&args.only)?;
    let mut fleet = Fleet::start(args)?;
    let args = &fleet.watched(args);
    let count = loads.len();
    let mut limits = Limits::new(args);
    let measure = |(number, load): (usize, &Load)| {
        let progress = Progress::within(&format!("{} of {count}, {}", number + 1, load.name));
        measure(args, &mut limits, *load, &progress)
    };
    let rows: Vec<Row> = loads.iter().enumerate().map(measure).collect();
    if args.znodes > 0 && !rows.is_empty() {
        fleet.start_anew()?;
    }
    let args = &fleet.watched(args);
    let events = Events::measure(args, &mut fleet, &kinds);
    fleet.stop();
    limits.measure_syncs(args, &loads);
    let suite = Suite {
        args,
        profile,
        rows,
        events,
        limits,
        digest_ns: compares_digests.then(digests::measure),
    };
    let (text, json) = (suite.markdown(), format!("{:#}\n", suite.json()));
    if let Some(dir) = &args.report {
        output::write(dir, "report.md", &text)?;
        output::write(dir, "report.json", &json)?;
    }
    output::print(if args.json { &json } else { &text });
    Ok(if suite.is_clean() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Rows whose names contain one of the words of `--only`, or all rows without this option.
struct RowFilter {
    loads: Vec<Load>,
    kinds: Vec<EventKind>,
    compares_digests: bool,
}

impl RowFilter {
    fn new(only: &[String]) -> Result<Self> {
        let is_chosen =
            |name: &str| only.is_empty() || only.iter().any(|word| name.contains(word.as_str()));
        let loads = LOADS.iter().copied().filter(|load| is_chosen(load.name));
        let kinds = EventKind::ALL
            .into_iter()
            .filter(|kind| is_chosen(kind.name()));
        let chosen = Self {
            loads: loads.collect(),
            kinds: kinds.collect(),
            compares_digests: is_chosen(digests::NAME),
        };
        if chosen.loads.is_empty() && chosen.kinds.is_empty() && !chosen.compares_digests {
            let loads = LOADS.iter().map(|load| load.name);
            let names = loads.chain(EventKind::ALL.map(EventKind::name));
            let names: Vec<&str> = names.chain([digests::NAME]).collect();
            let text = format!("--only: unknown row; known rows are {}", names.join("; "));
            return Err(BenchError::Argument(text));
        }
        Ok(chosen)
    }
}

/// Measures a load with all servers and, if the load has a limit, with the servers for this limit.
fn measure(args: &SuiteArgs, limits: &mut Limits, load: Load, progress: &Progress) -> Row {
    let (limit, failed) = match limits.serve(args, &load).transpose() {
        Ok(limit) => (limit, None),
        Err(error) => (None, Some(error)),
    };
    let measured = in_turns(args, &load, limit.as_ref(), progress);
    let (sides, at_limit) = match measured {
        Ok((sides, at_limit)) => (Ok(sides), Ok(at_limit)),
        Err(error) => (Err(error), Ok(Vec::new())),
    };
    if limit.is_some() || failed.is_some() {
        limits.note(load, failed.map_or(at_limit, Err));
    }
    Row { load, sides }
}

/// Measures a load in turns. Returns the sides of the servers, and the side of the limit, if any.
fn in_turns(
    args: &SuiteArgs,
    load: &Load,
    limit: Option<&ServersArgs>,
    progress: &Progress,
) -> Result<(Vec<Side>, Vec<Side>)> {
    let all = [Some(&args.servers), limit];
    let measured = all.into_iter().flatten().map(|servers| {
        let job = load.job(servers, &args.turns, None)?;
        Ok((job, load::targets(servers)?))
    });
    let measured: Vec<(Job, Vec<Target>)> = measured.collect::<Result<_>>()?;
    let targets = measured
        .iter()
        .flat_map(|(job, targets)| targets.iter().map(move |target| (job, target)));
    let targets: Vec<_> = targets.collect();
    let schedule = Schedule {
        rounds: args.turns.rounds,
        keep: false,
    };
    let mut sides = compare::run_each(&targets, schedule, progress)?;
    let at_limit = sides.split_off(targets.len() - usize::from(limit.is_some()));
    Ok((sides, at_limit))
}
