//! A counter: the number in a znode, which clients add to by version.

use serde_json::{Value, json};

use super::Context;
use super::caller::Caller;
use super::steps::{Definition, Steps, fresh, number};
use crate::check::set::FINAL_READ;
use crate::history::Event;
use crate::verdict::Verdict;

const TOP: &str = "/jepsen-counter";
const COUNTER: &str = "/jepsen-counter/sum";
/// Maximum of one addition.
const ADD_MAX: i64 = 5;

/// A counter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counter;

impl Definition for Counter {
    type Client = Client;

    fn name(&self) -> &'static str {
        "counter"
    }

    fn promise(&self) -> &'static str {
        "no acknowledged addition is lost, and no addition is executed twice"
    }

    fn top(&self) -> &'static str {
        TOP
    }

    fn znodes(&self) -> Vec<(String, String)> {
        vec![(COUNTER.into(), "0".into())]
    }

    fn check(&self, events: &[Event], _steps_max: u64) -> Verdict {
        crate::check::counter::check(0, events)
    }
}

pub(super) struct Client {
    caller: Caller,
}

impl Client {
    async fn read(&mut self, f: &str) {
        let Some(session) = self.caller.session().await else {
            return;
        };
        self.caller.invoke(f, None, Value::Null);
        let first = self.caller.first();
        let call = async {
            fresh(&session, TOP, first).await?;
            session.get_data(COUNTER).await
        };
        self.caller
            .conclude(f, None, call, |(data, _)| json!(number(data.as_deref())))
            .await;
    }

    async fn add(&mut self) {
        let Some(session) = self.caller.session().await else {
            return;
        };
        // This read may be stale, and so may the version.
        let Ok((data, stat)) = session.get_data(COUNTER).await else {
            return;
        };
        let by = self.caller.rng.i64(1..=ADD_MAX);
        let Some(sum) = number(data.as_deref()).and_then(|sum| sum.checked_add(by)) else {
            return;
        };
        self.caller.invoke("add", None, json!(by));
        let call = session.set_data(COUNTER, sum.to_string(), stat.version);
        self.caller
            .conclude("add", None, call, |_| json!(sum))
            .await;
    }
}

impl Steps for Client {
    fn new(context: Context) -> Client {
        Client {
            caller: Caller::new(context),
        }
    }

    fn caller(&mut self) -> &mut Caller {
        &mut self.caller
    }

    async fn step(&mut self) {
        match self.caller.rng.u8(..4) {
            0 => self.read("read").await,
            _ => self.add().await,
        }
    }

    async fn last(&mut self) {
        self.read(FINAL_READ).await;
    }
}
