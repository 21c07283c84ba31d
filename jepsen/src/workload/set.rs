//! Sets: every element is a znode, and no acknowledged creation is ever missing. A peek is a plain
//! read: it may be stale, but it must not show a creation that is missing later.

use client::{Create, Error};
use serde_json::{Value, json};

use super::Context;
use super::caller::Caller;
use super::steps::{Definition, SCRATCH, Steps, fresh};
use crate::check::set::{FINAL_READ, PEEK};
use crate::history::Event;
use crate::verdict::Verdict;

const TOP: &str = "/jepsen-set";
/// Elements that one client adds to a set before it starts the next one, so that reads stay short.
const ELEMENTS: u64 = 200;
/// One of this many calls is a read, and another one is a peek.
const READ_EVERY: u32 = 40;
/// `NoNode` of KeeperException.
const NO_NODE: i32 = -101;

/// Sets of znodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Set;

impl Definition for Set {
    type Client = Client;

    fn name(&self) -> &'static str {
        "set"
    }

    fn promise(&self) -> &'static str {
        "every acknowledged create is visible in all later reads, and a refused create is never visible"
    }

    fn top(&self) -> &'static str {
        TOP
    }

    fn check(&self, events: &[Event], _steps_max: u64) -> Verdict {
        crate::check::set::check(events)
    }
}

pub(super) struct Client {
    caller: Caller,
    added: u64,
}

impl Client {
    async fn read(&mut self, f: &str, set: &str) {
        let Some(session) = self.caller.session().await else {
            return;
        };
        let path = format!("{TOP}/{set}");
        self.caller.invoke(f, Some(set), Value::Null);
        let first = self.caller.first();
        let is_fresh = f != PEEK;
        let call = async {
            if is_fresh {
                fresh(&session, TOP, first).await?;
            }
            match session.get_children(&path).await {
                Err(Error::Op { code: NO_NODE, .. }) => Ok(Vec::new()),
                names => names,
            }
        };
        self.caller
            .conclude(f, Some(set), call, |names| {
                let numbers = names.iter().map(|name| match name.parse::<i64>() {
                    Ok(number) => json!(number),
                    Err(_) => json!(&**name),
                });
                numbers.collect()
            })
            .await;
    }

    async fn add(&mut self, set: &str) {
        let Some(session) = self.caller.session().await else {
            return;
        };
        let element = self.added * self.caller.context().processes + self.caller.first();
        self.added += 1;
        let (directory, path) = (format!("{TOP}/{set}"), format!("{TOP}/{set}/{element}"));
        let persistent = Create::persistent();
        if self.added % ELEMENTS == 1 {
            session.create(&directory, "", &persistent).await.ok();
        }
        self.caller.invoke("add", Some(set), json!(element));
        let call = session.create(&path, "", &persistent);
        let outcome = self
            .caller
            .conclude("add", Some(set), call, |_| Value::Null);
        if let super::caller::Outcome::Refused(_) = outcome.await {
            // The set itself may be missing, if its creation was lost.
            session.create(&directory, "", &persistent).await.ok();
        }
    }
}

impl Steps for Client {
    fn new(context: Context) -> Client {
        Client {
            caller: Caller::new(context),
            added: 0,
        }
    }

    fn caller(&mut self) -> &mut Caller {
        &mut self.caller
    }

    async fn step(&mut self) {
        let newest = self.added / ELEMENTS;
        let set = |number: u64| format!("s{number}");
        let rng = &mut self.caller.rng;
        match rng.u32(..READ_EVERY) {
            0 => {
                // A member that differs from the others may differ in an earlier set.
                let read = if rng.bool() {
                    newest
                } else {
                    rng.u64(..=newest)
                };
                self.read("read", &set(read)).await;
            }
            1 => self.read(PEEK, &set(newest)).await,
            _ => self.add(&set(newest)).await,
        }
    }

    async fn last(&mut self) {
        // An element that only some members have was kept by them against their leader, or lost by
        // the others.
        let members = self.caller.context().members.clone();
        for member in members.iter() {
            self.caller.close().await;
            self.caller.stay_with(member);
            let Some(session) = self.caller.session().await else {
                return;
            };
            fresh(&session, TOP, self.caller.first()).await.ok();
            let sets = session.get_children(TOP).await.unwrap_or_default();
            for set in sets.iter().filter(|set| !set.starts_with(SCRATCH)) {
                self.read(FINAL_READ, set).await;
            }
        }
    }
}
