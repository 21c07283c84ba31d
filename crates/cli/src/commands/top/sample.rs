//! Sample of the ensemble.

use std::collections::BTreeMap;
use std::time::Duration;

use client::admin::{AdminClient, AdminError, CredentialRule};
use client::port::ask_word;
use client::tls::Connector;
use serde_json::Value;

use crate::commands::ensemble::Member;
use crate::locate::{Located, Locator};

/// Time limit for a member, because a sample must not wait for a stopped member.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum numbers of clients and of slow requests that each member returns.
const CLIENTS: usize = 200;
const SLOW: usize = 5;

/// Members to query, with the requested properties.
pub(super) struct SampledMembers {
    members: Vec<Member>,
    /// Client addresses of the named servers.
    servers: Vec<String>,
    connector: Connector,
    admins: AdminPorts,
    locator: Locator,
    located: Located,
    by: &'static str,
}

/// Settings for queries to admin ports.
pub(super) struct AdminPorts {
    /// `host:port` of each admin port. `None` means the default ports of the named servers.
    pub(super) named: Option<Vec<String>>,
    pub(super) authorization: Option<String>,
    pub(super) connector: Connector,
}

/// Result of a sample.
#[derive(Debug, Default)]
pub(super) struct Sample {
    /// Fields of `srvr` by the client address of the member. The fields are empty for a member that
    /// does not answer.
    pub(super) members: BTreeMap<String, BTreeMap<String, String>>,
    /// Property by which clients are grouped.
    pub(super) by: &'static str,
    /// Clients by name, with the sums of their figures. `None` if no admin port answers.
    pub(super) clients: Option<BTreeMap<String, Client>>,
    /// Latest slow requests.
    pub(super) slow: Vec<Value>,
    /// Members and named admin ports that could not be queried, each with the reason.
    pub(super) silent: Vec<String>,
}

/// Figures of a client, by the name of the figure.
pub(super) type Client = BTreeMap<String, u64>;

impl SampledMembers {
    /// Looks up the ports of the members. The list of members is empty for a standalone server.
    pub(super) async fn new(
        mut members: Vec<Member>,
        servers: Vec<String>,
        connector: Connector,
        admins: AdminPorts,
        by: &str,
    ) -> Self {
        let locator = Locator::new(
            admins.named.clone(),
            &servers,
            admins.connector.clone(),
            connector.uses_tls(),
        );
        let located = locator.locate(&mut members).await;
        Self {
            members,
            servers,
            connector,
            admins,
            locator,
            located,
            by: if by == "identity" {
                "identity"
            } else {
                "address"
            },
        }
    }

    /// Returns the client addresses of the members, and of the named servers if a member's address
    /// is unknown.
    fn addresses(&self) -> Vec<String> {
        let members = self.members.iter();
        let mut addresses: Vec<String> = members.filter_map(|one| one.client.clone()).collect();
        if addresses.len() < self.members.len() || self.members.is_empty() {
            addresses.extend(self.servers.iter().cloned());
            addresses.sort_unstable();
            addresses.dedup();
        }
        addresses
    }

    /// Returns a client for each admin port, with the name of the port in messages.
    fn admin_clients(&self) -> Vec<(String, AdminClient)> {
        let client = |address: &String, credential_rule: CredentialRule| {
            AdminClient::new([address])
                .with_authorization(self.admins.authorization.as_deref())
                .with_credential_rule(credential_rule)
                .with_connector(self.admins.connector.clone())
        };
        let first: Vec<&String> = match &self.admins.named {
            Some(named) => named.iter().collect(),
            // The default port of a host may belong to another server, so only the located ports
            // are used.
            None => self.located.first.keys().collect(),
        };
        let first = first
            .into_iter()
            .map(|address| (address.clone(), client(address, CredentialRule::default())));
        let rule = self.located.rule;
        let others = self.located.others.iter().map(|(id, address)| {
            let shown = address.trim_end_matches("/commands");
            (format!("member {id} at {shown}"), client(address, rule))
        });
        first.chain(others).collect()
    }

