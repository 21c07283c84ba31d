//! A hard quota on the number of znodes, and the usage that servers count.

use client::{Create, MultiRead, MultiReadResult, Result};
use serde_json::{Value, json};

use super::Context;
use super::caller::{Caller, Outcome};
use super::steps::{Definition, Steps, fresh};
use crate::check::quota::LIMIT;
use crate::check::set::FINAL_READ;
use crate::history::Event;
use crate::verdict::Verdict;

const TOP: &str = "/jepsen-quota";
const BOX: &str = "/jepsen-quota/box";
const LIMITS: &str = "/zookeeper/quota/jepsen-quota/box/zookeeper_limits";
const USAGE: &str = "/zookeeper/quota/jepsen-quota/box/zookeeper_stats";
/// Prefix of a usage.
const COUNT: &str = "count=";

/// A directory with a quota.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quota;

impl Definition for Quota {
    type Client = Client;

    fn name(&self) -> &'static str {
        "quota"
    }

    fn promise(&self) -> &'static str {
        "the usage of a quota is the number of znodes, and only concurrent requests can exceed the limit"
    }

    fn settings(&self) -> &'static [(&'static str, &'static str)] {
        &[("enforceQuota", "true")]
    }

    fn top(&self) -> &'static str {
        TOP
    }

    fn znodes(&self) -> Vec<(String, String)> {
        let mut znodes = vec![(BOX.to_owned(), String::new())];
        for end in ["/jepsen-quota", "/jepsen-quota/box"] {
            znodes.push((format!("/zookeeper/quota{end}"), String::new()));
        }
        let limits = format!("count=-1,bytes=-1=;countHardLimit={LIMIT}");
        znodes.push((LIMITS.to_owned(), limits));
        znodes.push((USAGE.to_owned(), "count=1,bytes=0".to_owned()));
        znodes
    }

    fn check(&self, events: &[Event], _steps_max: u64) -> Verdict {
        crate::check::quota::check(events)
    }
}

pub(super) struct Client {
    caller: Caller,
    added: u64,
    /// Its own names that may exist.
    mine: Vec<String>,
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
            shown(&session).await
        };
        self.caller.conclude(f, None, call, Value::clone).await;
    }

    async fn add(&mut self) {
        let Some(session) = self.caller.session().await else {
            return;
        };
        let name = format!("{}-{}", self.caller.first(), self.added);
        let path = format!("{BOX}/{name}");
        self.added += 1;
        self.mine.push(path.clone());
        self.caller.invoke("add", None, json!(name));
        let persistent = Create::persistent();
        let call = session.create(&path, "", &persistent);
        self.caller
            .conclude("add", None, call, |_| Value::Null)
            .await;
    }

    async fn remove(&mut self) {
        let Some(session) = self.caller.session().await else {
            return;
        };
        let Some(path) = self.mine.pop() else {
            return;
        };
        let name = path.rsplit('/').next();
        self.caller.invoke("remove", None, json!(name));
        let call = session.delete(&path, -1);
        let outcome = self.caller.conclude("remove", None, call, |()| Value::Null);
        if matches!(outcome.await, Outcome::Unknown(_)) {
            // It may still be part of the usage.
            self.mine.insert(0, path);
        }
    }
}

/// Returns the names and the usage that a server has at one moment.
async fn shown(session: &client::Client) -> Result<Value> {
    let reads = [MultiRead::Children(BOX), MultiRead::Data(USAGE)];
    let results = session.multi_read(&reads).await?;
    let (mut names, mut usage) = (None, None);
    for result in results {
        match result {
            MultiReadResult::Children(children) => {
                names = Some(
                    children
                        .iter()
                        .map(|name| json!(&**name))
                        .collect::<Vec<_>>(),
                );
            }
            MultiReadResult::Data(data, _) => usage = data.as_deref().and_then(count),
            MultiReadResult::Failed(_) => {}
        }
    }
    Ok(json!({"names": names, "usage": usage}))
}

/// Returns the number of znodes in a usage.
fn count(usage: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(usage).ok()?.strip_prefix(COUNT)?;
    text.split([',', ';', '=']).next()?.parse().ok()
}

impl Steps for Client {
    fn new(context: Context) -> Client {
        Client {
            caller: Caller::new(context),
            added: 0,
            mine: Vec::new(),
        }
    }

    fn caller(&mut self) -> &mut Caller {
        &mut self.caller
    }

    async fn step(&mut self) {
        match self.caller.rng.u8(..10) {
            0..=4 => self.add().await,
            5..=7 => self.remove().await,
            _ => self.read("read").await,
        }
    }

    async fn last(&mut self) {
        self.read(FINAL_READ).await;
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_usage_begins_with_the_number_of_znodes() {
        assert_eq!(super::count(b"count=12,bytes=0"), Some(12));
        assert_eq!(super::count(b"count=3,bytes=0=;byteHardLimit=-1"), Some(3));
        assert_eq!(super::count(b"bytes=0"), None);
    }
}
