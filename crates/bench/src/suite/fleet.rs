//! Servers that the suite starts, kills, restarts and stops.

use std::collections::BTreeSet;
use std::fs::File;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use super::args::SuiteArgs;
use super::events::figures::EventKind;
use crate::error::{BenchError, Result};
use crate::report::progress::Progress;
use crate::rounds::load;
use crate::rounds::threads::{runtime, spawn};
use crate::session::close_session;
use crate::target::Target;

/// Time limit for a server to serve a read after its start. A server with many znodes first loads
/// them.
const START_MAX: Duration = Duration::from_secs(600);
/// Time for a server to stop on request, after which it is killed.
const STOP_MAX: Duration = Duration::from_secs(60);
/// Interval between checks of a server that starts or stops.
const POLL: Duration = Duration::from_millis(5);
/// Exit code of a process that ^C has ended, as in shells.
const INTERRUPTED: i32 = 130;

/// Servers that the suite has started.
#[derive(Debug)]
pub(super) struct Fleet {
    /// Servers of each side. `None` for a side that the suite did not start.
    pub(super) sides: Vec<Option<Members>>,
    pub(super) runtime: Runtime,
}

/// Servers of one side.
#[derive(Debug)]
pub(super) struct Members {
    pub(super) members: Vec<Member>,
    /// Settings of connections to the servers.
    pub(super) target: Target,
}

/// Server that is stopped when this value is dropped.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) address: Arc<str>,
    command: String,
    /// File for the server's output.
    log: Option<PathBuf>,
    child: Option<Child>,
    running: Running,
}

/// Ids of the processes that must be stopped when a signal ends this process.
type Running = Arc<Mutex<BTreeSet<u32>>>;

impl Fleet {
    /// Starts the servers that have a command, and waits until all of them serve reads.
    ///
    /// # Errors
    /// If the number of commands is wrong, or a server does not serve.
    pub(super) fn start(args: &SuiteArgs) -> Result<Self> {
        let runtime = runtime()?;
        let running = Running::default();
        let targets = load::targets(&args.servers)?;
        let commands = [
            ("--start", &args.events.start),
            ("--versus-start", &args.events.versus_start),
        ];
        let mut sides = Vec::new();
        for (target, (option, commands)) in targets.into_iter().zip(commands) {
            let side = option.trim_start_matches('-');
            sides.push(match commands.len() {
                0 => None,
                count if count == target.servers.len() => {
                    let log = |number| Some(args.dir.as_ref()?.join(format!("{side}-{number}.log")));
                    Some(Members::new(target, commands, log, &running))
                }
                count => {
                    let servers = target.servers.len();
                    return Err(BenchError::Argument(format!(
                        "the number of {option} options ({count}) differs from the number of servers ({servers}); use the option once per server, or not at all"
                    )));
                }
            });
        }
        let mut fleet = Self { sides, runtime };
        if fleet.sides.iter().any(Option::is_some) {
            stop_on_signals(running)?;
        }
        let progress = Progress::within("start");
        for side in fleet.sides.iter_mut().flatten() {
            progress.stage(&side.target.name());
            for member in &mut side.members {
                member.start_first()?;
            }
            side.wait_until_all_serve(&fleet.runtime)?;
        }
        Ok(fleet)
    }

    /// Restarts the started servers. Otherwise, znodes would reuse memory that loads have freed,
    /// and the growth of the memory would not show the size of the znodes.
    pub(super) fn start_anew(&mut self) -> Result<()> {
        let progress = Progress::within("restart");
        for side in self.sides.iter_mut().flatten() {
            progress.stage(&side.target.name());
            side.members.iter_mut().for_each(Member::stop);
            side.members.iter_mut().try_for_each(Member::start)?;
            side.wait_until_all_serve(&self.runtime)?;
        }
        Ok(())
    }

    /// Measures, in turns, each started side whose number of members satisfies `is_meant`. Returns
    /// the measured seconds of each side. The list of a side that is not measured is empty.
    pub(super) fn in_turns(
        &mut self,
        kind: EventKind,
        count: u32,
        is_meant: impl Fn(usize) -> bool,
        measure: impl Fn(&mut Members, &Runtime) -> Result<Duration>,
    ) -> Result<Vec<Vec<f64>>> {
        let progress = Progress::within(kind.name());
        let mut seconds: Vec<Vec<f64>> = vec![Vec::new(); self.sides.len()];
        for turn in 1..=count {
            for (side, seconds) in self.sides.iter_mut().zip(&mut seconds) {
                if let Some(side) = side.as_mut().filter(|side| is_meant(side.members.len())) {
                    progress.stage(&format!("{}: {turn} of {count}", side.target.name()));
                    progress.counting(turn - 1, count);
                    seconds.push(measure(side, &self.runtime)?.as_secs_f64());
                }
            }
        }
        Ok(seconds)
    }

    /// Returns a copy of the arguments with the ids of the currently running processes.
    pub(super) fn watched(&self, args: &SuiteArgs) -> SuiteArgs {
        let mut args = args.clone();
        let pids = [&mut args.servers.pid, &mut args.servers.versus_pid];
        for (pids, side) in pids.into_iter().zip(&self.sides) {
            if let Some(side) = side {
                *pids = side.members.iter().filter_map(Member::pid).collect();
            }
        }
        args
    }

