//! Sessions that read and write several znodes, on whichever servers they connect to.

use client::Client as Session;
use serde_json::{Value, json};

use super::Context;
use super::caller::Caller;
use super::steps::{Definition, Steps};
use crate::history::Event;
use crate::verdict::Verdict;

const TOP: &str = "/jepsen-monotonic";
const KEYS: usize = 4;

/// The order that each session sees.
#[derive(Debug, Clone, Copy)]
pub(super) struct Monotonic;

impl Definition for Monotonic {
    type Client = Client;

    fn name(&self) -> &'static str {
        "monotonic"
    }

    fn promise(&self) -> &'static str {
        "a session always sees its own writes, and never an older state than before, even on another server"
    }

    fn top(&self) -> &'static str {
        TOP
    }

    fn znodes(&self) -> Vec<(String, String)> {
        (0..KEYS).map(|key| (path(key), String::new())).collect()
    }

    fn check(&self, events: &[Event], _steps_max: u64) -> Verdict {
        crate::check::sessions::check(events)
    }
}

fn path(key: usize) -> String {
    format!("{TOP}/{}", name(key))
}

fn name(key: usize) -> String {
    format!("m{key}")
}

/// Returns the record of a znode for the history.
fn seen(session: &Session, zxid: i64, version: i32) -> Value {
    let session = session.session_id().to_string();
    json!({"session": session, "zxid": zxid, "version": version})
}

pub(super) struct Client(Caller);

impl Client {
    async fn read(&mut self, key: usize) {
        let Some(session) = self.0.session().await else {
            return;
        };
        let (path, name) = (path(key), name(key));
        self.0.invoke("read", Some(&name), Value::Null);
        let call = session.get_data(&path);
        self.0
            .conclude("read", Some(&name), call, |(_, stat)| {
                seen(&session, stat.mzxid, stat.version)
            })
            .await;
    }

    async fn write(&mut self, key: usize) {
        let Some(session) = self.0.session().await else {
            return;
        };
        let (path, name) = (path(key), name(key));
        self.0.invoke("write", Some(&name), Value::Null);
        let call = session.set_data(&path, "", -1);
        self.0
            .conclude("write", Some(&name), call, |stat| {
                seen(&session, stat.mzxid, stat.version)
            })
            .await;
    }
}

impl Steps for Client {
    fn new(context: Context) -> Client {
        Client(Caller::new(context).keeping_session())
    }

    fn caller(&mut self) -> &mut Caller {
        &mut self.0
    }

    async fn step(&mut self) {
        let key = self.0.rng.usize(..KEYS);
        match self.0.rng.u8(..5) {
            0 => self.write(key).await,
            _ => self.read(key).await,
        }
    }

    async fn last(&mut self) {
        for key in 0..KEYS {
            self.read(key).await;
        }
    }
}
