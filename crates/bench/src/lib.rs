//! `zoarium bench`: a load generator for every server with ZooKeeper's protocol.
//!
//! The generator shares its machine with the measured server, so it must be cheap. Requests are
//! copied from templates. Each session keeps its pipeline full, with one write and one read of the
//! socket per turn (`session`). Each thread is one event loop with separate statistics (`rounds`).
//! The clock is read once for a whole batch. `bench echo` and `bench fsync` measure the limits of
//! the machine itself (`machine`).
//!
//! A comparison (`rounds::compare`) runs two servers in turns, because the figures of two separate
//! runs on a shared machine are hardly comparable. Other programs use [`mod@measure`].

mod args;
mod error;
mod machine;
pub mod measure;
mod report;
mod rounds;
mod session;
mod suite;
mod target;
#[cfg(test)]
mod tests;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

pub use self::args::BenchArgs;
use self::args::{BenchCommand, CleanArgs, FillArgs, FsyncArgs, LoadArgs};
use self::error::Result;
use self::machine::{echo, fsync};
use self::report::progress::Progress;
use self::report::{Report, output};
use self::rounds::compare::{Schedule, Side};
use self::rounds::round::{Job, SessionWork};
use self::rounds::{compare, load, threads};
use self::session::storm;
use self::session::template::Payload;
use self::session::workload::{LoadPlan, Mix};
use self::target::Target;

