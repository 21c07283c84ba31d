//! Command `status`, which shows a table of members and the health of the ensemble.

use std::collections::BTreeMap;

use client::port::ask_word;
use client::tls::Connector;
use proto::Sid;
use proto::health::{Health, MemberHealth, MemberState, Verdict, assess};
use proto::quorum::QuorumVerifier;
use serde_json::{Value, json};

use crate::commands::ensemble::{Member, member_addresses};
use crate::commands::top::fields;
use crate::exit;
use crate::failure::Failure;
use crate::locate::Locator;
use crate::shell::Shell;

/// Columns of the table.
const COLUMNS: [&str; 7] = [
    "MEMBER",
    "ROLE",
    "ZXID",
    "LAG",
    "VERSION",
    "ADDRESS",
    "CONNECTIONS",
];

/// End of the answer to a four-letter word that the server does not allow.
const NOT_ALLOWED: &str = "is not executed because it is not in the whitelist";

/// Known properties of a member.
#[derive(Debug)]
struct MemberStatus {
    member: Option<String>,
    sid: Option<Sid>,
    state: MemberState,
    address: Option<String>,
    /// Fields of the answer to `srvr`, by name.
    fields: BTreeMap<String, String>,
    /// Reason why the fields are missing.
    problem: Option<String>,
}

/// Prints the table and returns the exit code for the state. `admins` are the admin ports that the
/// user named.
pub(super) async fn status(
    shell: &mut Shell,
    is_all: bool,
    admins: &[String],
) -> Result<u8, Failure> {
    let (options, _) = shell.start.options(shell.server())?;
    let given: Vec<String> = options.servers().iter().map(ToString::to_string).collect();
    let mut members = Vec::new();
    let mut quorum = None;
    let mut problems = BTreeMap::new();
    if is_all {
        match member_addresses(shell).await {
            Ok(listed) => {
                members = listed.members;
                quorum = Some(listed.quorum);
            }
            Err(failure) => shell.print_error(&format!(
                "the member list cannot be read, so only the named servers are shown: {}",
                failure.plain()
            )),
        }
    }
    if needs_ports(&members, &given) {
        let admins = (!admins.is_empty()).then(|| admins.to_vec());
        let connector = shell.start.connector.clone();
        let connector = connector.unwrap_or_else(Connector::plain);
        let is_secure = options.connector().uses_tls();
        let locator = Locator::new(admins, &given, connector, is_secure);
        problems = locator.locate(&mut members).await.problems;
    }
    let mut rows = Vec::new();
    for mut row in wanted(members, given, &problems) {
        let connector = options.connector().clone();
        rows.push(tokio::spawn(async move {
            row.query(&connector).await;
            row
        }));
    }
    let mut answered = Vec::new();
    for row in rows {
        let row = row.await;
        answered.push(row.map_err(|error| Failure::new(format!("a query failed: {error}")))?);
    }
    let health = health(&answered, quorum.as_deref());
    let leader = answered.iter().find_map(|row| match row.role() {
        "leader" | "standalone" => row.zxid(),
        _ => None,
    });
    shell.show(
        || as_json(&answered, &health, leader),
        || as_text(&answered, &health, leader),
    );
    Ok(match health.verdict {
        Verdict::Healthy => exit::DONE,
        Verdict::Degraded => exit::DEGRADED,
        Verdict::NoQuorum | Verdict::Down => exit::UNREACHABLE,
    })
}

/// Returns whether the client port of a member is unknown, and the user did not name all servers.
fn needs_ports(members: &[Member], given: &[String]) -> bool {
    let has_all = members.iter().all(|member| member.client.is_some());
    !has_all && given.len() < members.len()
}

/// Returns the rows of the members, or of the named servers if there are no members. If a member's
/// client port is unknown, the named servers replace the members. If fewer servers than members are
/// named, they have additional rows instead. `problems` contains the reasons why client ports are
/// unknown, by member id.
fn wanted(
    members: Vec<Member>,
    given: Vec<String>,
    problems: &BTreeMap<String, String>,
) -> Vec<MemberStatus> {
    let has_all = members.iter().all(|member| member.client.is_some());
    let has_all_given = !has_all && given.len() >= members.len();
    let is_known = |address: &String| {
        let mut known = members.iter().filter_map(|member| member.client.as_ref());
        known.any(|client| client == address)
    };
    let named = given
        .into_iter()
        .filter(|address| members.is_empty() || has_all_given || !has_all && !is_known(address));
    let named = named.map(|address| MemberStatus::unknown(None, Some(address)));
    let named: Vec<MemberStatus> = named.collect();
    if has_all_given {
        return named;
    }
    let rows = members.into_iter().map(|member| {
        let reason = problems.get(&member.id);
        let reason = reason.map(|reason| format!("its client port is unknown: {reason}"));
        let problem = reason.filter(|_| member.client.is_none());
        let sid = member.sid();
        MemberStatus {
            problem,
            sid,
            ..MemberStatus::unknown(Some(member.id), member.client)
        }
    });
    named.into_iter().chain(rows).collect()
}

