//! Processes of contenders: ours, Curator's and kazoo's, two of each.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;
use tests::{Missing, Process, java_program, python_with_kazoo, source_dir};

use super::{RECORDS_OF_A_TURN, SESSION_TIMEOUT, ours};

/// Processes of each kind.
const OF_EACH: usize = 2;
/// Lines of its log that are shown when one of them has failed.
const LOG_SHOWN: usize = 40;

/// The programs of others.
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

    /// Starts all contenders, each in its process.
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

/// A process of contenders, which runs or stands still.
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

    /// SIGKILL; its sessions live on until they have timed out.
    pub(super) fn kill_and_start(&mut self) {
        self.process.kill();
        let log = self.home.path().join("log");
        self.process = Process::spawn(&mut self.command, &log).unwrap();
        self.paused_until = None;
    }

    /// SIGSTOP, for at least so long.
    pub(super) fn pause(&mut self, time: Duration) {
        self.process.signal(Signal::STOP);
        self.paused_until = Some(Instant::now() + time);
    }

    pub(super) fn resume(&mut self) {
        if self.paused_until.take().is_some() {
            self.process.signal(Signal::CONT);
        }
    }

    /// Lets it go on when its pause is over; nothing ends by itself.
    pub(super) fn see_to(&mut self) {
        if self.paused_until.is_some_and(|end| end <= Instant::now()) {
            self.resume();
        }
        if let Some(status) = self.process.ended() {
            self.fail(&format!("ended with {status}"));
        }
    }

    /// Waits until it has ended, which it does well.
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
