//! Single measurement: sessions are opened, warmed up, measured and closed.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use client::Handshake;
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, LocalSet};

use crate::error::{BenchError, Result};
use crate::report::progress::Progress;
use crate::rounds::process::{Memory, Process};
use crate::rounds::snapshots::{self, SnapshotResults};
use crate::rounds::stats::Stats;
use crate::session::control::{Control, Phase};
use crate::session::fan_out::Watched;
use crate::session::workload::LoadPlan;
use crate::session::{Context, Report, drive};
use crate::session::{fan_out, idle, locks, storm};
use crate::target::Target;

/// Work of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionWork {
    /// Sends requests and receives replies, in the mix that the plan defines.
    Requests,
    /// Watches znodes that an additional session changes.
    FanOut,
    /// Opens and closes sessions.
    Storm,
    /// Opens connections that the server refuses at the end of their handshake.
    Handshakes,
    /// Acquires and releases locks.
    Locks,
    /// Only sends pings.
    Idle,
}

/// Work, load and duration of a measurement.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) work: SessionWork,
    pub(crate) plan: Arc<LoadPlan>,
    pub(crate) handshake: Arc<Handshake>,
    pub(crate) threads: u32,
    pub(crate) warmup: Duration,
    pub(crate) duration: Duration,
    /// Number of operations to measure, instead of a duration.
    pub(crate) ops: Option<u64>,
    /// Whether the measurement ends when the sessions have no more work.
    pub(crate) until_done: bool,
    /// Maximum duration if answers during a snapshot are recorded separately. The measurement ends
    /// earlier if there are enough answers with and without a snapshot.
    pub(crate) snapshots: Option<Duration>,
}

impl Job {
    /// Returns the number of sessions to open. A fan-out has one additional session, which writes.
    fn sessions(&self) -> u32 {
        self.plan.sessions + u32::from(self.work == SessionWork::FanOut)
    }

    /// Returns the number of sessions that must finish to end the measurement before its time
    /// limit. In a fan-out, this is only the session that writes.
    fn workers(&self) -> u32 {
        match self.work {
            SessionWork::FanOut => 1,
            _ => self.plan.sessions,
        }
    }
}

/// Result of one measurement.
#[derive(Debug, Clone)]
pub(crate) struct Round {
    pub(crate) stats: Stats,
    pub(crate) elapsed: Duration,
    /// Results during snapshots, if requested.
    pub(crate) in_snapshots: SnapshotResults,
    /// CPU time of the server's processes during the measurement.
    pub(crate) server_cpu: Option<Duration>,
    /// CPU time of the generator during the measurement.
    pub(crate) own_cpu: Option<Duration>,
    /// Memory of the server's processes before the first session was opened.
    pub(crate) memory_before: Option<Memory>,
    /// Memory of the server's processes at the end.
    pub(crate) memory: Option<Memory>,
}

/// Maximum number of concurrent handshakes per thread.
const CONNECTING_MAX: usize = 64;
/// Interval between checks of the progress.
const POLL: Duration = Duration::from_millis(100);
/// Time without a single answer after which the run is aborted.
const STALL_MAX: Duration = Duration::from_secs(30);

