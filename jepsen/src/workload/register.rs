//! Registers, each a znode: read, write, and compare-and-set by version.
//!
//! | `f` | `value` of `invoke` | of `ok` |
//! |---|---|---|
//! | `read` | null | `[version, data]` |
//! | `write` | data | `[version, data]` |
//! | `cas` | `[version expected, data]` | `[version after it, data]` |
//!
//! ZooKeeper permits that a plain read is stale. A read after `sync` may also be stale if the
//! leader has lost its quorum without noticing. Therefore a read first writes into the client's own
//! znode: the server that answers has applied that write, and with it everything that was committed
//! before.

use serde_json::{Value, json};

use super::Context;
use super::caller::{Caller, Outcome};
use super::steps::{Definition, Steps, fresh, number};
use crate::history::Event;
use crate::verdict::Verdict;

/// Parent of the registers.
const TOP: &str = "/jepsen-register";
/// Number of registers.
const KEYS: usize = 5;

/// Linearizable registers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Register;

impl Definition for Register {
    type Client = Client;

    fn name(&self) -> &'static str {
        "register"
    }

    fn promise(&self) -> &'static str {
        "reads, writes and conditional writes of a znode are linearizable"
    }

    fn top(&self) -> &'static str {
        TOP
    }

    fn znodes(&self) -> Vec<(String, String)> {
        (0..KEYS).map(|key| (path(key), "0".to_owned())).collect()
    }

    fn check(&self, events: &[Event], steps_max: u64) -> Verdict {
        let model = crate::check::register::Register { start: (0, 0) };
        crate::check::linearizable::check(&model, events, steps_max)
    }
}

fn path(key: usize) -> String {
    format!("{TOP}/{}", name(key))
}

fn name(key: usize) -> String {
    format!("r{key}")
}

pub(super) struct Client {
    caller: Caller,
    /// The newest version of each register that it has seen.
    newest: [i32; KEYS],
    /// Counter that makes the data of each write unique in a run.
    next: u64,
}

impl Client {
    async fn read(&mut self, key: usize) {
        let Some(session) = self.caller.session().await else {
            return;
        };
        let (path, name) = (path(key), name(key));
        let first = self.caller.first();
        self.caller.invoke("read", Some(&name), Value::Null);
        let call = async {
            fresh(&session, TOP, first).await?;
            session.get_data(&path).await
        };
        let call = async {
            call.await
                .map(|(data, stat)| (stat.version, number(data.as_deref())))
        };
        let outcome = self
            .caller
            .conclude("read", Some(&name), call, |answer| json!(answer))
            .await;
        if let Outcome::Done((version, _)) = outcome {
            self.newest[key] = version;
        }
    }

    async fn write(&mut self, key: usize) {
        let data = self.fresh();
        self.set("write", key, -1, json!(data), data).await;
    }

    async fn cas(&mut self, key: usize) {
        let (data, expected) = (self.fresh(), self.newest[key]);
        self.set("cas", key, expected, json!([expected, data]), data)
            .await;
    }

    async fn set(&mut self, f: &str, key: usize, expected: i32, arguments: Value, data: u64) {
        let Some(session) = self.caller.session().await else {
            return;
        };
        let (path, name) = (path(key), name(key));
        self.caller.invoke(f, Some(&name), arguments);
        let call = session.set_data(&path, data.to_string(), expected);
        let call = async { call.await.map(|stat| stat.version) };
        let outcome = self
            .caller
            .conclude(f, Some(&name), call, |version| json!([version, data]))
            .await;
        match outcome {
            Outcome::Done(version) => self.newest[key] = version,
            // The next call reads the version that it must expect.
            Outcome::Refused(_) => self.read(key).await,
            Outcome::Unknown(_) => {}
        }
    }

    /// Returns data that no other write of the run has.
    fn fresh(&mut self) -> u64 {
        let data = self.next * self.caller.context().processes + self.caller.first();
        self.next += 1;
        data
    }
}

impl Steps for Client {
    fn new(context: Context) -> Client {
        Client {
            newest: [0; KEYS],
            next: 1,
            caller: Caller::new(context),
        }
    }

    fn caller(&mut self) -> &mut Caller {
        &mut self.caller
    }

    async fn step(&mut self) {
        let key = self.caller.rng.usize(..KEYS);
        match self.caller.rng.u8(..4) {
            0 => self.read(key).await,
            1 => self.write(key).await,
            _ => self.cas(key).await,
        }
    }

    async fn last(&mut self) {
        for key in 0..KEYS {
            self.read(key).await;
        }
    }
}
