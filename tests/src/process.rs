//! A child process with its output in a file.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::wait::wait_until;

/// A child whose output goes to a file; killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` without input, its output appended to `log`.
    ///
    /// # Errors
    /// Whatever opening the log or starting the program gives.
    pub fn spawn(command: &mut Command, log: &Path) -> std::io::Result<Process> {
        let output = OpenOptions::new().create(true).append(true).open(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        Ok(Process {
            child,
            log: log.to_path_buf(),
        })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Everything it has printed so far.
    pub fn log(&self) -> String {
        read_log(&self.log)
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("ask after a child of ours")
    }

    /// How it ended, waiting up to `limit` for that.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        wait_until(limit, || self.ended())
    }

    /// Sends it `signal`; nothing happens when it has ended and was waited for.
    pub fn signal(&mut self, signal: Signal) {
        if self.ended().is_some() {
            return;
        }
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.expect("a process id is a positive number");
        kill_process(pid, signal).expect("signal a child of ours");
    }

    /// Kills it at once (SIGKILL) and waits for its end.
    pub fn kill(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What was written to a log file so far; an unreadable one counts as empty.
pub(crate) fn read_log(path: &Path) -> String {
    std::fs::read(path)
        .map(|text| String::from_utf8_lossy(&text).into_owned())
        .unwrap_or_default()
}

/// The end of a long text.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines
        .get(lines.len().saturating_sub(count)..)
        .unwrap_or_default()
        .join("\n")
}
