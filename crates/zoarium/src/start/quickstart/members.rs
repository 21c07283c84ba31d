//! Processes of the members.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::layout::{Layout, MemberLayout};
use crate::live::word;

/// Time limit for the answer to a four-letter word.
const WORD_TIMEOUT: Duration = Duration::from_secs(1);

/// Time for the members to end after SIGTERM, before they are killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Time between two checks of a process that is about to end.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Number of lines from a member's log that an error message shows.
const LOG_LINES_SHOWN: usize = 5;

/// Processes of the members. They are stopped when this value is dropped.
#[derive(Debug)]
pub(super) struct Members(Vec<Member>);

#[derive(Debug)]
struct Member {
    id: usize,
    client: String,
    log: PathBuf,
    pid: u32,
    /// Process of the member; `None` after its end.
    process: Option<Child>,
}

impl Members {
    /// Starts a process for each member.
    ///
    /// # Errors
    /// If a process or its log file cannot be created.
    pub(super) fn start(layout: &Layout) -> Result<Self, String> {
        let program = std::env::current_exe();
        let program = program
            .map_err(|error| format!("cannot find the executable of this program: {error}"))?;
        let mut members = Self(Vec::with_capacity(layout.members.len()));
        for member in &layout.members {
            let process = start(&program, member)
                .map_err(|error| format!("cannot start member {}: {error}", member.id))?;
            members.0.push(Member {
                id: member.id,
                client: member.client.to_string(),
                log: member.log.clone(),
                pid: process.id(),
                process: Some(process),
            });
        }
        Ok(members)
    }

    /// Prints a line for each member whose process has ended since the last call.
    pub(super) fn report_ended(&mut self) {
        for member in &mut self.0 {
            if let Some(process) = &mut member.process
                && let Ok(Some(status)) = process.try_wait()
            {
                member.process = None;
                let (id, log) = (member.id, member.log.display());
                terminal::say!("Member {id} has ended ({status}); its log is {log}");
            }
        }
    }

    /// Returns whether every process has ended.
    pub(super) fn is_over(&self) -> bool {
        self.0.iter().all(|member| member.process.is_none())
    }

    /// Returns the roles of the members as reported by `srvr`, or `None` while a running member
    /// does not serve.
    pub(super) fn modes(&self) -> Option<Vec<String>> {
        let modes = self.0.iter().map(|member| match member.process {
            Some(_) => mode(&member.client),
            None => Some("ended".to_owned()),
        });
        modes.collect()
    }

    /// Returns the message for the user after all members have begun to serve.
    pub(super) fn announcement(&self, layout: &Layout, modes: &[String]) -> String {
        let mut text = String::from("\n");
        let rows = layout.members.iter().zip(modes).zip(&self.0);
        let _ = writeln!(
            text,
            "{:8}{:12}{:18}{:26}process",
            "member", "role", "clients", "console"
        );
        for ((member, mode), process) in rows {
            let (id, client, pid) = (member.id, member.client.to_string(), process.pid);
            let console = format!("http://{}/", member.admin);
            let _ = writeln!(text, "{id:<8}{mode:12}{client:18}{console:26}{pid}");
        }
        let connect_string = layout.connect_string();
        let (Some(last), Some(process)) = (layout.members.last(), self.0.last()) else {
            return text;
        };
        let (id, pid, config) = (last.id, process.pid, last.config.display());
        let _ = writeln!(
            text,
            "\nOpen a shell:         zoarium cli -server {connect_string}"
        );
        if layout.members.len() > 2 {
            let _ = writeln!(
                text,
                "Kill member {id}:        kill -9 {pid}     (the others continue)"
            );
            let _ = writeln!(text, "Start it again:       zoarium server {config}");
        }
        let _ = writeln!(text, "Stop all members:     Ctrl-C\n");
        text
    }

    /// Returns the error for an ensemble whose processes have all ended before it served.
    pub(super) fn why_not_started(&self, layout: &Layout) -> String {
        let mut text = String::from("no member could be started");
        if let Some(member) = layout.members.first() {
            let log = fs::read_to_string(&member.log).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let shown = lines.len().saturating_sub(LOG_LINES_SHOWN);
            let _ = write!(text, "; the log of member {} ends with", member.id);
            for line in lines.iter().skip(shown) {
                let _ = write!(text, "\n  {line}");
            }
        }
        text
    }

    /// Stops all processes and waits until they have ended.
    pub(super) fn stop(&mut self) {
        for member in &self.0 {
            if member.process.is_some() {
                terminate(member.pid);
            }
        }
        let began = Instant::now();
        for member in &mut self.0 {
            if let Some(mut process) = member.process.take() {
                while matches!(process.try_wait(), Ok(None)) && began.elapsed() < STOP_TIMEOUT {
                    thread::sleep(STOP_CHECK_INTERVAL);
                }
                // If the process has already ended, both calls do nothing.
                let _ = process.kill();
                let _ = process.wait();
            }
        }
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        self.stop();
    }
}

fn start(program: &Path, member: &MemberLayout) -> io::Result<Child> {
    let log = File::create(&member.log)?;
    Command::new(program)
        .arg("server")
        .arg(&member.config)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
}

/// Returns the role of the server at this address, or `None` if it does not serve.
fn mode(address: &str) -> Option<String> {
    let mut answer = Vec::new();
    word::ask(address, "srvr", WORD_TIMEOUT, &mut answer).ok()?;
    let answer = String::from_utf8_lossy(&answer);
    let mode = answer.lines().find_map(|line| line.strip_prefix("Mode: "));
    mode.map(str::to_owned)
}

fn terminate(pid: u32) {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        // This fails only if the process has already ended.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}
