//! Ephemeral znodes, and sessions around their end: closed, timed out, and resumed late. No client
//! deletes an ephemeral, so a missing one shows that its session has ended.

mod first;

use std::time::{Duration, Instant};

use client::{Client as Session, Create, Result};
use proto::{SessionId, Stat};
use serde_json::{Value, json};

use super::Context;
use super::caller::Caller;
use super::steps::{Definition, Steps, scratch, session_name};
use crate::check::ephemeral::FINAL_LOOK;
use crate::history::Event;
use crate::verdict::Verdict;
pub(super) use first::First;

const KEYS: usize = 3;
/// Short, so that many sessions end in a run.
const SESSION_TIMEOUT: Duration = Duration::from_millis(1500);
/// Time for which a client leaves its session silent, in ms: about the timeout of the session.
const REST_MS: std::ops::Range<u64> = 200..3500;
/// Time limit for the ephemerals of the last sessions after all members serve: a new leader gives
/// each session its whole timeout again.
const GONE_LIMIT: Duration = Duration::from_secs(30);
/// Time between two looks at these ephemerals.
const LOOK: Duration = Duration::from_millis(100);

/// Sessions that all members know.
pub(super) const GLOBAL: Ephemeral = Ephemeral {
    name: "ephemeral",
    promise: "after the end of a session, the session does not write, and its ephemerals do not exist",
    settings: &[],
};

/// Sessions that begin as local sessions of their server.
pub(super) const LOCAL: Ephemeral = Ephemeral {
    name: "local",
    promise: "the promise of `ephemeral`, for local sessions that become global with their first ephemeral",
    settings: &[
        ("localSessionsEnabled", "true"),
        ("localSessionsUpgradingEnabled", "true"),
    ],
};

/// Ephemerals in sessions of one kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ephemeral {
    name: &'static str,
    promise: &'static str,
    settings: &'static [(&'static str, &'static str)],
}

impl Definition for Ephemeral {
    type Client = Client;

    fn name(&self) -> &'static str {
        self.name
    }

    fn promise(&self) -> &'static str {
        self.promise
    }

    fn settings(&self) -> &'static [(&'static str, &'static str)] {
        self.settings
    }

    fn top(&self) -> &'static str {
        TOP
    }

    fn check(&self, events: &[Event], _steps_max: u64) -> Verdict {
        crate::check::ephemeral::check(events)
    }
}

const TOP: &str = "/jepsen-ephemeral";

fn name(key: usize) -> String {
    format!("e{key}")
}

pub(super) struct Client {
    caller: Caller,
}

impl Client {
    /// Records the owner of a znode. Returns whether the znode is missing.
    async fn look(&mut self, f: &str, key: usize) -> bool {
        let Some(session) = self.caller.session().await else {
            return false;
        };
        let (path, name) = (format!("{TOP}/{}", name(key)), name(key));
        self.caller.invoke(f, Some(&name), Value::Null);
        let call = seen(&session, &path, self.caller.first());
        let outcome = self.caller.conclude(f, Some(&name), call, |(as_of, stat)| {
            let owner = stat.map(|stat| SessionId(stat.ephemeral_owner).to_string());
            let created = stat.map(|stat| stat.czxid);
            json!({"as_of": as_of, "owner": owner, "created": created})
        });
        matches!(outcome.await, super::caller::Outcome::Done((_, None)))
    }

    async fn take(&mut self, key: usize) {
        let Some(session) = self.caller.session().await else {
            return;
        };
        let (path, name) = (format!("{TOP}/{}", name(key)), name(key));
        self.caller.invoke("take", Some(&name), Value::Null);
        let ephemeral = Create::ephemeral();
        let call = session.create2(&path, "", &ephemeral);
        self.caller
            .conclude(
                "take",
                Some(&name),
                call,
                |(_, stat)| json!({"session": session_name(&session), "zxid": stat.czxid}),
            )
            .await;
    }

    /// Makes a write as a sign of life.
    async fn touch(&mut self) {
        let Some(session) = self.caller.session().await else {
            return;
        };
        let path = scratch(TOP, self.caller.first());
        self.caller.invoke("touch", None, Value::Null);
        let call = session.set_data(&path, "", -1);
        self.caller
            .conclude(
                "touch",
                None,
                call,
                |stat| json!({"session": session_name(&session), "zxid": stat.mzxid}),
            )
            .await;
    }

    async fn close(&mut self) {
        let Some(session) = self.caller.take_session() else {
            return;
        };
        self.caller.invoke("close", None, Value::Null);
        self.caller
            .conclude(
                "close",
                None,
                session.close(),
                |()| json!({"session": session_name(&session)}),
            )
            .await;
    }
}

/// Returns a znode as it is after a write of the session.
async fn seen(session: &Session, path: &str, client: u64) -> Result<(i64, Option<Stat>)> {
    let written = session.set_data(&scratch(TOP, client), "", -1).await?;
    Ok((written.mzxid, session.exists(path).await?))
}

impl Steps for Client {
    fn new(context: Context) -> Client {
        Client {
            caller: Caller::new(context).with_session_timeout(SESSION_TIMEOUT),
        }
    }

    fn caller(&mut self) -> &mut Caller {
        &mut self.caller
    }

    async fn step(&mut self) {
        let key = self.caller.rng.usize(..KEYS);
        match self.caller.rng.u8(..20) {
            0..=7 => drop(self.look("look", key).await),
            8..=11 => self.take(key).await,
            12..=16 => self.touch().await,
            17 => self.close().await,
            18 => self.caller.forget_session(),
            _ => {
                let rest = self.caller.rng.u64(REST_MS);
                self.caller.rest(Duration::from_millis(rest)).await;
            }
        }
    }

    async fn last(&mut self) {
        let deadline = Instant::now() + GONE_LIMIT;
        for key in 0..KEYS {
            while !self.look(FINAL_LOOK, key).await && Instant::now() < deadline {
                tokio::time::sleep(LOOK).await;
            }
        }
    }
}