impl MemberStatus {
    fn unknown(member: Option<String>, address: Option<String>) -> Self {
        Self {
            member,
            sid: None,
            state: MemberState::Unknown,
            address,
            fields: BTreeMap::new(),
            problem: None,
        }
    }

    async fn query(&mut self, connector: &Connector) {
        let Some(address) = &self.address else {
            self.state = MemberState::NeverReached;
            let hint = "its client port is unknown";
            let problem = self.problem.take().unwrap_or_else(|| hint.to_owned());
            let remedy = "name all servers with -s, or an admin port with --admin";
            self.problem = Some(format!("{problem}; {remedy}"));
            return;
        };
        match ask_word(address, "srvr", connector).await {
            Ok(answer) => {
                self.fields = fields(&answer);
                if let Some(state) = MemberState::of_role(self.role()) {
                    self.state = state;
                    return;
                }
                let line = answer.lines().next().unwrap_or_default();
                self.problem = Some(match line {
                    line if line.ends_with(&format!("{NOT_ALLOWED}.")) => {
                        "the server does not answer srvr; allow this word in 4lw.commands.whitelist"
                            .to_owned()
                    }
                    line if line.contains("not currently serving") => {
                        self.state = MemberState::Looking;
                        "the server does not serve clients, because it has no leader".to_owned()
                    }
                    _ => "the port is not a client port".to_owned(),
                });
            }
            Err(error) => {
                self.state = MemberState::Unreachable;
                self.problem = Some(error.to_string());
            }
        }
    }

    fn role(&self) -> &str {
        self.fields.get("Mode").map_or("-", String::as_str)
    }

    fn zxid(&self) -> Option<i64> {
        let text = self.fields.get("Zxid")?;
        i64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
    }

    /// Returns the number of transactions that the member lacks if it is in the leader's epoch.
    fn lag(&self, leader: Option<i64>) -> Option<i64> {
        let (own, leader) = (self.zxid()?, leader?);
        (own >> 32 == leader >> 32).then(|| (leader - own).max(0))
    }

    fn version(&self) -> Option<&str> {
        let text = self.fields.get("Zookeeper version")?;
        text.split([',', ' ']).next()?.split('-').next()
    }

    fn connections(&self) -> Option<u64> {
        self.fields.get("Connections")?.parse().ok()
    }
}

/// Returns the health of the ensemble, or of the servers if the ids of some of them are unknown.
fn health(rows: &[MemberStatus], quorum: Option<&dyn QuorumVerifier>) -> Health {
    let members = rows.iter().map(|row| MemberHealth {
        name: match (row.sid, &row.address) {
            (Some(sid), _) => format!("server {sid}"),
            (None, Some(address)) => address.clone(),
            (None, None) => "a server".to_owned(),
        },
        sid: row.sid,
        state: row.state,
        lag_ms: None,
    });
    let members: Vec<MemberHealth> = members.collect();
    let are_known = rows.iter().all(|row| row.sid.is_some()) && !rows.is_empty();
    assess(&members, quorum.filter(|_| are_known), None)
}

/// Returns the verdict as a word for scripts.
fn state_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Healthy => "healthy",
        Verdict::Degraded => "degraded",
        Verdict::NoQuorum | Verdict::Down => "down",
    }
}

fn as_json(rows: &[MemberStatus], health: &Health, leader: Option<i64>) -> Value {
    let rows = rows.iter().map(|row| {
        json!({
            "member": row.member,
            "role": match row.role() { "-" => None, role => Some(role) },
            "zxid": row.fields.get("Zxid"),
            "lag": row.lag(leader),
            "version": row.version(),
            "address": row.address,
            "connections": row.connections(),
            "problem": row.problem,
        })
    });
    json!({
        "state": state_name(health.verdict),
        "health": health.to_string(),
        "members": rows.collect::<Vec<Value>>(),
    })
}

