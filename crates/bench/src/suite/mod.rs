//! One load after the other, and one table of them all: a user repeats it on a machine of their own.

mod report;

use std::net::TcpListener;
use std::process::ExitCode;
use std::thread;

use super::access::AccessArgs;
use super::args::{FsyncArgs, Preallocate, ServersArgs, SuiteArgs, TurnsArgs};
use super::compare::{self, Schedule, Side};
use super::echo::{self, Log, Serving};
use super::error::{BenchError, Result};
use super::fsync::FsyncResult;
use super::load::{self, Load};
use super::progress::Progress;
use super::round::Work;
use super::workload::Mix;
use super::{fsync, output};

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

/// What the disk of a log has to do for [`SET`] and [`SET_OF_MANY`]: records in a group.
const SYNCS: [(&str, u32); 2] = [(SET, 256), (SET_OF_MANY, 1000)];
/// Of a setData of 100 bytes in the log.
const RECORD_BYTES: u32 = 250;
/// Children of one znode where the servers are filled.
const BREADTH: u32 = 1000;

/// What came of one load.
#[derive(Debug)]
struct Row {
    load: Load,
    /// One or two sides, or why there are none.
    sides: Result<Vec<Side>>,
}

/// What this machine allows at the most.
#[derive(Debug)]
struct Limits {
    /// The same loads at a server that does nothing, or nothing but sync.
    servers: Vec<Row>,
    /// Groups of records that are made durable: for which load, and how many are one group.
    syncs: Vec<(&'static str, FsyncArgs, Result<FsyncResult>)>,
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
    let limits = Limits {
        servers: at_the_limit(args, &loads),
        syncs: syncs(args, &rows),
    };
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

fn syncs(args: &SuiteArgs, rows: &[Row]) -> Vec<(&'static str, FsyncArgs, Result<FsyncResult>)> {
    let find = |name| rows.iter().any(|row| row.load.name == name);
    let syncs = SYNCS.iter().filter(|(name, _)| find(*name));
    let syncs = syncs.filter_map(|(name, group)| {
        let sync = FsyncArgs {
            dir: args.dir.clone()?,
            bytes: RECORD_BYTES,
            group: *group,
            duration: args.turns.duration,
            preallocate: Preallocate::Zeroes,
            json: false,
        };
        let result = fsync::run(&sync);
        Some((*name, sync, result))
    });
    syncs.collect()
}

/// Whether requests of the load become transactions; `None` if a server that gives every request the
/// same answer cannot serve it.
fn writes(load: &Load) -> Option<bool> {
    match (load.work, load.mix) {
        (Work::Requests, Mix::Get | Mix::Exists) => Some(false),
        (Work::Requests, Mix::Set | Mix::Create)
        | (Work::Storm | Work::Locks | Work::FanOut, _) => Some(true),
        // Of mixed requests a server may answer those in front of a write while that is synced.
        _ => None,
    }
}

/// The loads at a server that does nothing, or nothing but sync, as far as there is such a server for them
/// and a directory to sync in.
fn at_the_limit(args: &SuiteArgs, loads: &[Load]) -> Vec<Row> {
    // One for all of them: a file stays until the process ends.
    let mut log: Option<Log> = None;
    let mut rows = Vec::new();
    for load in loads {
        let opened = match (writes(load), &args.dir) {
            (Some(false), _) => Ok(None),
            (Some(true), Some(dir)) => match log.clone() {
                None => Log::open(dir).map(Some),
                opened => Ok(opened),
            },
            _ => continue,
        };
        let sides = opened.and_then(|opened| {
            log = opened.clone().or(log.take());
            at_its_limit(&args.turns, load, opened)
        });
        rows.push(Row { load: *load, sides });
    }
    rows
}

fn at_its_limit(turns: &TurnsArgs, load: &Load, log: Option<Log>) -> Result<Vec<Side>> {
    let serving = Serving::new(load.payload, log);
    let listener = TcpListener::bind("127.0.0.1:0").map_err(BenchError::io("listen"))?;
    let address = listener.local_addr().map_err(BenchError::io("listen"))?;
    // It ends with the process.
    thread::spawn(move || echo::serve(listener, &serving, 1));
    let plain = ServersArgs {
        server: vec![address.to_string()],
        versus: Vec::new(),
        pid: None,
        versus_pid: None,
        access: AccessArgs::default(),
    };
    let progress = Progress::within(&format!("limit of {}", load.name));
    measure(&plain, &once(turns), load, &progress)
}
