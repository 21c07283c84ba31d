//! Reads after a `sync`. The leader that answers a `sync` may have lost its quorum, in Apache
//! ZooKeeper and in Zoarium. A read therefore counts only if a later write on this connection was
//! acknowledged: then that leader still had its quorum.

use client::Client as Session;
use serde_json::{Value, json};

use super::Context;
use super::caller::Caller;
use super::steps::{Definition, Steps, scratch};
use crate::check::set::FINAL_READ;
use crate::history::Event;
use crate::verdict::Verdict;

const TOP: &str = "/jepsen-sync";
const KEYS: usize = 3;

/// Synced reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Synced;

impl Definition for Synced {
    type Client = Client;

    fn name(&self) -> &'static str {
        "sync"
    }

    fn promise(&self) -> &'static str {
        "a read after a sync shows everything that was acknowledged or read before the sync began"
    }

    fn top(&self) -> &'static str {
        TOP
    }

    fn znodes(&self) -> Vec<(String, String)> {
        (0..KEYS).map(|key| (path(key), String::new())).collect()
    }

    fn check(&self, events: &[Event], _steps_max: u64) -> Verdict {
        crate::check::recency::check(events)
    }
}

fn name(key: usize) -> String {
    format!("y{key}")
}

fn path(key: usize) -> String {
    format!("{TOP}/{}", name(key))
}

/// Returns the version after a sync. All three requests are sent together on one connection. If it
/// is lost, none of them counts.
async fn synced(session: &Session, path: &str, confirm: &str) -> client::Result<i32> {
    let (synced, read, confirmed) = tokio::join!(
        session.sync(path),
        session.get_data(path),
        session.set_data(confirm, "", -1),
    );
    synced?;
    confirmed?;
    Ok(read?.1.version)
}

pub(super) struct Client {
    caller: Caller,
}

impl Client {
    async fn read(&mut self, f: &str, key: usize) {
        let Some(session) = self.caller.session().await else {
            return;
        };
        let (path, name) = (path(key), name(key));
        let confirm = scratch(TOP, self.caller.first());
        self.caller.invoke(f, Some(&name), Value::Null);
        let call = synced(&session, &path, &confirm);
        self.caller
            .conclude(f, Some(&name), call, |version| json!(version))
            .await;
    }

    async fn write(&mut self, key: usize) {
        let Some(session) = self.caller.session().await else {
            return;
        };
        let (path, name) = (path(key), name(key));
        self.caller.invoke("write", Some(&name), Value::Null);
        let call = session.set_data(&path, "", -1);
        self.caller
            .conclude("write", Some(&name), call, |stat| json!(stat.version))
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
        let key = self.caller.rng.usize(..KEYS);
        match self.caller.rng.u8(..3) {
            0 => self.write(key).await,
            _ => self.read("read", key).await,
        }
    }

    async fn last(&mut self) {
        for key in 0..KEYS {
            self.read(FINAL_READ, key).await;
        }
    }
}
