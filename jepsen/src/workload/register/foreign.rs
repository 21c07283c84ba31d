//! Registers that clients in other languages read and write.
//!
//! Each client is a process, which reads calls and prints replies, one per line. After an unknown
//! outcome, another process continues with another session.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use ::client::{Call, Error, OpCode, Result};
use serde_json::{Value, json};
use tests::{Missing, RegisterClient, register_program};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::{CALLS, KEYS, Place, Register, TOP, name};
use crate::history::Event;
use crate::verdict::Verdict;
use crate::workload::caller::{CALL_LIMIT, Caller, Outcome};
use crate::workload::steps::scratch;
use crate::workload::{Context, Work, Workload};

/// Timeout of a session.
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);
/// Time limit for the start of a process, such as a JVM on a busy machine, with its session.
const START_LIMIT: Duration = Duration::from_secs(40);
/// Time between two attempts to start a process.
const PAUSE: Duration = Duration::from_millis(200);
/// `ConnectionLoss` of KeeperException, for every unknown outcome.
const CONNECTION_LOSS: i32 = -4;

/// Registers with the clients of one library.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Foreign {
    name: &'static str,
    promise: &'static str,
    client: RegisterClient,
}

/// All libraries.
pub(crate) const KAZOO: Foreign = Foreign {
    name: "register-kazoo",
    promise: "the promise of `register`, for clients with kazoo",
    client: RegisterClient::Kazoo,
};
pub(crate) const JAVA: Foreign = Foreign {
    name: "register-java",
    promise: "the promise of `register`, for clients with Java's library",
    client: RegisterClient::Java,
};
pub(crate) const GO: Foreign = Foreign {
    name: "register-go",
    promise: "the promise of `register`, for clients with go-zookeeper/zk",
    client: RegisterClient::Go,
};

impl Workload for Foreign {
    fn name(&self) -> &'static str {
        self.name
    }

    fn promise(&self) -> &'static str {
        self.promise
    }

    fn has_registers(&self) -> bool {
        true
    }

    fn lack(&self) -> Option<String> {
        register_program(self.client).err().map(|missing| missing.0)
    }

    fn prepare(&self, context: Context) -> Work<'_> {
        Register.prepare(context)
    }

    fn run(&self, context: Context) -> Work<'_> {
        Box::pin(async move {
            let Ok(program) = self.program() else {
                return;
            };
            let mut client = Client::new(context, program);
            while client.caller.is_running() {
                client.step().await;
                tokio::time::sleep(client.caller.context().pace).await;
            }
        })
    }

    fn finish(&self, context: Context) -> Work<'_> {
        Register.finish(context)
    }

    fn check(&self, events: &[Event], steps_max: u64) -> Verdict {
        super::check(events, steps_max)
    }
}

impl Foreign {
    /// Returns the program, which [`lack`](Workload::lack) has built.
    fn program(self) -> std::result::Result<Vec<PathBuf>, Missing> {
        register_program(self.client)
    }
}

/// A running client program. It is killed with this value.
struct Session {
    _process: Child,
    calls: ChildStdin,
    replies: Lines<BufReader<ChildStdout>>,
}

