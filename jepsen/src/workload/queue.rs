//! A queue: items are sequential znodes, and a client takes an item by deleting it.

use client::{Create, MultiRead, MultiReadResult, Result};
use serde_json::{Value, json};

use super::Context;
use super::caller::Caller;
use super::steps::{Definition, Steps, fresh, number};
use crate::check::set::FINAL_READ;
use crate::history::Event;
use crate::verdict::Verdict;

const TOP: &str = "/jepsen-queue";
const ITEMS: &str = "/jepsen-queue/items";
/// Length from which clients no longer put items.
const LENGTH_MAX: usize = 200;
/// Clients take one of this many first items, so that they collide often, but not always.
const CHOICE: usize = 3;

/// A queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queue;

impl Definition for Queue {
    type Client = Client;

    fn name(&self) -> &'static str {
        "queue"
    }

    fn promise(&self) -> &'static str {
        "each item of a queue is taken at most once, and no acknowledged item is lost"
    }

    fn top(&self) -> &'static str {
        TOP
    }

    fn znodes(&self) -> Vec<(String, String)> {
        vec![(ITEMS.into(), String::new())]
    }

    fn check(&self, events: &[Event], _steps_max: u64) -> Verdict {
        crate::check::exclusion::queue(events)
    }
}

pub(super) struct Client {
    caller: Caller,
    put: u64,
}

impl Client {
    async fn read_all(&mut self) {
        let Some(session) = self.caller.session().await else {
            return;
        };
        self.caller.invoke(FINAL_READ, None, Value::Null);
        let first = self.caller.first();
        let call = async {
            fresh(&session, TOP, first).await?;
            items(&session).await
        };
        self.caller
            .conclude(FINAL_READ, None, call, |items| json!(items))
            .await;
    }

    async fn put(&mut self, session: &client::Client) {
        let item = self.put * self.caller.context().processes + self.caller.first();
        self.put += 1;
        let create = Create::persistent().sequential();
        let path = format!("{ITEMS}/i-");
        self.caller.invoke("put", None, json!(item));
        let call = session.create(&path, item.to_string(), &create);
        self.caller
            .conclude("put", None, call, |_| Value::Null)
            .await;
    }

    async fn take(&mut self, session: &client::Client, name: &str) {
        let path = format!("{ITEMS}/{name}");
        let Ok((data, _)) = session.get_data(&path).await else {
            return;
        };
        self.caller
            .invoke("take", None, json!(number(data.as_deref())));
        let call = session.delete(&path, -1);
        self.caller
            .conclude("take", None, call, |()| Value::Null)
            .await;
    }
}

impl Steps for Client {
    fn new(context: Context) -> Client {
        Client {
            caller: Caller::new(context),
            put: 0,
        }
    }

    fn caller(&mut self) -> &mut Caller {
        &mut self.caller
    }

    async fn step(&mut self) {
        let Some(session) = self.caller.session().await else {
            return;
        };
        let Ok(mut names) = session.get_children(ITEMS).await else {
            return;
        };
        names.sort();
        let is_put = names.len() < LENGTH_MAX && self.caller.rng.bool();
        let chosen = self.caller.rng.usize(..CHOICE);
        match names.get(chosen).filter(|_| !is_put) {
            Some(name) => self.take(&session, name).await,
            None if is_put => self.put(&session).await,
            None => {}
        }
    }

    async fn last(&mut self) {
        self.read_all().await;
    }
}

/// Returns the items of the queue. A znode without a number becomes null, which is not an item.
async fn items(session: &client::Client) -> Result<Vec<Option<i64>>> {
    let names = session.get_children(ITEMS).await?;
    let paths: Vec<String> = names.iter().map(|name| format!("{ITEMS}/{name}")).collect();
    let reads: Vec<_> = paths.iter().map(|path| MultiRead::Data(path)).collect();
    if reads.is_empty() {
        return Ok(Vec::new());
    }
    let results = session.multi_read(&reads).await?.into_iter();
    let items = results.filter_map(|result| match result {
        MultiReadResult::Data(data, _) => Some(number(data.as_deref())),
        // A client with an unknown outcome has just taken it.
        _ => None,
    });
    Ok(items.collect())
}
