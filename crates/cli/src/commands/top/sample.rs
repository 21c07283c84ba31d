//! One sample of the ensemble.

use std::collections::BTreeMap;
use std::time::Duration;

use client::admin::AdminClient;
use client::port::{ADMIN_PORT, ask_word};
use client::tls::Connector;
use serde_json::Value;

/// Time limit for a member. A sample must not wait for a stopped member.
const PATIENCE: Duration = Duration::from_secs(2);
/// Numbers of clients and of slow requests that each member returns.
const CLIENTS: usize = 200;
const SLOW: usize = 5;

/// Members to query, with the requested properties.
pub(super) struct Asking {
    /// Client addresses as `host:port`.
    members: Vec<String>,
    connector: Connector,
    /// One client per admin port.
    admins: Vec<AdminClient>,
    /// Whether the user named the admin ports.
    are_named: bool,
    by: &'static str,
}

/// Settings for queries to admin ports.
pub(super) struct Admins {
    /// `host:port` of each. `None` means the default ports of the members.
    pub(super) named: Option<Vec<String>>,
    pub(super) authorization: Option<String>,
    pub(super) connector: Connector,
}

/// Result of a sample.
#[derive(Debug, Default)]
pub(super) struct Sample {
    /// Fields of `srvr` by member name. The fields are empty for a member that does not answer.
    pub(super) members: BTreeMap<String, BTreeMap<String, String>>,
    /// Property by which clients are grouped.
    pub(super) by: &'static str,
    /// Clients by name, with the sums of their figures. `None` if no admin port answers.
    pub(super) clients: Option<BTreeMap<String, Client>>,
    /// Latest slow requests.
    pub(super) slow: Vec<Value>,
    /// Named admin ports that did not answer, with the reasons.
    pub(super) silent: Vec<String>,
}

/// Figures of a client by name.
pub(super) type Client = BTreeMap<String, u64>;

impl Asking {
    pub(super) fn new(
        members: Vec<String>,
        connector: Connector,
        admins: Admins,
        by: &str,
    ) -> Self {
        let guessed = || {
            let hosts = members.iter().filter_map(|member| member.rsplit_once(':'));
            let mut ports: Vec<String> = hosts
                .map(|(host, _)| format!("{host}:{ADMIN_PORT}"))
                .collect();
            ports.dedup();
            ports
        };
        let are_named = admins.named.is_some();
        let ports = admins.named.unwrap_or_else(guessed);
        let clients = ports.into_iter().map(|port| AdminClient {
            servers: vec![port],
            authorization: admins.authorization.clone(),
            connector: admins.connector.clone(),
            ..AdminClient::default()
        });
        Self {
            admins: clients.collect(),
            members,
            connector,
            are_named,
            by: if by == "identity" {
                "identity"
            } else {
                "address"
            },
        }
    }

    /// Queries all members concurrently.
    pub(super) async fn sample(&self) -> Sample {
        let mut words = tokio::task::JoinSet::new();
        for member in &self.members {
            let (member, connector) = (member.clone(), self.connector.clone());
            words.spawn(async move {
                let asked =
                    tokio::time::timeout(PATIENCE, ask_word(&member, "srvr", &connector)).await;
                let answer = asked.map_or_else(|_| String::new(), Result::unwrap_or_default);
                (member, fields(&answer))
            });
        }
        let mut answers = tokio::task::JoinSet::new();
        for client in &self.admins {
            let (client, by) = (client.clone(), self.by);
            answers.spawn(async move { (client.servers.concat(), ask(&client, by).await) });
        }
        let mut sample = Sample {
            members: words.join_all().await.into_iter().collect(),
            by: self.by,
            ..Sample::default()
        };
        let mut answers = answers.join_all().await;
        answers.sort_by(|one, other| one.0.cmp(&other.0));
        for (admin, answer) in answers {
            match answer {
                Ok(answer) => sample.add(&answer),
                // Apache ZooKeeper does not have this command, and an admin server may listen on a
                // port other than the default.
                Err(reason) if self.are_named => sample.silent.push(format!("{admin}: {reason}")),
                Err(_) => {}
            }
        }
        sample
            .slow
            .sort_by_key(|request| std::cmp::Reverse(request["at"].as_i64()));
        sample.slow.truncate(SLOW);
        sample
    }
}

/// Answer of an admin server about clients and slow requests.
struct Answer {
    clients: Value,
    /// Null if the user has no permission to see them.
    slow: Value,
}

async fn ask(client: &AdminClient, by: &str) -> Result<Answer, String> {
    let parameter = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let wanted = [
        parameter("by", by),
        parameter("limit", &CLIENTS.to_string()),
    ];
    let newest = [parameter("limit", &SLOW.to_string())];
    let asking = async {
        let clients = client.ask("clients", &wanted).await;
        let clients = clients.map_err(|error| error.to_string())?;
        let slow = client.ask("slow_requests", &newest).await;
        Ok(Answer {
            clients,
            slow: slow.unwrap_or_default(),
        })
    };
    let answer = tokio::time::timeout(PATIENCE, asking).await;
    answer.unwrap_or_else(|_| Err("no answer in time".to_owned()))
}

impl Sample {
    fn add(&mut self, answer: &Answer) {
        let clients = self.clients.get_or_insert_default();
        for row in answer.clients["clients"].as_array().into_iter().flatten() {
            let name = row[self.by].as_str().unwrap_or_default().to_owned();
            let sums = clients.entry(name).or_default();
            for (figure, value) in row.as_object().into_iter().flatten() {
                let Some(value) = value.as_u64() else {
                    continue;
                };
                let sum = sums.entry(figure.clone()).or_default();
                // For two members, the maximum of the longest time applies. All other figures are
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

/// Returns the lines `name: value` of an answer by name.
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
        let answer = |requests: u64, max: u64| Answer {
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
    fn admin_ports_are_guessed_from_members_once_for_each_host() {
        let members = ["a:2181", "a:2182", "[::1]:2181"]
            .map(str::to_owned)
            .to_vec();
        let admins = Admins {
            named: None,
            authorization: None,
            connector: Connector::plain(),
        };
        let asking = Asking::new(members, Connector::plain(), admins, "address");
        let ports: Vec<&str> = asking
            .admins
            .iter()
            .flat_map(|admin| admin.servers.iter().map(String::as_str))
            .collect();
        assert_eq!(ports, ["a:8080", "[::1]:8080"]);
    }

    #[test]
    fn srvr_is_taken_apart() {
        let found =
            fields("Zookeeper version: 3.9.5\nLatency min/avg/max: 0/0.5/7\nMode: leader\n");
        assert_eq!((found["Mode"].as_str(), found.len()), ("leader", 3));
        assert!(fields("This ZooKeeper instance is not currently serving requests\n").is_empty());
    }
}