impl Session {
    /// Starts the program, and waits until it has a session.
    async fn start(program: &[PathBuf], addresses: &str) -> Option<Session> {
        let (first, arguments) = program.split_first()?;
        let mut command = Command::new(first);
        command
            .args(arguments)
            .arg(addresses)
            .arg(SESSION_TIMEOUT.as_millis().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut process = command.spawn().ok()?;
        let (calls, replies) = (process.stdin.take()?, process.stdout.take()?);
        let mut session = Session {
            _process: process,
            calls,
            replies: BufReader::new(replies).lines(),
        };
        let line = session.replies.next_line().await;
        (line.ok()?? == "ready").then_some(session)
    }

    /// Executes a call, and returns the version and the data of the reply.
    async fn call(&mut self, call: &str) -> Result<(i64, Option<i64>)> {
        let line = format!("{call}\n");
        let sent = self.calls.write_all(line.as_bytes()).await;
        let reply = match sent {
            Ok(()) => self.replies.next_line().await.ok().flatten(),
            Err(_) => None,
        };
        let reply = reply.unwrap_or_default();
        let mut words = reply.split(' ');
        let code = match (
            words.next(),
            words.next().and_then(|word| word.parse().ok()),
        ) {
            (Some("ok"), Some(version)) => {
                let data = words.next().and_then(|word| word.parse().ok());
                return Ok((version, data));
            }
            (Some("refused"), Some(code)) => i32::try_from(code).unwrap_or(CONNECTION_LOSS),
            _ => CONNECTION_LOSS,
        };
        Err(Error::Op {
            call: Call {
                op: OpCode::SetData,
                path: None,
                server: Arc::from(reply),
            },
            code,
        })
    }
}

struct Client {
    caller: Caller,
    program: Vec<PathBuf>,
    session: Option<Session>,
    newest: [i64; KEYS],
    calls: u64,
}

impl Client {
    fn new(context: Context, program: Vec<PathBuf>) -> Client {
        Client {
            caller: Caller::new(context),
            program,
            session: None,
            newest: [0; KEYS],
            calls: 0,
        }
    }

    fn current(&self, key: usize) -> Place {
        Place::of(name(self.caller.context().lowest, self.calls / CALLS, key))
    }

    async fn step(&mut self) {
        if self.session.is_none() {
            let addresses = self.caller.context().members.join(",");
            let started = Session::start(&self.program, &addresses);
            let started = timeout(START_LIMIT, started).await;
            self.session = started.ok().flatten();
            if self.session.is_none() {
                tokio::time::sleep(PAUSE).await;
            }
            return;
        }
        if self.calls.is_multiple_of(CALLS) {
            self.newest = [0; KEYS];
            self.create().await;
        }
        let key = self.caller.rng.usize(..KEYS);
        let data = self.calls * self.caller.context().processes + self.caller.first();
        match self.caller.rng.u8(..4) {
            0 => self.read(key).await,
            1 => self.set("write", key, -1, json!(data), data).await,
            _ => {
                let expected = self.newest[key];
                self.set("cas", key, expected, json!([expected, data]), data)
                    .await;
            }
        }
        self.calls += 1;
    }

    /// Creates the current registers. Another client may have created them.
    async fn create(&mut self) {
        for key in 0..KEYS {
            let line = format!("create {} 0", self.current(key).path);
            let Some(mut session) = self.session.take() else {
                return;
            };
            // Without an answer in time, the client program ends: its reply may still arrive.
            let called = timeout(CALL_LIMIT, session.call(&line)).await;
            self.session = called.is_ok().then_some(session);
        }
    }

    async fn read(&mut self, key: usize) {
        let own = scratch(TOP, self.caller.first());
        let Place { name, path } = self.current(key);
        self.call(
            "read",
            key,
            &name,
            Value::Null,
            &format!("read {path} {own}"),
        )
        .await;
    }

    async fn set(&mut self, f: &str, key: usize, expected: i64, arguments: Value, data: u64) {
        let Place { name, path } = self.current(key);
        let line = format!("write {path} {data} {expected}");
        if !self.call(f, key, &name, arguments, &line).await {
            // The creation of the register may have been lost, or the version was different.
            self.create().await;
            self.read(key).await;
        }
    }

    /// Executes and records a call. Returns whether it was not refused.
    async fn call(
        &mut self,
        f: &str,
        key: usize,
        name: &str,
        arguments: Value,
        line: &str,
    ) -> bool {
        let Some(mut session) = self.session.take() else {
            return true;
        };
        self.caller.invoke(f, Some(name), arguments);
        let outcome = self
            .caller
            .conclude(f, Some(name), session.call(line), |answer| json!(answer))
            .await;
        match outcome {
            Outcome::Done((version, _)) => self.newest[key] = version,
            Outcome::Refused(_) => {
                self.session = Some(session);
                return false;
            }
            // Its reply may still arrive.
            Outcome::Unknown(_) => return true,
        }
        self.session = Some(session);
        true
    }
}
