//! One load after the other, and one table of them all: a user repeats it on a machine of their own.

mod report;

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::ExitCode;
use std::thread;

use super::args::{FsyncArgs, LoadArgs, Preallocate, SuiteArgs};
use super::compare::{self, Schedule, Side};
use super::error::{BenchError, Result};
use super::fsync::FsyncResult;
use super::progress::Progress;
use super::round::Work;
use super::workload::Mix;
use super::{FILES_BESIDES, echo, fsync, job, output, target};

/// A load of the suite.
#[derive(Debug, Clone, Copy)]
struct Load {
    name: &'static str,
    work: Work,
    mix: Mix,
    sessions: u32,
    pipeline: u32,
    payload: u32,
    /// Znodes, or locks.
    keys: u32,
}

const fn requests(name: &'static str, mix: Mix, sessions: u32, pipeline: u32) -> Load {
    Load {
        name,
        work: Work::Requests,
        mix,
        sessions,
        pipeline,
        payload: 100,
        keys: 1000,
    }
}

/// Sessions that do something else.
const fn sessions(name: &'static str, work: Work, sessions: u32) -> Load {
    Load {
        work,
        ..requests(name, Mix::Set, sessions, 1)
    }
}

const GET: &str = "get 16 x 16";
const SET: &str = "set 16 x 16";
const SET_OF_MANY: &str = "set 128 x 16";

/// In their order; a name says sessions and requests of each that are under way.
const LOADS: &[Load] = &[
    requests(GET, Mix::Get, 16, 16),
    requests("get 1 x 1", Mix::Get, 1, 1),
    requests(SET, Mix::Set, 16, 16),
    requests(SET_OF_MANY, Mix::Set, 128, 16),
    requests("set 16 x 1", Mix::Set, 16, 1),
    requests("set 1 x 1", Mix::Set, 1, 1),
    Load {
        payload: 1024,
        ..requests("set 1 KB, 16 x 16", Mix::Set, 16, 16)
    },
    requests("create 16 x 16", Mix::Create, 16, 16),
    requests(
        "mixed 90:10, 16 x 16",
        Mix::Mixed { read_percent: 90 },
        16,
        16,
    ),
    sessions("connect, 16 sessions", Work::Storm, 16),
    Load {
        keys: 8,
        ..sessions("lock, 32 sessions on 8", Work::Locks, 32)
    },
    sessions("watch, 1000 sessions", Work::FanOut, 1000),
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
    /// Answers of a server that does nothing.
    echo: Option<Result<Vec<Side>>>,
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
        let sides = measure(args, &load, args.rounds, &progress);
        Row { load, sides }
    };
    let rows: Vec<Row> = loads.iter().enumerate().map(measure).collect();
    let filled = (args.znodes > 0).then(|| fill(args));
    let limits = limits(args, &rows);
    let suite = Suite {
        args,
        rows,
        filled,
        limits,
    };
    let (text, json) = (suite.markdown(), format!("{:#}\n", suite.json()));
    if let Some(dir) = &args.report {
        write(dir, "report.md", &text)?;
        write(dir, "report.json", &json)?;
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

fn write(dir: &Path, name: &str, text: &str) -> Result<()> {
    let file = dir.join(name);
    let written = fs::create_dir_all(dir).and_then(|()| fs::write(&file, text));
    written.map_err(BenchError::io(format!("write {}", file.display())))
}

fn measure(args: &SuiteArgs, load: &Load, rounds: u32, progress: &Progress) -> Result<Vec<Side>> {
    let load_args = load_args(args, load);
    // Every session is a file; what the system does not allow shows when one cannot be opened.
    let _ = rlimit::increase_nofile_limit(u64::from(load.sessions) + FILES_BESIDES);
    let mut job = job(&load_args, load.work, load.mix)?;
    if let Mix::Fill { .. } = load.mix {
        (job.warmup, job.until_done) = (std::time::Duration::ZERO, true);
    }
    let access = args.access.open()?;
    let mut targets = vec![target::Target::new(&args.server, args.pid, access.clone())?];
    if !args.versus.is_empty() {
        targets.push(target::Target::new(&args.versus, args.versus_pid, access)?);
    }
    let keep = false;
    compare::run(&job, &targets, Schedule { rounds, keep }, progress)
}

fn load_args(args: &SuiteArgs, load: &Load) -> LoadArgs {
    LoadArgs {
        server: args.server.clone(),
        versus: args.versus.clone(),
        rounds: args.rounds,
        pid: args.pid,
        versus_pid: args.versus_pid,
        sessions: load.sessions,
        pipeline: load.pipeline,
        payload: load.payload,
        keys: load.keys,
        duration: args.duration,
        ops: None,
        warmup: args.warmup,
        threads: 1,
        session_timeout: std::time::Duration::from_secs(30),
        root: None,
        keep: false,
        json: false,
        access: args.access.clone(),
    }
}

fn fill(args: &SuiteArgs) -> Row {
    let mix = Mix::Fill {
        znodes: args.znodes,
        breadth: BREADTH,
    };
    let load = requests("fill", mix, 16, 16);
    let sides = measure(args, &load, 1, &Progress::within("fill"));
    Row { load, sides }
}

fn limits(args: &SuiteArgs, rows: &[Row]) -> Limits {
    let find = |name| rows.iter().any(|row| row.load.name == name);
    let syncs = SYNCS.iter().filter(|(name, _)| find(*name));
    let syncs = syncs.filter_map(|(name, group)| {
        let sync = FsyncArgs {
            dir: args.dir.clone()?,
            bytes: RECORD_BYTES,
            group: *group,
            duration: args.duration,
            preallocate: Preallocate::Zeroes,
            json: false,
        };
        let result = fsync::run(&sync);
        Some((*name, sync, result))
    });
    Limits {
        syncs: syncs.collect(),
        echo: find(GET).then(|| echoed(args)),
    }
}

/// The load of [`GET`] at a server that does nothing.
fn echoed(args: &SuiteArgs) -> Result<Vec<Side>> {
    let load = requests("echo", Mix::Get, 16, 16);
    let listener = TcpListener::bind("127.0.0.1:0").map_err(BenchError::io("listen"))?;
    let address = listener.local_addr().map_err(BenchError::io("listen"))?;
    // It ends with the process.
    thread::spawn(move || echo::serve(listener, load.payload, 1));
    let plain = SuiteArgs {
        server: vec![address.to_string()],
        versus: Vec::new(),
        pid: None,
        versus_pid: None,
        access: Default::default(),
        ..args.clone()
    };
    measure(&plain, &load, 1, &Progress::within("echo"))
}