/// Runs a benchmark. The exit code is 0 if every operation succeeded, and 1 if some failed or the
/// run was impossible. `profile` is the Cargo profile of this program, which the report of a suite
/// contains.
pub fn run(args: &BenchArgs, profile: &'static str) -> ExitCode {
    match dispatch(&args.command, profile) {
        Ok(code) => code,
        Err(error) => {
            terminal::complain!("zoarium bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: &BenchCommand, profile: &'static str) -> Result<ExitCode> {
    let of_requests = |args, mix| load(args, SessionWork::Requests, mix);
    match command {
        BenchCommand::Get(args) => of_requests(args, Mix::Get),
        BenchCommand::Exists(args) => of_requests(args, Mix::Exists),
        BenchCommand::Set(args) => of_requests(args, Mix::Set),
        BenchCommand::Create(args) => of_requests(args, Mix::Create),
        BenchCommand::Mixed(args) => {
            let read_percent = args.read_percent;
            of_requests(&args.load, Mix::Mixed { read_percent })
        }
        BenchCommand::Multi(args) => of_requests(&args.load, Mix::Multi { size: args.size }),
        BenchCommand::Watch(args) => {
            let mut load_args = args.load.clone();
            load_args.keys = args.watches;
            load(&load_args, SessionWork::FanOut, Mix::Set)
        }
        BenchCommand::Connect(args) => load(args, SessionWork::Storm, Mix::Get),
        BenchCommand::Handshake(args) => load(args, SessionWork::Handshakes, Mix::Get),
        BenchCommand::Lock(args) => {
            let mut load_args = args.load.clone();
            load_args.keys = args.locks;
            load(&load_args, SessionWork::Locks, Mix::Set)
        }
        BenchCommand::Idle(args) => load(args, SessionWork::Idle, Mix::Get),
        BenchCommand::Fill(args) => fill(args),
        BenchCommand::Clean(args) => clean(args),
        BenchCommand::Echo(args) => echo::run(args).map(|()| ExitCode::SUCCESS),
        BenchCommand::Fsync(args) => fsync(args),
        BenchCommand::Suite(args) => suite::run(args, profile),
    }
}

/// Runs the load that the arguments describe, and prints the report.
fn load(args: &LoadArgs, work: SessionWork, mix: Mix) -> Result<ExitCode> {
    let mut job = job(args, work, mix)?;
    if work == SessionWork::Idle {
        // Only the cost of all sessions together matters. It can be measured as soon as all are
        // open.
        job.warmup = Duration::ZERO;
    }
    let sides = measure(&job, args, args.keep)?;
    print(args, &job, &sides);
    Ok(exit_code(&sides))
}

/// Returns the job that the arguments describe.
fn job(args: &LoadArgs, work: SessionWork, mix: Mix) -> Result<Job> {
    let needs_keys = match work {
        SessionWork::Requests => mix.uses_keys(),
        SessionWork::Locks | SessionWork::FanOut => true,
        SessionWork::Storm | SessionWork::Handshakes | SessionWork::Idle => false,
    };
    let plan = LoadPlan {
        mix,
        root: target::root(args),
        payload: Payload::new(args.payload as usize),
        keys: if needs_keys { args.keys } else { 1 },
        breadth: None,
        sessions: args.sessions,
        pipeline: args.pipeline,
    };
    let handshake = args.servers.access.open()?.handshake();
    let session = (work == SessionWork::Handshakes).then(storm::unknown_session);
    Ok(Job {
        work,
        plan: Arc::new(plan),
        handshake: Arc::new(
            handshake
                .with_session_timeout(args.session_timeout)
                .with_connect_timeout(target::CONNECT_TIMEOUT)
                .with_session(session),
        ),
        threads: args.threads.min(args.sessions),
        warmup: args.warmup,
        duration: args.duration,
        ops: args.ops,
        until_done: args.ops.is_some(),
        snapshots: None,
    })
}

fn measure(job: &Job, args: &LoadArgs, keep: bool) -> Result<Vec<Side>> {
    // Every session needs a file descriptor. If the system does not permit enough of them, opening
    // a session fails later.
    let _ = rlimit::increase_nofile_limit(u64::from(args.sessions) + FILES_BESIDES);
    let targets = load::targets(&args.servers)?;
    let rounds = if args.servers.versus.is_empty() {
        1
    } else {
        args.rounds
    };
    compare::run(job, &targets, Schedule { rounds, keep }, &Progress::new())
}

/// Number of file descriptors reserved for uses other than sessions.
const FILES_BESIDES: u64 = 256;

fn fill(args: &FillArgs) -> Result<ExitCode> {
    let mix = Mix::Fill {
        from: 0,
        znodes: args.znodes,
        breadth: args.breadth,
    };
    let load = &args.load;
    let mut job = job(load, SessionWork::Requests, mix)?;
    job.warmup = Duration::ZERO;
    job.until_done = true;
    let sides = measure(&job, load, true)?;
    print(load, &job, &sides);
    if !load.json {
        let root = &job.plan.root;
        output::print(&format!(
            "the znodes are below {root}; `zoarium bench clean --root {root}` deletes them
"
        ));
    }
    Ok(exit_code(&sides))
}

fn clean(args: &CleanArgs) -> Result<ExitCode> {
    let target = Target::new(std::slice::from_ref(&args.server), &[], args.access.open()?)?;
    let runtime = threads::runtime()?;
    let roots = match &args.root {
        Some(root) => vec![root.clone()],
        None => runtime.block_on(target.leftovers())?,
    };
    for root in roots {
        let deleted = runtime.block_on(target.clean(&root))?;
        output::print(&format!("{root}: {deleted} znodes deleted\n"));
    }
    Ok(ExitCode::SUCCESS)
}

fn fsync(args: &FsyncArgs) -> Result<ExitCode> {
    let result = fsync::run(args)?;
    if args.json {
        output::print(&format!("{:#}\n", report::fsync_json(args, &result)));
    } else {
        output::print(&report::fsync_text(args, &result));
    }
    Ok(ExitCode::SUCCESS)
}

fn print(args: &LoadArgs, job: &Job, sides: &[Side]) {
    let plan = &job.plan;
    let what = description(job);
    let measured = match (job.until_done, job.ops) {
        (true, Some(ops)) => format!("{ops} operations"),
        (true, None) => "until all znodes exist".to_owned(),
        _ => format!("{} s", job.duration.as_secs_f64()),
    };
    let connections = args.servers.access.description();
    let title = format!(
        "{what}: {} sessions x {} in flight, {} B, {connections}, {measured} after {} s of warmup, {} thread(s)",
        plan.sessions,
        plan.pipeline,
        args.payload,
        job.warmup.as_secs_f64(),
        job.threads,
    );
    let load = json!({
        "workload": what,
        "sessions": plan.sessions,
        "pipeline": plan.pipeline,
        "payload_bytes": args.payload,
        "connections": connections,
        "keys": plan.keys,
        "warmup_seconds": job.warmup.as_secs_f64(),
        "threads": job.threads,
    });
    let growth_by = match (job.work, plan.mix) {
        (SessionWork::Idle, _) => Some(("session", plan.sessions.into())),
        (SessionWork::Requests, Mix::Fill { znodes, .. }) => Some(("znode", znodes.into())),
        _ => None,
    };
    let report = Report {
        title,
        load,
        sides,
        growth_by,
    };
    if args.json {
        output::print(&format!("{:#}\n", report.json()));
    } else {
        output::print(&report.text());
    }
}

/// Describes the load in words.
fn description(job: &Job) -> String {
    match (job.work, job.plan.mix) {
        (SessionWork::FanOut, _) => match job.plan.keys {
            1 => "watch fan-out".to_owned(),
            znodes => format!("watch fan-out, {znodes} znodes"),
        },
        (SessionWork::Storm, _) => "connect".to_owned(),
        (SessionWork::Handshakes, _) => "handshake".to_owned(),
        (SessionWork::Locks, _) => format!("lock, {} locks", job.plan.keys),
        (SessionWork::Idle, _) => "idle".to_owned(),
        (SessionWork::Requests, Mix::Get) => "get".to_owned(),
        (SessionWork::Requests, Mix::Exists) => "exists".to_owned(),
        (SessionWork::Requests, Mix::Set) => "set".to_owned(),
        (SessionWork::Requests, Mix::Create) => "create".to_owned(),
        (SessionWork::Requests, Mix::Mixed { read_percent }) => {
            format!("mixed, {read_percent} % get")
        }
        (SessionWork::Requests, Mix::Multi { size }) => format!("multi of {size} set"),
        (SessionWork::Requests, Mix::Children) => "getChildren".to_owned(),
        (SessionWork::Requests, Mix::Sequence) => "create of sequential znodes".to_owned(),
        (
            SessionWork::Requests,
            Mix::Fill {
                znodes, breadth, ..
            },
        ) => {
            format!("fill, {znodes} znodes, {breadth} below each parent")
        }
    }
}

fn exit_code(sides: &[Side]) -> ExitCode {
    if sides.iter().all(|side| side.stats().is_clean()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
