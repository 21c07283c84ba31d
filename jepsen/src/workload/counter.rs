//! A counter: the number in a znode, which clients add to by version.

use serde_json::{Value, json};

use super::caller::Caller;
use super::steps::{Steps, drive, fresh, make, number};
use super::{Context, Work, Workload};
use crate::check::set::FINAL_READ;
use crate::history::Event;
use crate::verdict::Verdict;

const TOP: &str = "/jepsen-counter";
const COUNTER: &str = "/jepsen-counter/sum";
/// Most that is added at once.
const ADD_MAX: i64 = 5;

/// A counter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counter;

impl Workload for Counter {
    fn name(&self) -> &'static str {
        "counter"
    }

    fn promise(&self) -> &'static str {
        "no acknowledged addition by version is lost, and none is done twice"
    }

    fn prepare(&self, context: Context) -> Work<'_> {
        Box::pin(async move { make(context, TOP, &[(COUNTER.into(), "0".into())]).await })
    }

    fn run(&self, context: Context) -> Work<'_> {
        drive(Client::new(context))
    }

    fn finish(&self, context: Context) -> Work<'_> {
        Box::pin(async move {
            let mut client = Client::new(context);
            client.read(FINAL_READ).await;
            client.caller.close().await;
        })
    }

    fn check(&self, events: &[Event], _steps_max: u64) -> Verdict {
        crate::check::counter::check(0, events)
    }
}

struct Client {
    caller: Caller,
    first: u64,
}

impl Client {
    fn new(context: Context) -> Client {
        Client {
            first: context.process,
            caller: Caller::new(context),
        }
    }

    async fn read(&mut self, f: &str) {
        let Some(session) = self.caller.session().await else {
            return;
        };
        self.caller.invoke(f, None, Value::Null);
        let first = self.first;
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
        // What is read here may be old: then the version is, too.
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
    fn caller(&mut self) -> &mut Caller {
        &mut self.caller
    }

    async fn step(&mut self) {
        match self.caller.rng.u8(..4) {
            0 => self.read("read").await,
            _ => self.add().await,
        }
    }
}