fn as_text(rows: &[MemberStatus], health: &Health, leader: Option<i64>) -> String {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let mut cells: Vec<Vec<String>> = vec![COLUMNS.map(str::to_owned).to_vec()];
    for row in rows {
        let mut line = vec![
            or_dash(row.member.clone()),
            row.role().to_owned(),
            or_dash(row.fields.get("Zxid").cloned()),
            or_dash(row.lag(leader).map(|lag| lag.to_string())),
            or_dash(row.version().map(str::to_owned)),
            or_dash(row.address.clone()),
            or_dash(row.connections().map(|count| count.to_string())),
        ];
        line.extend(row.problem.clone());
        cells.push(line);
    }
    let width = |column: usize| {
        let of_column = cells.iter().filter_map(|line| line.get(column));
        of_column.map(String::len).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..COLUMNS.len()).map(width).collect();
    let mut text = String::new();
    for line in &cells {
        let mut shown = String::new();
        for (column, cell) in line.iter().enumerate() {
            let width = widths.get(column).copied().unwrap_or_default();
            shown.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(shown.trim_end());
        text.push('\n');
    }
    text + &health.to_string()
}

#[cfg(test)]
mod tests {
    use proto::quorum::Majority;

    use super::*;

    fn row(mode: &str, zxid: &str) -> MemberStatus {
        let fields = [
            ("Mode", mode),
            ("Zxid", zxid),
            ("Connections", "3"),
            ("Zookeeper version", "3.9.5-abc, built on 2026-01-01"),
        ];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        MemberStatus {
            sid: Some(Sid(1)),
            state: MemberState::of_role(mode).unwrap(),
            fields: fields.into(),
            ..MemberStatus::unknown(Some("1".to_owned()), Some("a:2181".to_owned()))
        }
    }

    #[test]
    fn the_ensemble_is_assessed_if_all_servers_have_ids() {
        let quorum = Majority::new([Sid(1), Sid(2)]);
        let mut other = row("follower", "0x1");
        other.sid = Some(Sid(2));
        let mut rows = [row("leader", "0x1"), other];
        let of_ensemble = health(&rows, Some(&quorum)).to_string();
        assert_eq!(
            of_ensemble,
            "Healthy (2 of 2 voters in sync, tolerates no failure)"
        );
        rows[1].sid = None;
        let of_servers = health(&rows, Some(&quorum));
        assert_eq!(of_servers.to_string(), "Healthy (2 of 2 servers serving)");
        assert_eq!(health(&rows, None), of_servers);
        rows[1].state = MemberState::Unreachable;
        assert_eq!(
            health(&rows, None).to_string(),
            "Degraded (1 of 2 servers serving; a:2181 is unreachable)"
        );
    }

    #[test]
    fn the_table_shows_lag_and_problems() {
        let rows = [row("leader", "0x100000009"), row("follower", "0x100000002")];
        let health = health(&rows, None);
        let text = as_text(&rows, &health, rows[0].zxid());
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[0], COLUMNS);
        let wanted = ["1", "follower", "0x100000002", "7", "3.9.5", "a:2181", "3"];
        assert_eq!(lines[2], wanted);
        assert_eq!(lines[3].join(" "), health.to_string());
        let json = as_json(&rows, &health, rows[0].zxid());
        assert_eq!(json["state"], "healthy");
        assert_eq!(json["members"][1]["lag"], 7);
        // The distance between zxids of two epochs is undefined.
        assert_eq!(row("follower", "0x200000001").lag(rows[0].zxid()), None);
    }

    #[test]
    fn members_without_a_client_address_are_shown() {
        let member = |id: &str, client: Option<&str>| Member {
            id: id.to_owned(),
            host: "h".to_owned(),
            client: client.map(str::to_owned),
            role: "participant".to_owned(),
        };
        let list = || vec![member("1", Some("h:1")), member("2", None)];
        let given = |count: usize| vec!["x:1".to_owned(); count];
        let problems = [("2".to_owned(), "no admin port reports it".to_owned())].into();
        let rows = wanted(list(), given(1), &problems);
        assert_eq!(
            (&rows[0].member, rows[0].address.as_deref()),
            (&None, Some("x:1"))
        );
        let rows = &rows[1..];
        assert_eq!(rows[0].address.as_deref(), Some("h:1"));
        assert_eq!(
            (&rows[1].member, &rows[1].address),
            (&Some("2".to_owned()), &None)
        );
        let reason = "its client port is unknown: no admin port reports it";
        assert_eq!(rows[1].problem.as_deref(), Some(reason));
        assert!(needs_ports(&list(), &given(1)) && !needs_ports(&list(), &given(2)));
        let rows = wanted(list(), given(2), &problems);
        assert_eq!((rows.len(), &rows[0].member), (2, &None));
        assert_eq!(wanted(Vec::new(), given(1), &problems).len(), 1);
    }
}
