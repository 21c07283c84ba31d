//! Client ports and admin ports of the members. The member list may lack client ports, and does not
//! contain admin ports.
//!
//! Each Zoarium member reports the admin ports of the others: `zoarium.admin.N`, or the other
//! member's host with the reporting member's own admin port. Queries for this report do not require
//! credentials.

use std::collections::BTreeMap;
use std::time::Duration;

use client::admin::{AdminClient, AdminError, CredentialRule};
use client::port::ADMIN_PORT;
use client::tls::Connector;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::commands::ensemble::Member;

/// Command with which an admin server reports the members and their ports.
const MEMBERS: &str = "members";
/// Time limit for the report from an admin server.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// Search for the ports of the members, with the admin ports that are queried first.
#[derive(Debug, Clone)]
pub(crate) struct Locator {
    /// Admin ports that the user named, or the default ports of the named servers.
    first: Vec<String>,
    /// Client ports of the named servers, if the admin ports are default ports. Reports with other
    /// client ports are not used, because the default admin port of a host may belong to another
    /// server. `None` if the user named the admin ports.
    expected: Option<Vec<String>>,
    connector: Connector,
    /// Whether sessions use TLS.
    is_secure: bool,
}

/// Admin ports of the members.
#[derive(Debug, Clone, Default)]
pub(crate) struct Located {
    /// Ids of the members that answered at the locator's admin ports, by admin port. The id of a
    /// standalone server is empty.
    pub(crate) first: BTreeMap<String, String>,
    /// Admin ports of the other members that have also answered, by id.
    pub(crate) others: BTreeMap<String, String>,
    /// Rule for the connections over which credentials are sent to the other members.
    pub(crate) rule: CredentialRule,
    /// Reasons why admin ports of members are unknown or cannot be used, by id.
    pub(crate) problems: BTreeMap<String, String>,
}

/// Report from an admin server.
#[derive(Debug)]
struct Report {
    id: String,
    client_port: Option<u64>,
    others: Vec<(String, String)>,
}

impl Locator {
    /// Creates a locator. `named` are the admin ports that the user named, and `servers` the client
    /// addresses of the named servers.
    pub(crate) fn new(
        named: Option<Vec<String>>,
        servers: &[String],
        connector: Connector,
        is_secure: bool,
    ) -> Self {
        let split = servers.iter().filter_map(|server| server.rsplit_once(':'));
        let (hosts, ports): (Vec<&str>, Vec<&str>) = split.unzip();
        let default_ports = || {
            let mut all: Vec<String> = Vec::new();
            for host in hosts {
                let address = format!("{host}:{ADMIN_PORT}");
                if !all.contains(&address) {
                    all.push(address);
                }
            }
            all
        };
        let expected = named.is_none();
        Self {
            first: named.unwrap_or_else(default_ports),
            expected: expected.then(|| ports.into_iter().map(str::to_owned).collect()),
            connector,
            is_secure,
        }
    }

    /// Returns the admin ports, and adds missing client ports to the members.
    pub(crate) async fn locate(&self, members: &mut [Member]) -> Located {
        let mut located = Located::default();
        let mut reported = None;
        let mut reasons = Vec::new();
        for (address, report) in self.reports(self.first.clone()).await {
            match report {
                Ok(report) if self.is_expected(&report) => {
                    report.complete(members);
                    if report.id.is_empty() || !located.has(&report.id) {
                        located.first.insert(address.clone(), report.id);
                    }
                    reported.get_or_insert((address, report.others));
                }
                Ok(_) => reasons.push(format!("{address} belongs to another server")),
                Err(reason) => reasons.push(format!("{address}: {reason}")),
            }
        }
        let Some((address, others)) = reported else {
            let reasons = reasons.join("; ");
            for member in members {
                let reason = format!("no admin port reports it ({reasons})");
                located.problems.insert(member.id.clone(), reason);
            }
            return located;
        };
        located.rule = CredentialRule::for_members_of(&address).await;
        let others = others.into_iter().filter(|(id, _)| !located.has(id));
        let others: Vec<(String, String)> = others.collect();
        let addresses = others.iter().map(|(_, address)| address.clone());
        let reports = self.reports(addresses.collect()).await;
        for ((id, _), (address, report)) in others.into_iter().zip(reports) {
            let shown = address.trim_end_matches("/commands").to_owned();
            match report {
                Ok(report) if report.id == id => {
                    report.complete(members);
                    located.others.insert(id, address);
                }
                Ok(report) => {
                    let found = match report.id.as_str() {
                        "" => "another server".to_owned(),
                        found => format!("member {found}"),
                    };
                    let reason = format!(
                        "its expected admin port {shown} belongs to {found}; set zoarium.admin.{id}"
                    );
                    located.problems.insert(id, reason);
                }
                Err(reason) => {
                    let reason = format!("cannot query its admin port {shown}: {reason}");
                    located.problems.insert(id, reason);
                }
            }
        }
        located
    }

    /// Queries admin ports concurrently, and returns their reports in the same order.
    async fn reports(&self, addresses: Vec<String>) -> Vec<(String, Result<Report, String>)> {
        let mut queries = JoinSet::new();
        for (index, address) in addresses.into_iter().enumerate() {
            let locator = self.clone();
            queries.spawn(async move {
                let report = locator.report(&address).await;
                (index, (address, report))
            });
        }
        let mut reports = queries.join_all().await;
        reports.sort_by_key(|(index, _)| *index);
        reports.into_iter().map(|(_, report)| report).collect()
    }

