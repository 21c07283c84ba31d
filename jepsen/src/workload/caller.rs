//! A client's session during the faults of a run, and the record of its calls.

use std::time::Duration;

use client::{Client, Error, Options};
use fastrand::Rng;
use serde_json::Value;

use super::{Context, Phase};
use crate::history::{Kind, Process};

/// Time limit for one server to accept a session.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);
/// Timeout of a session.
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);
/// Time limit of a call, after which its outcome counts as unknown.
pub(super) const CALL_LIMIT: Duration = Duration::from_secs(5);
/// Time between two attempts to get a session.
const PAUSE: Duration = Duration::from_millis(50);

/// Maximum size of a request or a reply.
const BYTES_MAX: usize = 32 << 20;

/// Outcome of a call.
#[derive(Debug)]
pub enum Outcome<T> {
    /// It happened.
    Done(T),
    /// It certainly did not happen.
    Refused(Error),
    /// It is unknown. The caller now has another process number, and will have another session.
    Unknown(String),
}

/// One client of a workload: it keeps a session whenever it can, and records its calls.
#[derive(Debug)]
pub struct Caller {
    context: Context,
    process: u64,
    client: Option<Client>,
    session_timeout: Duration,
    /// Whether a session continues after a call with an unknown outcome.
    keeps_session: bool,
    /// Random numbers for the client's choices.
    pub rng: Rng,
}

impl Caller {
    /// Creates a caller without a session.
    pub fn new(context: Context) -> Caller {
        Caller {
            process: context.process,
            client: None,
            session_timeout: SESSION_TIMEOUT,
            keeps_session: false,
            rng: Rng::with_seed(context.seed),
            context,
        }
    }

    /// Sets the timeout of its sessions.
    #[must_use]
    pub fn with_session_timeout(mut self, timeout: Duration) -> Caller {
        self.session_timeout = timeout;
        self
    }

    /// Keeps a session whose connection was lost during a call, so that its later reads are judged
    /// too.
    #[must_use]
    pub fn keeping_session(mut self) -> Caller {
        self.keeps_session = true;
        self
    }

    /// Returns its context.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Uses only this member for its sessions from now on.
    pub fn stay_with(&mut self, member: &str) {
        self.client = None;
        self.context.members = [member.to_owned()].into();
    }

    /// Returns its first process number, which no other client has. The names of its own znodes
    /// contain it.
    pub fn first(&self) -> u64 {
        self.context.process
    }

    /// Returns whether clients still call.
    pub fn is_running(&self) -> bool {
        *self.context.phase.borrow() == Phase::Running
    }

    /// Returns its session, or a new one. Returns `None` if there is no session until the phase
    /// ends.
    pub async fn session(&mut self) -> Option<Client> {
        let begun = *self.context.phase.borrow();
        loop {
            if let Some(client) = &self.client
                && !client.state().borrow().is_end()
            {
                return Some(client.clone());
            }
            match tokio::time::timeout(CALL_LIMIT, Client::connect(self.options())).await {
                Ok(Ok(client)) => self.client = Some(client),
                Ok(Err(_)) | Err(_) => tokio::time::sleep(PAUSE).await,
            }
            if *self.context.phase.borrow() != begun {
                return self.client.clone();
            }
        }
    }

    fn options(&self) -> Options {
        let mut options = Options::new(&self.context.members.join(","))
            .with_connect_timeout(CONNECT_LIMIT)
            .with_session_timeout(self.session_timeout)
            .with_byte_limits(BYTES_MAX, BYTES_MAX);
        if let Some(connector) = &self.context.access.connector {
            options = options.with_connector(connector.clone());
        }
        if let Some(login) = &self.context.access.login {
            options = options.with_login(login.clone());
        }
        options
    }

    /// Abandons the session to its timeout: the next call uses another one.
    pub fn forget_session(&mut self) {
        self.client = None;
    }

    /// Takes the current session.
    pub fn take_session(&mut self) -> Option<Client> {
        self.client.take()
    }