    /// Stops all servers.
    pub(super) fn stop(&mut self) {
        let members = self.sides.iter_mut().flatten();
        for member in members.flat_map(|side| &mut side.members) {
            member.stop();
        }
    }
}

/// Starts a thread that stops the servers and this process after a signal.
fn stop_on_signals(running: Running) -> Result<()> {
    let runtime = runtime()?;
    let (mut interrupted, mut told_to_end) = {
        let _entered = runtime.enter();
        let listen = |kind| signal(kind).map_err(BenchError::io("listen for signals"));
        (
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
        )
    };
    spawn("signals", move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupted.recv() => (),
                _ = told_to_end.recv() => (),
            }
        });
        for pid in &*running.lock() {
            terminate_process(*pid);
        }
        std::process::exit(INTERRUPTED);
    })
}

fn terminate_process(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // An error means that the server has already ended.
        let _ = kill_process(pid, Signal::TERM);
    }
}

impl Members {
    fn new(
        target: Target,
        commands: &[String],
        log: impl Fn(usize) -> Option<PathBuf>,
        running: &Running,
    ) -> Self {
        let members = target.servers.iter().zip(commands).enumerate();
        let members = members.map(|(index, (address, command))| Member {
            address: Arc::clone(address),
            command: command.clone(),
            log: log(index + 1),
            child: None,
            running: Arc::clone(running),
        });
        Self {
            members: members.collect(),
            target,
        }
    }

    /// Waits until each server serves a read.
    pub(super) fn wait_until_all_serve(&mut self, runtime: &Runtime) -> Result<()> {
        for member in &mut self.members {
            member.wait_until_it_serves(&self.target, runtime, Instant::now())?;
        }
        Ok(())
    }
}

impl Member {
    pub(super) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Starts the server with a new file for its output. Refuses to start it while another program
    /// listens on its address, because that program would be measured instead.
    fn start_first(&mut self) -> Result<()> {
        if TcpStream::connect(&*self.address).is_ok() {
            let address = &self.address;
            return Err(BenchError::Argument(format!(
                "{address} is in use: stop the process that listens on it, so that the suite can start the server"
            )));
        }
        if let Some(log) = &self.log {
            File::create(log).map_err(BenchError::io(format!("create {}", log.display())))?;
        }
        self.start()
    }

    /// Starts the server without waiting for it.
    pub(super) fn start(&mut self) -> Result<()> {
        let mut command = Command::new("sh");
        // The process of the shell becomes the process of the server.
        command.arg("-c").arg(format!("exec {}", self.command));
        command.stdin(Stdio::null());
        for output in [Command::stdout, Command::stderr] {
            output(&mut command, self.output()?);
        }
        let child = command.spawn();
        let child = child.map_err(BenchError::io(format!("run {:?}", self.command)))?;
        self.running.lock().insert(child.id());
        self.child = Some(child);
        Ok(())
    }

    fn output(&self) -> Result<Stdio> {
        let Some(log) = &self.log else {
            return Ok(Stdio::null());
        };
        let file = File::options().append(true).open(log);
        file.map(Stdio::from)
            .map_err(BenchError::io(format!("open {}", log.display())))
    }

    /// Waits until the server serves a read. Returns the time since `began`.
    pub(super) fn wait_until_it_serves(
        &mut self,
        target: &Target,
        runtime: &Runtime,
        began: Instant,
    ) -> Result<Duration> {
        loop {
            let served = runtime.block_on(target.read_root(&self.address));
            let ended = self.child.as_mut().map(Child::try_wait);
            if let Some(Ok(Some(status))) = ended {
                return Err(self.failure(&format!("ended with {status}")));
            }
            match served {
                Ok(mut connection) => {
                    let took = began.elapsed();
                    runtime.block_on(close_session(&mut connection));
                    return Ok(took);
                }
                Err(error) if began.elapsed() > START_MAX => {
                    let limit = START_MAX.as_secs();
                    return Err(
                        self.failure(&format!("does not serve reads after {limit} s ({error})"))
                    );
                }
                Err(_) => thread::sleep(POLL),
            }
        }
    }

    fn failure(&self, what: &str) -> BenchError {
        let see = match &self.log {
            Some(log) => format!("see {}", log.display()),
            None => "use --dir to store its output".to_owned(),
        };
        BenchError::Argument(format!(
            "{}: {:?} {what}; {see}",
            self.address, self.command
        ))
    }

    /// Kills the server, as in a crash, and waits for its end.
    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
            self.running.lock().remove(&child.id());
        }
    }

    /// Asks the server to stop, and waits for its end. Kills the server if stopping takes too long.
    pub(super) fn stop(&mut self) {
        let Some(child) = &mut self.child else { return };
        terminate_process(child.id());
        let began = Instant::now();
        while matches!(child.try_wait(), Ok(None)) && began.elapsed() < STOP_MAX {
            thread::sleep(POLL);
        }
        // If the process has already ended, this only removes it from `running`.
        self.kill();
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.stop();
    }
}