    async fn report(&self, address: &str) -> Result<Report, String> {
        let client = AdminClient::new([address]).with_connector(self.connector.clone());
        match timeout(ANSWER_LIMIT, client.ask(MEMBERS, &[])).await {
            Ok(Ok(answer)) => Ok(self.read(&answer)),
            Ok(Err(AdminError::Refused { status, .. })) if status.as_u16() == 404 => {
                Err("the server does not report its members".to_owned())
            }
            Ok(Err(AdminError::Unreachable { reason, .. })) => Err(reason),
            Ok(Err(AdminError::Refused { text, .. })) => Err(text),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("no answer in time".to_owned()),
        }
    }

    fn read(&self, answer: &Value) -> Report {
        let id = |value: &Value| value.as_i64().map_or(String::new(), |id| id.to_string());
        let (plain, secure) = (&answer["client_port"], &answer["secure_client_port"]);
        let ports = if self.is_secure {
            [secure, plain]
        } else {
            [plain, secure]
        };
        let others = answer["others"].as_array().into_iter().flatten();
        let others = others.filter_map(|other| {
            let admin = other["admin"].as_str()?;
            Some((id(&other["member"]), admin.to_owned()))
        });
        Report {
            id: id(&answer["member"]),
            client_port: ports.into_iter().find_map(Value::as_u64),
            others: others.collect(),
        }
    }

    /// Returns whether the report is from a named server, or from an admin port that the user
    /// named.
    fn is_expected(&self, report: &Report) -> bool {
        let port = report.client_port.map(|port| port.to_string());
        let expected = self.expected.as_ref();
        expected.is_none_or(|expected| port.is_some_and(|port| expected.contains(&port)))
    }
}

impl Located {
    /// Returns whether this member answered at one of the locator's admin ports.
    fn has(&self, id: &str) -> bool {
        self.first.values().any(|found| found == id)
    }
}

impl Report {
    fn complete(&self, members: &mut [Member]) {
        let member = members.iter_mut().find(|member| member.id == self.id);
        if let (Some(member), Some(port)) = (member, self.client_port)
            && member.client.is_none()
        {
            member.client = Some(format!("{}:{port}", member.host));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use serde_json::json;

    use super::*;

    /// Answers each request with the same report. Returns the address.
    fn admin_port(listener: TcpListener, report: &Value) -> String {
        let address = listener.local_addr().unwrap().to_string();
        let report = report.to_string();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let mut part = [0; 1024];
                    match stream.read(&mut part).unwrap() {
                        0 => break,
                        read => request.extend_from_slice(&part[..read]),
                    }
                }
                let length = report.len();
                let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length:";
                let answer = format!("{head} {length}\r\n\r\n{report}");
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        address
    }

    fn listener() -> TcpListener {
        TcpListener::bind("127.0.0.1:0").unwrap()
    }

    fn members() -> Vec<Member> {
        let list = "server.1=127.0.0.1:1:2;3\nserver.2=127.0.0.1:4:5\nserver.3=127.0.0.1:6:7\n";
        crate::commands::ensemble::member_list(list)
    }

    fn locator(named: &[&str]) -> Locator {
        let named = named.iter().map(|&address| address.to_owned()).collect();
        Locator::new(Some(named), &[], Connector::plain(), false)
    }

    #[tokio::test]
    async fn members_on_one_host_are_found_by_the_report_of_one_member() {
        let (first, second) = (listener(), listener());
        let own = first.local_addr().unwrap().to_string();
        let other = second.local_addr().unwrap().to_string();
        // Without `zoarium.admin.3`, the derived admin port of member 3 is the port of member 1.
        let report = json!({
            "member": 1, "client_port": 3,
            "others": [{ "member": 2, "admin": other }, { "member": 3, "admin": own }],
        });
        let own = admin_port(first, &report);
        let other = admin_port(second, &json!({ "member": 2, "client_port": 99 }));
        let mut members = members();
        let located = locator(&[&own]).locate(&mut members).await;
        let clients: Vec<Option<&str>> = members
            .iter()
            .map(|member| member.client.as_deref())
            .collect();
        assert_eq!(clients, [Some("127.0.0.1:3"), Some("127.0.0.1:99"), None]);
        assert_eq!(located.first[&own], "1");
        assert_eq!(located.others["2"], other);
        let reason =
            format!("its expected admin port {own} belongs to member 1; set zoarium.admin.3");
        assert_eq!(located.problems, [("3".to_owned(), reason)].into());
        assert_eq!(located.rule, CredentialRule::TlsOrLoopback);
    }

    #[tokio::test]
    async fn a_default_admin_port_of_another_server_is_not_used() {
        let admin = admin_port(listener(), &json!({ "member": 1, "client_port": 5 }));
        let mut locator = locator(&[&admin]);
        locator.expected = Some(vec!["3".to_owned()]);
        let located = locator.locate(&mut members()).await;
        assert!(located.first.is_empty(), "{located:?}");
        let reason = format!("no admin port reports it ({admin} belongs to another server)");
        assert_eq!(located.problems["2"], reason);
        locator.expected = Some(vec!["5".to_owned()]);
        assert_eq!(locator.locate(&mut members()).await.first[&admin], "1");
        let servers = ["a:2181", "a:2182", "[::1]:2181"].map(str::to_owned);
        let default = Locator::new(None, &servers, Connector::plain(), false);
        assert_eq!(default.first, ["a:8080", "[::1]:8080"]);
    }
}
