//! Runs a foreign client program through the common scenario.
//!
//! The program is run as `<program> HOST:PORT` and prints a line for each action:
//!
//! | Line | Meaning |
//! |---|---|
//! | `step NAME` | the step of that name begins; the one before it has passed |
//! | `ask REQUEST` | it waits for a line `done` on its input, after REQUEST was carried out |
//! | `failed REASON` | an expectation did not hold; the program ends with a non-zero code |
//! | `passed` | all steps passed; the program ends with code 0 |
//!
//! Requests:
//! - `restart` ends the server (SIGTERM) and starts it again.
//! - `crash` does this with SIGKILL.
//! - `hold PATH` runs `<program> HOST:PORT hold PATH`, a second client that creates the ephemeral
//!   znode PATH with a short session timeout, prints `holding`, and then stays connected.
//! - `kill-holder` kills that client (SIGKILL), so that no client closes its session.
//! - `stranger PATH` lets a client without an identity read PATH over a plain connection. The
//!   server must refuse this.
//!
//! Run as `<program> HOST:PORT protected SCHEME:ID`, it executes [`PROTECTED_STEPS`] instead, with
//! a znode whose ACL contains only SCHEME:ID. If SCHEME is `digest`, it authenticates as
//! `bob:secret`. Otherwise its connection already has that identity.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use proto::ErrorCode;

use crate::process::{last_lines, read_log};
use crate::raw_session::RawSession;
use crate::requests::get_data;
use crate::server::Server;
use crate::wait::wait_until;

/// The steps of every scenario, in order.
pub const COMMON_STEPS: [&str; 13] = [
    "connect",
    "create-read",
    "versions",
    "children",
    "sequence",
    "ephemeral-closed",
    "ephemeral-expired",
    "watches",
    "multi",
    "acl",
    "restart",
    "crash",
    "close",
];

/// The steps of every program that is run with `protected`, in order.
pub const PROTECTED_STEPS: [&str; 4] = ["connect", "protected", "restart", "close"];

/// Time limit for a whole scenario.
const SCENARIO_LIMIT: Duration = Duration::from_secs(180);
/// Lines of a client's own output that a failed test shows.
const MESSAGES_SHOWN: usize = 60;

/// A client program, with the steps in addition to the common ones.
#[derive(Debug)]
pub struct Scenario {
    /// The program and its leading arguments.
    pub program: Vec<PathBuf>,
    /// Names of the additional steps, in order, executed after `acl`.
    pub further_steps: &'static [&'static str],
}

impl Scenario {
    /// Runs the program with the server. Panics unless it executed every step and passed, and its
    /// sessions left nothing in the server.
    pub fn drive(&self, server: &mut Server) {
        let arguments = [server.address()];
        self.drive_with(server, &arguments, &self.all_steps());
    }

    /// Runs the program with `protected` and the server at `address`, one of its ports. Panics
    /// unless it executed every step and passed, and left nothing. `entry` is the identity in the
    /// ACL.
    pub fn drive_protected(&self, server: &mut Server, address: &str, entry: &str) {
        let arguments = [address, "protected", entry].map(str::to_owned);
        self.drive_with(server, &arguments, &PROTECTED_STEPS);
    }

    fn drive_with(&self, server: &mut Server, arguments: &[String], steps: &[&str]) {
        let errors = tempfile::NamedTempFile::new().expect("make a file for a client's messages");
        let mut run = Run {
            client: Client::start(&self.program, arguments, errors.path()),
            holder: None,
            steps: Vec::new(),
            errors: errors.path(),
        };
        let deadline = Instant::now() + SCENARIO_LIMIT;
        loop {
            let line = run.client.next_line(deadline);
            let Some(line) = line else {
                run.fail("ended early or took too long")
            };
            match line.split_once(' ').unwrap_or((&line, "")) {
                ("step", name) => run.steps.push(name.to_owned()),
                ("ask", request) => self.carry_out(request, server, &mut run, deadline),
                ("failed", reason) => run.fail(reason),
                ("passed", _) => break,
                // Some libraries print additional lines.
                _ => {}
            }
        }
        run.expect_end(deadline);
        assert_eq!(run.steps, steps, "the program skipped a step");
        drop(run);
        server.wait_until_idle();
    }