/// Runs round number `number` of `job` against `target`.
pub(crate) fn run(job: &Job, target: &Target, number: u32, progress: &Progress) -> Result<Round> {
    let control = Arc::new(Control::new(job.ops));
    // The channel has capacity for all reports: each session sends one when it begins and one when
    // it ends.
    let (reports, inbox) = mpsc::sync_channel(job.sessions() as usize * 2);
    let memory_before = target.memory()?;
    let watched = Arc::new(Watched::by(job.plan.sessions, job.plan.keys));
    let mut threads = Vec::new();
    for index in 0..job.threads {
        let worker = Worker {
            job: job.clone(),
            servers: Arc::clone(&target.servers),
            control: Arc::clone(&control),
            round: number,
            index,
            reports: reports.clone(),
            watched: Arc::clone(&watched),
        };
        let builder = thread::Builder::new().name(format!("load-{index}"));
        let spawned = builder.spawn(move || worker.run());
        threads.push(spawned.map_err(BenchError::io("start a thread"))?);
    }
    drop(reports);
    let conductor = Conductor {
        job,
        target,
        control: &control,
        inbox,
        progress,
    };
    let measured = conductor.conduct();
    let end = if measured.is_ok() {
        Phase::Stopping
    } else {
        Phase::Aborting
    };
    control.enter(end);
    let (mut stats, mut apart) = (Stats::new(), Stats::new());
    for thread in threads {
        // A thread that panicked has printed the reason. In a release build, it has aborted the
        // process.
        if let Ok(own) = thread.join() {
            let own = own?;
            stats.add(&own.0);
            apart.add(&own.1);
        }
    }
    let round = measured?;
    let elapsed = round.in_snapshots.elapsed;
    Ok(Round {
        stats,
        in_snapshots: SnapshotResults {
            stats: apart,
            elapsed,
        },
        memory_before,
        ..round
    })
}

/// Control of a round's phases by the measuring thread.
struct Conductor<'a> {
    job: &'a Job,
    target: &'a Target,
    control: &'a Control,
    inbox: Receiver<Report>,
    progress: &'a Progress,
}

impl Conductor<'_> {
    fn conduct(&self) -> Result<Round> {
        self.wait_until_ready()?;
        if !self.job.warmup.is_zero() {
            self.control.enter(Phase::Warmup);
            self.wait(Some(self.job.warmup))?;
        }
        let own = Process::own().ok();
        let own_cpu = || own.map(Process::cpu_time).transpose();
        let server_cpu = || self.target.processes.cpu_time();
        let cpu_before = (server_cpu()?, own_cpu()?);
        let start = Instant::now();
        self.control.enter(Phase::Measuring);
        let mut in_snapshots = SnapshotResults::none();
        let elapsed = if let Some(limit) = self.job.snapshots {
            let processes = &self.target.processes;
            let watched =
                snapshots::watch(processes, self.control, &self.inbox, limit, self.progress)?;
            let (without, during) = watched.times();
            in_snapshots.elapsed = during;
            without
        } else {
            self.wait((!self.job.until_done).then_some(self.job.duration))?;
            start.elapsed()
        };
        let cpu_after = (server_cpu()?, own_cpu()?);
        let memory = self.target.memory()?;
        self.control.enter(Phase::Stopping);
        self.drain()?;
        Ok(Round {
            stats: Stats::new(),
            elapsed,
            in_snapshots,
            server_cpu: difference(cpu_after.0, cpu_before.0),
            own_cpu: difference(cpu_after.1, cpu_before.1),
            memory_before: None,
            memory,
        })
    }

    fn wait_until_ready(&self) -> Result<()> {
        let mut missing = self.job.sessions();
        let mut last_ready = Instant::now();
        while missing > 0 {
            match self.inbox.recv_timeout(POLL) {
                Ok(Report::Ready) => {
                    missing -= 1;
                    last_ready = Instant::now();
                    self.progress
                        .connecting(self.job.sessions() - missing, self.job.sessions());
                }
                Ok(Report::Failed(error)) => return Err(error),
                Ok(Report::Finished) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => stalled_since(last_ready)?,
            }
        }
        Ok(())
    }

    /// Waits until the sessions have no more work, but not longer than `duration`.
    fn wait(&self, duration: Option<Duration>) -> Result<()> {
        let start = Instant::now();
        let mut working = self.job.workers();
        let mut seen = (self.control.answers(), start);
        loop {
            let elapsed = start.elapsed();
            let left = duration.map_or(POLL, |duration| duration.saturating_sub(elapsed));
            if left.is_zero() {
                return Ok(());
            }
            match self.inbox.recv_timeout(left.min(POLL)) {
                Ok(Report::Failed(error)) => return Err(error),
                Ok(Report::Finished) if working <= 1 => return Ok(()),
                Ok(Report::Finished) => working -= 1,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Ok(Report::Ready) | Err(RecvTimeoutError::Timeout) => {}
            }
            let answers = self.control.answers();
            if answers != seen.0 {
                seen = (answers, Instant::now());
            } else if self.job.work != SessionWork::Idle {
                stalled_since(seen.1)?;
            }
            self.progress.measuring(elapsed, duration, answers);
        }
    }

    /// Waits until all sessions have received their pending answers and ended.
    fn drain(&self) -> Result<()> {
        let start = Instant::now();
        loop {
            match self.inbox.recv_timeout(POLL) {
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => stalled_since(start)?,
                Ok(_) => {}
            }
        }
    }
}

