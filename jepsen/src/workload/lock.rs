//! A lock by the recipe, and the writes that it guards.

use std::time::Duration;

use client::{MultiOp, MultiResult};
use recipes::Mutex;
use serde_json::json;

use super::Context;
use super::caller::{Caller, Outcome};
use super::steps::{Definition, Steps};
use crate::history::Event;
use crate::verdict::Verdict;

const TOP: &str = "/jepsen-lock";
const LOCK: &str = "/jepsen-lock/lock";
const GUARDED: &str = "/jepsen-lock/guarded";
/// Maximum wait of a client for the lock, so that a run ends in time.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Maximum number of guarded writes under one token.
const USES_MAX: u32 = 5;

/// A lock with tokens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lock;

impl Definition for Lock {
    type Client = Client;

    fn name(&self) -> &'static str {
        "lock"
    }

    fn promise(&self) -> &'static str {
        "after a later holder of a lock has written, no former holder writes"
    }

    fn top(&self) -> &'static str {
        TOP
    }

    fn znodes(&self) -> Vec<(String, String)> {
        vec![(GUARDED.into(), String::new())]
    }

    fn check(&self, events: &[Event], _steps_max: u64) -> Verdict {
        crate::check::exclusion::lock(events)
    }
}

pub(super) struct Client(Caller);

impl Steps for Client {
    fn new(context: Context) -> Client {
        Client(Caller::new(context))
    }

    fn caller(&mut self) -> &mut Caller {
        &mut self.0
    }

    async fn step(&mut self) {
        let Some(session) = self.0.session().await else {
            return;
        };
        let Ok(mutex) = Mutex::new(&session, LOCK) else {
            return;
        };
        // A client that stops waiting leaves the queue in the background.
        let Ok(Ok(guard)) = tokio::time::timeout(WAIT_MAX, mutex.acquire()).await else {
            return;
        };
        let token = guard.token().0;
        for _ in 0..self.0.rng.u32(1..=USES_MAX) {
            let ops = [
                guard.check(),
                MultiOp::set_data(GUARDED, token.to_string(), -1),
            ];
            self.0.invoke("use", None, json!(token));
            let call = session.multi(&ops);
            let outcome = self.0.conclude(
                "use",
                None,
                call,
                |results| json!({"zxid": results.iter().find_map(zxid)}),
            );
            if !matches!(outcome.await, Outcome::Done(_)) {
                return;
            }
        }
        tokio::time::timeout(WAIT_MAX, guard.release()).await.ok();
    }

    async fn last(&mut self) {
        self.step().await;
    }
}

fn zxid(result: &MultiResult) -> Option<i64> {
    match result {
        MultiResult::Set(stat) => Some(stat.mzxid),
        _ => None,
    }
}
