//! `status`: a table of members, and whether the ensemble is healthy.

use std::collections::BTreeMap;

use client::port::ask_word;
use client::tls::Connector;
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

/// Answer to a word that the server does not allow.
const NOT_ALLOWED: &str = "is not executed because it is not in the whitelist";

/// State of the ensemble as far as the members show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EnsembleHealth {
    Healthy,
    Degraded,
    Down,
}

/// Known properties of a member.
#[derive(Debug, Default)]
struct MemberStatus {
    member: Option<String>,
    address: Option<String>,
    /// Fields of `srvr` by name.
    fields: BTreeMap<String, String>,
    /// Reason why the fields are missing.
    problem: Option<String>,
}

/// Prints the table and returns the exit code of the state. `admins` are the admin ports that the user
/// named.
pub(super) async fn status(
    shell: &mut Shell,
    is_all: bool,
    admins: &[String],
) -> Result<u8, Failure> {
    let (options, _) = shell.start.options(shell.server())?;
    let given: Vec<String> = options.servers.iter().map(ToString::to_string).collect();
    let mut members = Vec::new();
    let mut problems = BTreeMap::new();
    if is_all {
        match member_addresses(shell).await {
            Ok(listed) => members = listed,
            Err(failure) => shell.complain(&format!(
                "the member list cannot be read, so only the named servers are shown: {}",
                failure.plain()
            )),
        }
    }
    if needs_ports(&members, &given) {
        let admins = (!admins.is_empty()).then(|| admins.to_vec());
        let connector = shell.start.connector.clone();
        let connector = connector.unwrap_or_else(Connector::plain);
        let is_secure = options.connector.uses_tls();
        let locator = Locator::new(admins, &given, connector, is_secure);
        problems = locator.locate(&mut members).await.problems;
    }
    let mut rows = Vec::new();
    for mut row in wanted(members, given, &problems) {
        let connector = options.connector.clone();
        rows.push(tokio::spawn(async move {
            row.ask(&connector).await;
            row
        }));
    }
    let mut answered = Vec::new();
    for row in rows {
        let row = row.await;
        answered.push(row.map_err(|error| Failure::new(format!("a query failed: {error}")))?);
    }
    let state = state(&answered, is_all);
    let leader = answered.iter().find_map(|row| match row.role() {
        "leader" | "standalone" => row.zxid(),
        _ => None,
    });
    shell.show(
        || as_json(&answered, state, leader),
        || as_text(&answered, state, leader),
    );
    Ok(match state {
        EnsembleHealth::Healthy => exit::DONE,
        EnsembleHealth::Degraded => exit::DEGRADED,
        EnsembleHealth::Down => exit::UNREACHABLE,
    })
}

/// Returns whether the client port of a member is unknown, and the user did not name all servers.
fn needs_ports(members: &[Member], given: &[String]) -> bool {
    let has_all = members.iter().all(|member| member.client.is_some());
    !has_all && given.len() < members.len()
}

/// Returns the rows of the members, or of the named servers. `problems` are the reasons why client ports
/// are unknown. The named servers then have their own rows.
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
    let named = named.map(|address| MemberStatus {
        address: Some(address),
        ..MemberStatus::default()
    });
    let named: Vec<MemberStatus> = named.collect();
    if has_all_given {
        return named;
    }
    let rows = members.into_iter().map(|member| {
        let reason = problems.get(&member.id);
        let reason = reason.map(|reason| format!("its client port is unknown: {reason}"));
        MemberStatus {
            problem: reason.filter(|_| member.client.is_none()),
            member: Some(member.id),
            address: member.client,
            ..MemberStatus::default()
        }
    });
    named.into_iter().chain(rows).collect()
}