fn difference(after: Option<Duration>, before: Option<Duration>) -> Option<Duration> {
    Some(after?.saturating_sub(before?))
}

fn stalled_since(last: Instant) -> Result<()> {
    if last.elapsed() > STALL_MAX {
        return Err(BenchError::Stalled(STALL_MAX.as_secs()));
    }
    Ok(())
}

/// Thread with its share of the sessions.
struct Worker {
    job: Job,
    servers: Arc<[Arc<str>]>,
    control: Arc<Control>,
    round: u32,
    index: u32,
    reports: SyncSender<Report>,
    watched: Arc<Watched>,
}

impl Worker {
    /// Runs the sessions. Returns the ordinary statistics, and the statistics during snapshots.
    fn run(self) -> Result<(Stats, Stats)> {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        // The runtime checks the readiness of sockets only after it has run many ready sessions.
        // Thus one epoll_wait serves many sessions.
        let runtime = builder.enable_all().event_interval(61).build();
        let runtime = runtime.map_err(BenchError::io("start a runtime"))?;
        let stats = Rc::new(RefCell::new(Stats::new()));
        let apart = Rc::new(RefCell::new(Stats::new()));
        LocalSet::new().block_on(&runtime, self.work(&stats, &apart));
        // The statistics are moved out, because after an abort the remaining tasks also refer to
        // them.
        Ok((stats.replace(Stats::new()), apart.replace(Stats::new())))
    }

    async fn work(self, stats: &Rc<RefCell<Stats>>, apart: &Rc<RefCell<Stats>>) {
        let context = Context {
            control: Arc::clone(&self.control),
            plan: Arc::clone(&self.job.plan),
            servers: Arc::clone(&self.servers),
            handshake: Arc::clone(&self.job.handshake),
            round: self.round,
            stats: Rc::clone(stats),
            apart: Rc::clone(apart),
            reports: self.reports,
            connecting: Rc::new(Semaphore::new(CONNECTING_MAX)),
        };
        let mut tasks = JoinSet::new();
        let sessions = self.job.sessions();
        for session in (self.index..sessions).step_by(self.job.threads as usize) {
            let watched = Arc::clone(&self.watched);
            tasks.spawn_local(one_session(
                self.job.work,
                context.clone(),
                session,
                watched,
            ));
        }
        drop(context);
        let all = async { while tasks.join_next().await.is_some() {} };
        tokio::select! {
            () = all => {}
            () = self.control.reached(Phase::Aborting) => {}
        }
    }
}

async fn one_session(work: SessionWork, context: Context, session: u32, watched: Arc<Watched>) {
    // These kinds of work open their own connections.
    if let SessionWork::Storm | SessionWork::Handshakes = work {
        context.report(Report::Ready);
        return match work {
            SessionWork::Storm => storm::storm(&context, session).await,
            _ => storm::handshakes(&context, session).await,
        };
    }
    let connection = match context.open(session).await {
        Ok(connection) => connection,
        Err(error) => return context.report(Report::Failed(error)),
    };
    context.report(Report::Ready);
    match work {
        SessionWork::Requests => drive(&context, session, connection).await,
        SessionWork::FanOut if session == context.plan.sessions => {
            fan_out::write(&context, &watched, connection).await;
        }
        SessionWork::FanOut => fan_out::watch(&context, session, &watched, connection).await,
        SessionWork::Locks => locks::contend(&context, session, connection).await,
        SessionWork::Idle | SessionWork::Storm | SessionWork::Handshakes => {
            idle::hold(&context, session, connection).await;
        }
    }
}
