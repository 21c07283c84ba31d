//! Processes of contenders, two each for this crate, Curator and kazoo.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;
use tests::{Missing, Process, java_program, python_with_kazoo, source_dir};

use super::{RECORDS_OF_A_TURN, SESSION_TIMEOUT, ours};

/// Number of processes of each kind.
const OF_EACH: usize = 2;
/// Number of log lines to show for a process that has failed.
const LOG_SHOWN: usize = 40;

/// Programs of the other libraries.
pub(super) struct Programs {
    curator: Vec<PathBuf>,
    kazoo: Vec<PathBuf>,
}

impl Programs {
    pub(super) fn find() -> Result<Programs, Missing> {
        Ok(Programs {
            curator: java_program("CuratorFenced", &[], &[])?,
            kazoo: vec![python_with_kazoo()?, source_dir("python").join("fenced.py")],
        })
    }

    /// Starts all contenders, each in a separate process.
    pub(super) fn start(&self, servers: &str) -> Vec<Contender> {
        let milliseconds = SESSION_TIMEOUT.as_millis().to_string();
        let seconds = SESSION_TIMEOUT.as_secs().to_string();
        let theirs = |program: &[PathBuf], timeout: &str| {
            let mut command = Command::new(&program[0]);
            let count = RECORDS_OF_A_TURN.to_string();
            command.args(&program[1..]).args([servers, timeout, &count]);
            command
        };
        let mut contenders = Vec::new();
        for _ in 0..OF_EACH {
            contenders.extend([
                Contender::start(ours::command(servers)),
                Contender::start(theirs(&self.curator, &milliseconds)),
                Contender::start(theirs(&self.kazoo, &seconds)),
            ]);
        }
        contenders
    }
}

/// Process of a contender, running or stopped.
pub(super) struct Contender {
    command: Command,
    process: Process,
    paused_until: Option<Instant>,
    home: TempDir,
}

impl Contender {
    fn start(mut command: Command) -> Contender {
        let home = tempfile::tempdir().unwrap();
        Contender {
            process: Process::spawn(&mut command, &home.path().join("log")).unwrap(),
            command,
            paused_until: None,
            home,
        }
    }

    /// Kills the process with SIGKILL and restarts it. Its old sessions exist until their timeouts.
    pub(super) fn kill_and_start(&mut self) {
        self.process.kill();
        let log = self.home.path().join("log");
        self.process = Process::spawn(&mut self.command, &log).unwrap();
        self.paused_until = None;
    }

    /// Stops the process with SIGSTOP for at least `time`.
    pub(super) fn pause(&mut self, time: Duration) {
        self.process.pause();
        self.paused_until = Some(Instant::now() + time);
    }

    pub(super) fn resume(&mut self) {
        if self.paused_until.take().is_some() {
            self.process.signal(Signal::CONT);
        }
    }

    /// Continues the process after its pause. Fails if the process has ended by itself.
    pub(super) fn see_to(&mut self) {
        if self.paused_until.is_some_and(|end| end <= Instant::now()) {
            self.resume();
        }
        if let Some(status) = self.process.ended() {
            self.fail(&format!("ended with {status}"));
        }
    }

    /// Waits until the process has ended successfully.
    pub(super) fn wait_for_end(&mut self, limit: Duration) {
        match self.process.wait(limit) {
            Some(status) if status.success() => {}
            Some(status) => self.fail(&format!("ended with {status}")),
            None => self.fail("does not end"),
        }
    }

    fn fail(&self, how: &str) {
        let log = self.process.log();
        let lines: Vec<&str> = log.lines().collect();
        let end = lines[lines.len().saturating_sub(LOG_SHOWN)..].join("\n");
        panic!("{:?} {how}:\n{end}", self.command);
    }
}
