//! Registers, each a znode: read, write, and compare-and-set by version.
//!
//! After some calls, a client continues with new registers, so that no register has more calls than
//! a checker can order. It also reads older registers. Some writes are part of a multi that must
//! fail: they end with `fail`, and must not have any effect.
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

mod foreign;
mod rejoin;

use ::client::{Create, Error, MultiOp, MultiResult};
use serde_json::{Value, json};

use super::Context;
use super::caller::{Caller, Outcome};
use super::steps::{Definition, Steps, fresh, number, scratch};
use crate::history::Event;
use crate::verdict::Verdict;
pub(super) use foreign::{GO, JAVA, KAZOO};
pub(super) use rejoin::Rejoin;

/// Parent of the registers.
const TOP: &str = "/jepsen-register";
/// Number of registers that a client uses at the same time.
const KEYS: usize = 5;
/// Calls of a client before it continues with new registers.
const CALLS: u64 = 100;
/// One of this many calls reads an older register.
const OLDER_EVERY: u8 = 20;
/// Maximum number of registers that the final reads contain.
const FINAL_MAX: usize = 200;
/// A version that no znode has.
const NO_VERSION: i32 = i32::MAX;

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

    fn has_registers(&self) -> bool {
        true
    }

    fn top(&self) -> &'static str {
        TOP
    }

    fn check(&self, events: &[Event], steps_max: u64) -> Verdict {
        check(events, steps_max)
    }
}

/// Judges a history of registers.
fn check(events: &[Event], steps_max: u64) -> Verdict {
    let model = crate::check::register::Register { start: (0, 0) };
    crate::check::linearizable::check(&model, events, steps_max)
}

/// Returns the name of a register. The name contains the leg, the number of earlier changes to new
/// registers, and the number of the register.
fn name(leg: u64, generation: u64, key: usize) -> String {
    format!("r{leg}-{generation}-{key}")
}

pub(super) struct Client {
    caller: Caller,
    /// The newest version of each current register that it has seen.
    newest: [i32; KEYS],
    /// Number of its calls, which makes the data of each write unique in a run.
    calls: u64,
}

impl Client {
    fn generation(&self) -> u64 {
        self.calls / CALLS
    }

    fn name(&self, generation: u64, key: usize) -> String {
        name(self.caller.context().lowest, generation, key)
    }

    /// Returns the name and the path of a current register.
    fn current(&self, key: usize) -> Place {
        Place::of(self.name(self.generation(), key))
    }

    /// Creates the current registers. Another client may have created them.
    async fn create(&mut self) {
        let Some(session) = self.caller.session().await else {
            return;
        };
        for key in 0..KEYS {
            let path = self.current(key).path;
            session.create(&path, "0", &Create::persistent()).await.ok();
        }
    }

    /// Reads a register, and returns its version.
    async fn read(&mut self, place: &Place) -> Option<i32> {
        let session = self.caller.session().await?;
        let (path, name) = (&place.path, place.name.as_str());
        let first = self.caller.first();
        self.caller.invoke("read", Some(name), Value::Null);
        let call = async {
            fresh(&session, TOP, first).await?;
            let (data, stat) = session.get_data(path).await?;
            Ok((stat.version, number(data.as_deref())))
        };
        let outcome = self
            .caller
            .conclude("read", Some(name), call, |answer| json!(answer))
            .await;
        match outcome {
            Outcome::Done((version, _)) => Some(version),
            _ => None,
        }
    }

    async fn read_current(&mut self, key: usize) {
        let place = self.current(key);
        if let Some(version) = self.read(&place).await {
            self.newest[key] = version;
        }
    }

    async fn read_older(&mut self, key: usize) {
        let generation = self.caller.rng.u64(..=self.generation());
        let place = Place::of(self.name(generation, key));
        self.read(&place).await;
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
        let Place { name, path } = self.current(key);
        self.caller.invoke(f, Some(&name), arguments);
        let call = session.set_data(&path, data.to_string(), expected);
        let call = async { call.await.map(|stat| stat.version) };
        let outcome = self
            .caller
            .conclude(f, Some(&name), call, |version| json!([version, data]))
            .await;
        match outcome {
            Outcome::Done(version) => self.newest[key] = version,
            Outcome::Refused(error) => self.after_refusal(&error, key).await,
            Outcome::Unknown(_) => {}
        }
    }

    /// The creation of a register may have been lost. Otherwise the version was different, and the
    /// next call must expect the current version.
    async fn after_refusal(&mut self, error: &Error, key: usize) {
        match error {
            Error::Op { code: NO_NODE, .. } => self.create().await,
            _ => self.read_current(key).await,
        }
    }

    /// Writes in a multi whose second operation is always refused.
    async fn write_in_failing_multi(&mut self, key: usize) {
        let data = self.fresh();
        let Some(session) = self.caller.session().await else {
            return;
        };
        let Place { name, path } = self.current(key);
        let own = scratch(TOP, self.caller.first());
        self.caller.invoke("write", Some(&name), json!(data));
        let operations = [
            MultiOp::set_data(&path, data.to_string(), -1),
            MultiOp::check(&own, NO_VERSION),
        ];
        let call = session.multi(&operations);
        self.caller
            .conclude("write", Some(&name), call, |results| {
                json!([version_of(results), data])
            })
            .await;
    }

    /// Returns data that no other write of the run has.
    fn fresh(&self) -> u64 {
        self.calls * self.caller.context().processes + self.caller.first()
    }
}

/// `NoNode` of KeeperException.
const NO_NODE: i32 = -101;

/// A register.
struct Place {
    name: String,
    path: String,
}

impl Place {
    fn of(name: String) -> Place {
        let path = format!("{TOP}/{name}");
        Place { name, path }
    }
}

fn version_of(results: &[MultiResult]) -> Option<i32> {
    results.iter().find_map(|result| match result {
        MultiResult::Set(stat) => Some(stat.version),
        _ => None,
    })
}

impl Steps for Client {
    fn new(context: Context) -> Client {
        Client {
            newest: [0; KEYS],
            calls: 0,
            caller: Caller::new(context),
        }
    }

    fn caller(&mut self) -> &mut Caller {
        &mut self.caller
    }

    async fn step(&mut self) {
        if self.calls.is_multiple_of(CALLS) {
            self.newest = [0; KEYS];
            self.create().await;
        }
        let key = self.caller.rng.usize(..KEYS);
        match self.caller.rng.u8(..OLDER_EVERY) {
            0 => self.read_older(key).await,
            1 => self.write_in_failing_multi(key).await,
            2..7 => self.read_current(key).await,
            7..12 => self.write(key).await,
            _ => self.cas(key).await,
        }
        self.calls += 1;
    }

    async fn last(&mut self) {
        let Some(session) = self.caller.session().await else {
            return;
        };
        let names = session.get_children(TOP).await.unwrap_or_default();
        let registers = names.iter().filter(|name| name.starts_with('r'));
        for name in self.caller.rng.choose_multiple(registers, FINAL_MAX) {
            self.read(&Place::of(String::from(&**name))).await;
        }
    }
}