    /// Leaves the session silent for this time, and then continues it if it still exists.
    pub async fn rest(&mut self, time: Duration) {
        let Some(client) = self.client.take() else {
            return;
        };
        let session = client.hand_over().await;
        drop(client);
        tokio::time::sleep(time).await;
        let options = self.options().with_session(session);
        if let Ok(Ok(client)) = tokio::time::timeout(CALL_LIMIT, Client::connect(options)).await {
            self.client = Some(client);
        }
    }

    /// Closes the session, if there is one.
    pub async fn close(&mut self) {
        if let Some(client) = self.client.take() {
            tokio::time::timeout(CONNECT_LIMIT, client.close())
                .await
                .ok();
        }
    }

    /// Records that a call begins.
    pub fn invoke(&self, f: &str, key: Option<&str>, value: Value) {
        self.record(Kind::Invoke, f, key, value, None);
    }

    /// Waits in bounded time for the answer of a recorded call, and records its outcome. `value`
    /// converts the answer for the record.
    pub async fn conclude<T>(
        &mut self,
        f: &str,
        key: Option<&str>,
        call: impl Future<Output = client::Result<T>>,
        value: impl FnOnce(&T) -> Value,
    ) -> Outcome<T> {
        let outcome = outcome_of(tokio::time::timeout(CALL_LIMIT, call).await);
        self.end(f, key, &outcome, value);
        outcome
    }

    /// Records the outcome of a call. `value` converts the answer for the record.
    pub fn end<T>(
        &mut self,
        f: &str,
        key: Option<&str>,
        outcome: &Outcome<T>,
        value: impl FnOnce(&T) -> Value,
    ) {
        match outcome {
            Outcome::Done(answer) => self.record(Kind::Ok, f, key, value(answer), None),
            Outcome::Refused(error) => {
                self.record(Kind::Fail, f, key, Value::Null, Some(error.to_string()));
            }
            Outcome::Unknown(why) => {
                self.record(Kind::Info, f, key, Value::Null, Some(why.clone()));
                self.process += self.context.processes;
                if !self.keeps_session {
                    self.client = None;
                }
            }
        }
    }

    fn record(&self, kind: Kind, f: &str, key: Option<&str>, value: Value, error: Option<String>) {
        let process = Process::Client(self.process);
        self.context
            .recorder
            .record(process, kind, f, key, value, error);
    }
}

fn outcome_of<T>(answer: Result<client::Result<T>, tokio::time::error::Elapsed>) -> Outcome<T> {
    match answer {
        Ok(Ok(answer)) => Outcome::Done(answer),
        Ok(Err(error)) if certainly_nothing(&error) => Outcome::Refused(error),
        Ok(Err(error)) => Outcome::Unknown(error.to_string()),
        Err(_) => Outcome::Unknown(format!("no answer within {CALL_LIMIT:?}")),
    }
}

/// Returns whether a call with this error was not executed: it was never sent, or the server names
/// a reason in the tree. All other errors leave the outcome open, including codes about the session
/// or the service.
fn certainly_nothing(error: &Error) -> bool {
    use client::Error as E;
    match error {
        E::Op { code, .. } | E::Multi { code, .. } => is_refusal(*code),
        E::Unreachable { .. } | E::TooLarge { .. } | E::Closed { .. } | E::NoServers => true,
        _ => false,
    }
}

fn is_refusal(code: i32) -> bool {
    REFUSALS.contains(&code)
}

/// Codes of KeeperException that state why a request cannot be executed: `NoNode`, `NoAuth`,
/// `BadVersion`, `NoChildrenForEphemerals`, `NodeExists`, `NotEmpty`, `InvalidACL`, `BadArguments`,
/// `QuotaExceeded`.
const REFUSALS: &[i32] = &[-101, -102, -103, -108, -110, -111, -114, -8, -125];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reasons_in_the_tree_are_refusals() {
        assert!(is_refusal(-103), "BadVersion");
        // Expired, moved, connection loss, timeout: the request may have been executed.
        assert!(![-112, -118, -4, -7, -1].into_iter().any(is_refusal));
    }
}