    fn all_steps(&self) -> Vec<&'static str> {
        let after_acl = COMMON_STEPS
            .iter()
            .position(|step| *step == "acl")
            .map_or(0, |at| at + 1);
        let (first, last) = COMMON_STEPS.split_at(after_acl);
        [first, self.further_steps, last].concat()
    }

    fn carry_out(&self, request: &str, server: &mut Server, run: &mut Run<'_>, limit: Instant) {
        match request.split_once(' ').unwrap_or((request, "")) {
            ("restart", _) => server.restart(),
            ("crash", _) => server.crash_and_restart(),
            ("hold", path) => {
                let arguments = [server.address(), "hold".to_owned(), path.to_owned()];
                let holder = Client::start(&self.program, &arguments, run.errors);
                while let Some(line) = holder.next_line(limit) {
                    if line == "holding" {
                        run.holder = Some(holder);
                        run.client.say("done");
                        return;
                    }
                }
                run.fail("the second client did not come to hold its node");
            }
            ("kill-holder", _) => run.holder = None,
            ("stranger", path) => refuse_stranger(server, path),
            _ => run.fail(&format!("unknown request {request}")),
        }
        run.client.say("done");
    }
}

fn refuse_stranger(server: &Server, path: &str) {
    let session = RawSession::open(&server.address(), None, 10_000);
    let mut session = session.expect("a session of somebody else");
    let answer = session.call(&get_data(path)).expect("an answer");
    assert_eq!(answer.err, ErrorCode::NoAuth.code(), "{path}");
    session.close().expect("the end of the session");
}

/// A running scenario.
struct Run<'a> {
    client: Client,
    holder: Option<Client>,
    steps: Vec<String>,
    errors: &'a Path,
}

impl Run<'_> {
    fn fail(&self, reason: &str) -> ! {
        let messages = last_lines(&read_log(self.errors), MESSAGES_SHOWN);
        panic!(
            "client failed in step {:?}: {reason}\nits messages:\n{messages}",
            self.steps.last()
        );
    }

    fn expect_end(&mut self, deadline: Instant) {
        let left = deadline.saturating_duration_since(Instant::now());
        let child = &mut self.client.child;
        match wait_until(left, || child.try_wait().transpose()) {
            Some(Ok(status)) if status.success() => {}
            ended => self.fail(&format!("said that it passed, then {ended:?}")),
        }
    }
}

/// A client process whose output is read line by line. Dropping it kills the process.
struct Client {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Client {
    fn start(program: &[PathBuf], arguments: &[String], errors: &Path) -> Client {
        let errors = std::fs::OpenOptions::new().append(true).open(errors);
        let (name, leading) = program.split_first().expect("a program has a name");
        let mut child = Command::new(name)
            .args(leading)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors.expect("open the file for a client's messages"))
            .spawn()
            .unwrap_or_else(|error| panic!("{} did not start: {error}", name.display()));
        let input = child.stdin.take().expect("the input is a pipe");
        let output = child.stdout.take().expect("the output is a pipe");
        let (sender, lines) = channel();
        // The thread ends with the program, or when the receiver is dropped.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Client {
            child,
            input,
            lines,
        }
    }

    /// Returns the next printed line, or `None` if it has ended or the deadline has passed.
    fn next_line(&self, deadline: Instant) -> Option<String> {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(left) {
            Ok(line) => Some(line.trim_end().to_owned()),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    fn say(&mut self, line: &str) {
        // The end of a client's output shows that it has ended.
        writeln!(self.input, "{line}")
            .and_then(|()| self.input.flush())
            .ok();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
