//! A client's session over the faults of a run, and the record of its calls.

use std::time::Duration;

use client::{Client, Error, Options};
use fastrand::Rng;
use serde_json::Value;

use super::{Context, Phase};
use crate::history::{Kind, Process};

/// How long one server has to accept a session.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);
/// How long a session lives without its client.
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);
/// How long a call may take before its outcome counts as unknown.
pub(super) const CALL_LIMIT: Duration = Duration::from_secs(5);
/// Between two attempts to get a session.
const PAUSE: Duration = Duration::from_millis(50);

/// What became of a call.
#[derive(Debug)]
pub enum Outcome<T> {
    /// It happened.
    Done(T),
    /// It certainly did not happen.
    Refused(Error),
    /// Nobody knows; the caller has another process number now, and will have another session.
    Unknown(String),
}

/// One client of a workload: it has a session whenever it can, and records what it calls.
#[derive(Debug)]
pub struct Caller {
    context: Context,
    process: u64,
    client: Option<Client>,
    session_timeout: Duration,
    /// Whether a session goes on after a call whose outcome nobody knows.
    keeps_session: bool,
    /// For the client's choices.
    pub rng: Rng,
}

impl Caller {
    /// Without a session yet.
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

    /// The same with sessions that live so long without their client.
    #[must_use]
    pub fn with_session_timeout(mut self, timeout: Duration) -> Caller {
        self.session_timeout = timeout;
        self
    }

    /// The same, with a session that goes on when a connection was lost in the middle of a call: what
    /// it sees afterwards is judged, too.
    #[must_use]
    pub fn keeping_session(mut self) -> Caller {
        self.keeps_session = true;
        self
    }

    /// What it was given.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// From now on it has sessions with this member alone.
    pub fn stay_with(&mut self, member: &str) {
        self.client = None;
        self.context.members = [member.to_owned()].into();
    }

    /// Its first process number, which no other client has: it is in the names of what is its own.
    pub fn first(&self) -> u64 {
        self.context.process
    }

    /// Whether clients go on calling.
    pub fn is_running(&self) -> bool {
        *self.context.phase.borrow() == Phase::Running
    }

    /// Its session, or a new one. Without any for as long as the phase lasts it is `None`.
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
        let mut options = Options::new(&self.context.members.join(","));
        options.connect_timeout = CONNECT_LIMIT;
        options.with_session_timeout(self.session_timeout)
    }

    /// Leaves the session to its timeout: the next call has another one.
    pub fn forget_session(&mut self) {
        self.client = None;
    }

    /// The session that there is now.
    pub fn take_session(&mut self) -> Option<Client> {
        self.client.take()
    }

    /// Leaves the session without a word for so long, and goes on with it if that is not too late.
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

    /// Waits for the answer of a call that was recorded, in bounded time, and records how it ended:
    /// `value` makes what is written of an answer.
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

    /// Records how a call ended; `value` makes what is written of an answer.
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

/// Whether a call that failed so was not carried out: it was never sent, or the server gives a
/// reason in the tree. All else leaves it open, also codes about the session or the service.
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

/// Codes of KeeperException that say why a request cannot be done: `NoNode`, `NoAuth`, `BadVersion`,
/// `NoChildrenForEphemerals`, `NodeExists`, `NotEmpty`, `InvalidACL`, `BadArguments`,
/// `QuotaExceeded`.
const REFUSALS: &[i32] = &[-101, -102, -103, -108, -110, -111, -114, -8, -125];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reasons_in_the_tree_are_refusals() {
        assert!(is_refusal(-103), "BadVersion");
        // Expired, moved, connection loss, timeout: it may have been carried out.
        assert!(![-112, -118, -4, -7, -1].into_iter().any(is_refusal));
    }
}