    /// Queries all members concurrently. Looks up unknown ports for the next sample.
    pub(super) async fn sample(&mut self) -> Sample {
        let mut words = tokio::task::JoinSet::new();
        for member in self.addresses() {
            let connector = self.connector.clone();
            words.spawn(async move {
                let asked =
                    tokio::time::timeout(PATIENCE, ask_word(&member, "srvr", &connector)).await;
                let answer = asked.map_or_else(|_| String::new(), Result::unwrap_or_default);
                (member, fields(&answer))
            });
        }
        let mut answers = tokio::task::JoinSet::new();
        for (name, client) in self.admin_clients() {
            let by = self.by;
            answers.spawn(async move { (name, query_member(&client, by).await) });
        }
        let is_known = self.located.problems.is_empty();
        let located = async {
            if is_known {
                None
            } else {
                Some(self.locator.locate(&mut self.members).await)
            }
        };
        let (words, mut answers, located) =
            tokio::join!(words.join_all(), answers.join_all(), located);
        let mut sample = Sample {
            members: words.into_iter().collect(),
            by: self.by,
            ..Sample::default()
        };
        answers.sort_by(|one, other| one.0.cmp(&other.0));
        let is_reported = self.admins.named.is_some() || !self.located.first.is_empty();
        for (admin, answer) in answers {
            match answer {
                Ok(answer) => sample.add(&answer),
                // Errors are ignored if no admin port was named or found: Apache ZooKeeper lacks
                // this command, and an admin server may listen on a port other than the default.
                Err(reason) if is_reported => sample
                    .silent
                    .push(format!("cannot query {admin}: {reason}")),
                Err(_) => {}
            }
        }
        let problems = self.located.problems.iter();
        let problems = problems.filter(|_| is_reported);
        let problems = problems.map(|(id, reason)| format!("member {id}: {reason}"));
        sample.silent.extend(problems);
        if let Some(located) = located {
            self.located = located;
        }
        sample
            .slow
            .sort_by_key(|request| std::cmp::Reverse(request["at"].as_i64()));
        sample.slow.truncate(SLOW);
        sample
    }
}

/// Answer from an admin server about clients and slow requests.
struct AdminAnswer {
    clients: Value,
    /// Slow requests. Null if they cannot be queried, for example without permission.
    slow: Value,
}

async fn query_member(client: &AdminClient, by: &str) -> Result<AdminAnswer, String> {
    let parameter = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let wanted = [
        parameter("by", by),
        parameter("limit", &CLIENTS.to_string()),
    ];
    let newest = [parameter("limit", &SLOW.to_string())];
    let asking = async {
        let clients = client.ask("clients", &wanted).await;
        let clients = clients.map_err(|error| match error {
            AdminError::Unreachable { reason, .. } => reason,
            AdminError::Refused { text, .. } => text,
            AdminError::Unprotected { reason, .. } => reason.to_owned(),
            other => other.to_string(),
        })?;
        let slow = client.ask("slow_requests", &newest).await;
        Ok(AdminAnswer {
            clients,
            slow: slow.unwrap_or_default(),
        })
    };
    let answer = tokio::time::timeout(PATIENCE, asking).await;
    answer.unwrap_or_else(|_| Err("no answer in time".to_owned()))
}

impl Sample {
    fn add(&mut self, answer: &AdminAnswer) {
        let clients = self.clients.get_or_insert_default();
        for row in answer.clients["clients"].as_array().into_iter().flatten() {
            let name = row[self.by].as_str().unwrap_or_default().to_owned();
            let sums = clients.entry(name).or_default();
            for (figure, value) in row.as_object().into_iter().flatten() {
                let Some(value) = value.as_u64() else {
                    continue;
                };
                let sum = sums.entry(figure.clone()).or_default();
                // For the longest time, the maximum of two members applies. All other figures are
                // added.
                *sum = match figure.as_str() {
                    "max_latency" => value.max(*sum),
                    _ => sum.saturating_add(value),
                };
            }
        }
        let slow = answer.slow["requests"].as_array();
        self.slow.extend(slow.into_iter().flatten().cloned());
    }
}

/// Returns the lines `name: value` of an answer, keyed by name.
pub(crate) fn fields(answer: &str) -> BTreeMap<String, String> {
    let pairs = answer.lines().filter_map(|line| line.split_once(": "));
    pairs
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_of_one_client_at_two_members_add_up() {
        let mut sample = Sample {
            by: "address",
            ..Sample::default()
        };
        let answer = |requests: u64, max: u64| AdminAnswer {
            clients: json!({"clients": [{"address": "10.0.0.1", "requests": requests, "max_latency": max}]}),
            slow: Value::Null,
        };
        sample.add(&answer(5, 9));
        sample.add(&answer(7, 3));
        let clients = sample.clients.expect("answers");
        assert_eq!(
            (
                clients["10.0.0.1"]["requests"],
                clients["10.0.0.1"]["max_latency"]
            ),
            (12, 9)
        );
        assert!(sample.slow.is_empty());
    }

    #[test]
    fn the_fields_of_srvr_are_parsed() {
        let found =
            fields("Zookeeper version: 3.9.5\nLatency min/avg/max: 0/0.5/7\nMode: leader\n");
        assert_eq!((found["Mode"].as_str(), found.len()), ("leader", 3));
        assert!(fields("This ZooKeeper instance is not currently serving requests\n").is_empty());
    }
}
