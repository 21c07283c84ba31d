//! `zoarium bench`: a load generator for every server that speaks ZooKeeper's protocol.
//!
//! The generator shares its machine with the server it measures, so it must cost little:
//! requests are copied from templates ([`template`]), each session keeps its pipeline full with
//! one write and one read a turn ([`session`]), each thread is one event loop with its own
//! statistics ([`round`]), and the clock is read once for a whole batch. `bench echo` and
//! `bench fsync` measure what the machine itself allows.
//!
//! A comparison ([`compare`]) lets two servers take turns in one run, because figures of two
//! runs on a shared machine say little about each other.

mod args;
mod bulk;
mod compare;
mod control;
mod echo;
mod error;
mod fan_out;
mod fsync;
mod idle;
mod process;
mod progress;
mod report;
mod round;
mod session;
mod stats;
mod storm;
mod target;
mod template;
mod workload;

use std::process::ExitCode;
use std::sync::Arc;

use client::Handshake;
use serde_json::json;

pub(crate) use self::args::BenchCommand;
use self::args::{CleanArgs, FillArgs, FsyncArgs, LoadArgs};
use self::compare::{Schedule, Side};
use self::error::Result;
use self::report::Report;
use self::round::{Job, Work};
use self::target::Target;
use self::template::Payload;
use self::workload::{LoadPlan, Mix};

/// Runs a benchmark. The exit code is 0 if every operation succeeded, 1 if some did not or the
/// run could not be done.
pub(crate) fn run(command: &BenchCommand) -> ExitCode {
    match dispatch(command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("zoarium bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: &BenchCommand) -> Result<ExitCode> {
    let (name, args, work, mix) = match command {
        BenchCommand::Get(args) => ("get", args, Work::Requests, Mix::Get),
        BenchCommand::Exists(args) => ("exists", args, Work::Requests, Mix::Exists),
        BenchCommand::Set(args) => ("set", args, Work::Requests, Mix::Set),
        BenchCommand::Create(args) => ("create", args, Work::Requests, Mix::Create),
        BenchCommand::Mixed(args) => {
            let mix = Mix::Mixed {
                read_percent: args.read_percent,
            };
            ("mixed", &args.load, Work::Requests, mix)
        }
        BenchCommand::Multi(args) => (
            "multi",
            &args.load,
            Work::Requests,
            Mix::Multi { size: args.size },
        ),
        BenchCommand::Watch(args) => ("watch", args, Work::FanOut, Mix::Set),
        BenchCommand::Connect(args) => ("connect", args, Work::Storm, Mix::Get),
        BenchCommand::Idle(args) => ("idle", args, Work::Idle, Mix::Get),
        BenchCommand::Fill(args) => return fill(args),
        BenchCommand::Clean(args) => return clean(args),
        BenchCommand::Echo(args) => return echo::run(args).map(|()| ExitCode::SUCCESS),
        BenchCommand::Fsync(args) => return fsync(args),
    };
    let mut job = job(args, work, mix);
    if work == Work::Idle {
        // What counts is what they cost when all are there, and that is at once.
        job.warmup = std::time::Duration::ZERO;
    }
    let sides = measure(&job, args, args.keep)?;
    print(name, args, &job, &sides);
    Ok(exit_code(&sides))
}

/// The job that the arguments describe.
fn job(args: &LoadArgs, work: Work, mix: Mix) -> Job {
    let needs_keys = work == Work::Requests && mix.uses_keys();
    let plan = LoadPlan {
        mix,
        root: target::root(args),
        payload: Payload::new(args.payload as usize),
        keys: if needs_keys { args.keys } else { 1 },
        sessions: args.sessions,
        pipeline: args.pipeline,
    };
    let timeout_ms = args.session_timeout.as_millis();
    Job {
        work,
        plan: Arc::new(plan),
        handshake: Arc::new(Handshake {
            timeout_ms: i32::try_from(timeout_ms).unwrap_or(i32::MAX),
            connect_timeout: target::CONNECT_TIMEOUT,
            ..Handshake::default()
        }),
        threads: args.threads.min(args.sessions),
        warmup: args.warmup,
        duration: args.duration,
        ops: args.ops,
        until_done: args.ops.is_some(),
    }
}

fn measure(job: &Job, args: &LoadArgs, keep: bool) -> Result<Vec<Side>> {
    // Every session is a file; what the system does not allow shows when one cannot be opened.
    let _ = rlimit::increase_nofile_limit(u64::from(args.sessions) + FILES_BESIDES);
    let mut targets = vec![Target::new(&args.server, args.pid)?];
    let mut rounds = 1;
    if !args.versus.is_empty() {
        targets.push(Target::new(&args.versus, args.versus_pid)?);
        rounds = args.rounds;
    }
    compare::run(job, &targets, Schedule { rounds, keep })
}

/// Open files that are no sessions.
const FILES_BESIDES: u64 = 256;

fn fill(args: &FillArgs) -> Result<ExitCode> {
    let mix = Mix::Fill {
        znodes: args.znodes,
        breadth: args.breadth,
    };
    let load = &args.load;
    let mut job = job(load, Work::Requests, mix);
    job.warmup = std::time::Duration::ZERO;
    job.until_done = true;
    let sides = measure(&job, load, true)?;
    print("fill", load, &job, &sides);
    if !load.json {
        println!(
            "the znodes are below {0}: zoarium bench clean --root {0}",
            job.plan.root
        );
    }
    Ok(exit_code(&sides))
}

fn clean(args: &CleanArgs) -> Result<ExitCode> {
    let target = Target::new(std::slice::from_ref(&args.server), None)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(error::BenchError::io("start a runtime"))?;
    let roots = match &args.root {
        Some(root) => vec![root.clone()],
        None => runtime.block_on(target.leftovers())?,
    };
    for root in roots {
        let deleted = runtime.block_on(target.clean(&root))?;
        println!("{root}: {deleted} znodes deleted");
    }
    Ok(ExitCode::SUCCESS)
}

fn fsync(args: &FsyncArgs) -> Result<ExitCode> {
    let result = fsync::run(args)?;
    match args.json {
        true => println!("{:#}", report::fsync_json(args, &result)),
        false => print!("{}", report::fsync_text(args, &result)),
    }
    Ok(ExitCode::SUCCESS)
}

fn print(name: &str, args: &LoadArgs, job: &Job, sides: &[Side]) {
    let plan = &job.plan;
    let seconds = |duration: std::time::Duration| duration.as_secs_f64();
    let measured = match (job.until_done, job.ops) {
        (true, Some(ops)) => format!("{ops} operations"),
        (true, None) => "until done".to_owned(),
        _ => format!("{} s", seconds(job.duration)),
    };
    let title = format!(
        "{name}: {} sessions x {} in flight, {} B, {measured} after {} s of warmup, {} thread(s)",
        plan.sessions,
        plan.pipeline,
        args.payload,
        seconds(job.warmup),
        job.threads,
    );
    let load = json!({
        "workload": name,
        "mix": format!("{:?}", plan.mix),
        "sessions": plan.sessions,
        "pipeline": plan.pipeline,
        "payload_bytes": args.payload,
        "keys": plan.keys,
        "warmup_seconds": seconds(job.warmup),
        "threads": job.threads,
    });
    let report = Report { title, load, sides };
    match args.json {
        true => println!("{:#}", report.json()),
        false => print!("{}", report.text()),
    }
}

fn exit_code(sides: &[Side]) -> ExitCode {
    match sides.iter().all(|side| side.stats().is_clean()) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