impl MemberStatus {
    async fn ask(&mut self, connector: &Connector) {
        let Some(address) = &self.address else {
            let hint = "its client port is unknown";
            let problem = self.problem.take().unwrap_or_else(|| hint.to_owned());
            let remedy = "name all servers with -s, or an admin port with --admin";
            self.problem = Some(format!("{problem}; {remedy}"));
            return;
        };
        match ask_word(address, "srvr", connector).await {
            Ok(answer) => {
                self.fields = fields(&answer);
                if !self.fields.contains_key("Mode") {
                    let line = answer.lines().next().unwrap_or_default();
                    self.problem = Some(match line {
                        line if line.ends_with(&format!("{NOT_ALLOWED}.")) => {
                            "the server does not answer srvr; allow this word in 4lw.commands.whitelist".to_owned()
                        }
                        line if line.contains("not currently serving") => {
                            "the server does not serve clients, because it has no leader".to_owned()
                        }
                        _ => "the port is not a client port".to_owned(),
                    });
                }
            }
            Err(error) => self.problem = Some(error.to_string()),
        }
    }

    fn role(&self) -> &str {
        self.fields.get("Mode").map_or("-", String::as_str)
    }

    fn zxid(&self) -> Option<i64> {
        let text = self.fields.get("Zxid")?;
        i64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
    }

    /// Returns the number of transactions that the member lacks, if it is in the leader's epoch.
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

fn state(rows: &[MemberStatus], is_all: bool) -> EnsembleHealth {
    let serves = |row: &&MemberStatus| !matches!(row.role(), "-" | "read-only");
    let serving = rows.iter().filter(serves).count();
    let leads = |row: &MemberStatus| matches!(row.role(), "leader" | "standalone");
    match serving {
        0 => EnsembleHealth::Down,
        _ if serving < rows.len() => EnsembleHealth::Degraded,
        _ if is_all && !rows.iter().any(leads) => EnsembleHealth::Degraded,
        _ => EnsembleHealth::Healthy,
    }
}

impl EnsembleHealth {
    fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Down => "down",
        }
    }
}

fn as_json(rows: &[MemberStatus], state: EnsembleHealth, leader: Option<i64>) -> Value {
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
    json!({ "state": state.name(), "members": rows.collect::<Vec<Value>>() })
}

fn as_text(rows: &[MemberStatus], state: EnsembleHealth, leader: Option<i64>) -> String {
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
    text + state.name()
}

#[cfg(test)]
mod tests {
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
            member: Some("1".to_owned()),
            address: Some("a:2181".to_owned()),
            fields: fields.into(),
            problem: None,
        }
    }

    #[test]
    fn the_state_follows_from_the_members() {
        let gone = || MemberStatus {
            problem: Some("Connection refused".to_owned()),
            ..MemberStatus::default()
        };
        let of = |rows: &[MemberStatus]| state(rows, true);
        assert_eq!(of(&[row("standalone", "0x1")]), EnsembleHealth::Healthy);
        assert_eq!(
            of(&[row("leader", "0x1"), row("follower", "0x1")]),
            EnsembleHealth::Healthy
        );
        assert_eq!(
            of(&[row("leader", "0x1"), gone()]),
            EnsembleHealth::Degraded
        );
        assert_eq!(of(&[row("follower", "0x1")]), EnsembleHealth::Degraded);
        assert_eq!(
            state(&[row("follower", "0x1")], false),
            EnsembleHealth::Healthy
        );
        assert_eq!(of(&[row("read-only", "0x1"), gone()]), EnsembleHealth::Down);
        assert_eq!(of(&[gone()]), EnsembleHealth::Down);
    }

    #[test]
    fn the_table_shows_lag_and_problems() {
        let rows = [row("leader", "0x100000009"), row("follower", "0x100000002")];
        let text = as_text(&rows, EnsembleHealth::Healthy, rows[0].zxid());
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[0], COLUMNS);
        let wanted = ["1", "follower", "0x100000002", "7", "3.9.5", "a:2181", "3"];
        assert_eq!(lines[2], wanted);
        assert_eq!(lines[3], ["healthy"]);
        let json = as_json(&rows, EnsembleHealth::Healthy, rows[0].zxid());
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
