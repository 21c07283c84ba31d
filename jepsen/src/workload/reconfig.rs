//! Reconfigurations by clients, under the load of other clients: members become observers, and
//! voters again.

use ::tests::ensemble::SUPER;
use client::{Client as Session, Error, Result};
use proto::request::ReconfigRequest;
use serde_json::{Value, json};

use super::Context;
use super::caller::Caller;
use super::steps::{Definition, Steps, fresh};
use crate::check::set::FINAL_READ;
use crate::history::Event;
use crate::verdict::Verdict;

const TOP: &str = "/jepsen-reconfig";
/// Znode with a server's list of members.
const CONFIG: &str = "/zookeeper/config";
/// One of this many calls is a change.
const CHANGE_EVERY: u32 = 12;
/// Minimum number of voters.
const VOTERS_MIN: usize = 2;

/// Lists of members.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reconfig;

impl Definition for Reconfig {
    type Client = Client;

    fn name(&self) -> &'static str {
        "reconfig"
    }

    fn promise(&self) -> &'static str {
        "each member list is based on the previous list, and no acknowledged list is lost"
    }

    fn top(&self) -> &'static str {
        TOP
    }

    fn check(&self, events: &[Event], _steps_max: u64) -> Verdict {
        crate::check::config::check(events)
    }
}

/// A server's list of members.
#[derive(Debug, Clone)]
struct List {
    version: i64,
    /// Lines of members, by id, and whether they vote.
    members: Vec<(u64, String, bool)>,
}

impl List {
    fn parse(text: &[u8]) -> Option<List> {
        let text = std::str::from_utf8(text).ok()?;
        let mut list = List {
            version: 0,
            members: Vec::new(),
        };
        for line in text.lines() {
            if let Some(version) = line.strip_prefix("version=") {
                list.version = i64::from_str_radix(version, 16).ok()?;
            } else if let Some(server) = line.strip_prefix("server.") {
                let (id, _) = server.split_once('=')?;
                let votes = server.contains(":participant");
                list.members
                    .push((id.parse().ok()?, line.to_owned(), votes));
            }
        }
        list.members.sort();
        Some(list)
    }

    /// Returns which members vote.
    fn shown(&self) -> Value {
        let members = self.members.iter();
        let members = members.map(|(id, _, votes)| (id.to_string(), json!(votes)));
        json!({"version": self.version, "members": Value::Object(members.collect())})
    }
}

/// Reads the list of the session's server.
async fn list(session: &Session) -> Result<List> {
    let (data, _) = session.get_data(CONFIG).await?;
    let list = data.as_deref().and_then(List::parse);
    list.ok_or(Error::NoServers)
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
            list(&session).await
        };
        self.caller.conclude(f, None, call, List::shown).await;
    }

    /// Makes one member an observer, or an observer a voter, unless another client was faster.
    async fn change(&mut self) {
        let Some(session) = self.caller.session().await else {
            return;
        };
        let (Ok(()), Ok(list)) = (
            session.add_auth("digest", SUPER).await,
            list(&session).await,
        ) else {
            return;
        };
        let observers = list.members.iter().filter(|(_, _, votes)| !votes);
        let mut may_change: Vec<_> = observers.collect();
        let voters = list.members.len() - may_change.len();
        // Most voters stay, so that the voters without a fault are still a quorum.
        if may_change.is_empty() && voters > VOTERS_MIN {
            may_change = list.members.iter().collect();
        }
        let Some((id, line, votes)) = self.caller.rng.choice(may_change) else {
            return;
        };
        let line = if *votes {
            line.replace(":participant", ":observer")
        } else {
            line.replace(":observer", ":participant")
        };
        let value = json!({"from": list.version, "member": id.to_string(), "votes": !votes});
        self.caller.invoke("change", None, value);
        let request = ReconfigRequest {
            joining: Some(line.as_str().into()),
            leaving: None,
            new_members: None,
            config_version: list.version,
        };
        let call = async {
            let (data, _) = session.reconfig(&request).await?;
            let list = data.as_deref().and_then(List::parse);
            list.ok_or(Error::NoServers)
        };
        self.caller
            .conclude("change", None, call, List::shown)
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
        match self.caller.rng.u32(..CHANGE_EVERY) {
            0 => self.change().await,
            _ => self.read("read").await,
        }
    }

    async fn last(&mut self) {
        self.read(FINAL_READ).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_members_and_a_version() {
        let text = b"server.2=h:1:2:observer;h:3\nserver.1=h:1:2:participant;h:3\nversion=1f";
        let list = List::parse(text).expect("a list");
        let shown = json!({"version": 31, "members": {"1": true, "2": false}});
        assert_eq!(list.shown(), shown);
        assert!(List::parse(b"server.x=").is_none() && List::parse(b"version=x").is_none());
    }
}
