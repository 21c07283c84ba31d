//! Commands `config` and `reconfig`.
//!
//! Source: GetConfigCommand, ReconfigCommand, ConfigUtils.getClientConfigStr.

use std::fs;

use proto::quorum::{GroupId, Hierarchical, Majority, QuorumVerifier};
use proto::request::ReconfigRequest;
use proto::{ErrorCode, Sid, Stat};
use serde_json::{Value, json};

use super::Command;
use crate::connection::Watch;
use crate::failure::Failure;
use crate::output::text;
use crate::parse::options::Arguments;
use crate::shell::Shell;

/// Path of the member list. The chroot does not apply to it.
pub(crate) const CONFIG: &str = "/zookeeper/config";

pub(super) async fn config(shell: &mut Shell, given: &Arguments) -> Result<(), Failure> {
    let client = shell.client("").await?;
    let answer = if given.has("w") {
        client.get_data_and_watch(CONFIG).await
    } else {
        client.get_data(CONFIG).await
    };
    let (data, stat) = answer.map_err(|error| Failure::of(&error, ""))?;
    if given.has("w")
        && let Some(connection) = shell.connection()
    {
        connection.add_watch(Watch::Data, CONFIG);
    }
    let members = String::from_utf8_lossy(data.as_deref().unwrap_or_default()).into_owned();
    if shell.start.format.is_structured() {
        shell.show(|| list_value(&members), String::new);
        return Ok(());
    }
    if given.has("c") {
        shell.print(&for_clients(&members));
    } else {
        shell.print(&members);
    }
    print_stat(shell, given, &stat);
    Ok(())
}

/// Line of the member list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    /// Id of the server.
    pub(crate) id: String,
    /// Host of the server.
    pub(crate) host: String,
    /// Client address, if it is known.
    pub(crate) client: Option<String>,
    /// Role: `participant` or `observer`.
    pub(crate) role: String,
}

impl Member {
    /// Returns the id as a number, or `None` if it is not a number.
    pub(crate) fn sid(&self) -> Option<Sid> {
        self.id.parse().ok().map(Sid)
    }
}

/// Members of an ensemble, and their quorums.
#[derive(Debug)]
pub(crate) struct MemberList {
    /// Members. Empty for a standalone server, or if the list cannot be read.
    pub(crate) members: Vec<Member>,
    /// Quorums: sets of members that may decide.
    pub(crate) quorum: Box<dyn QuorumVerifier>,
}

/// Returns a member list as a JSON object.
pub(crate) fn list_value(text: &str) -> Value {
    let version = text.lines().find_map(|line| line.strip_prefix("version="));
    let rows = member_list(text).into_iter().map(|member| {
        let Member {
            id,
            host,
            client,
            role,
        } = member;
        json!({ "member": id, "role": role, "host": host, "client_address": client })
    });
    json!({ "version": version, "members": rows.collect::<Vec<Value>>() })
}

/// Returns the host of a member's first address, which represents the member. An IPv6 address keeps
/// its brackets.
fn host_of(addresses: &str) -> &str {
    let bracket = addresses.strip_prefix('[').and_then(|rest| rest.find(']'));
    let end = match bracket {
        Some(at) => Some(at + "[]".len()),
        None => addresses.find([':', '|']),
    };
    addresses.split_at(end.unwrap_or(addresses.len())).0
}

/// Parses the lines `server.1=host:port:port[:role][;[address:]port]` of a member list. Skips other
/// lines.
pub(crate) fn member_list(text: &str) -> Vec<Member> {
    text.lines().filter_map(member).collect()
}

fn member(line: &str) -> Option<Member> {
    let (id, rest) = line.strip_prefix("server.")?.split_once('=')?;
    let (quorum, client) = match rest.split_once(';') {
        Some((quorum, client)) => (quorum, Some(client)),
        None => (rest, None),
    };
    let host = host_of(quorum).to_owned();
    let client = client.map(|client| match client.rsplit_once(':') {
        // A client cannot connect to the unspecified address.
        Some(("0.0.0.0" | "[::]" | "", port)) => format!("{host}:{port}"),
        Some(_) => client.to_owned(),
        None => format!("{host}:{client}"),
    });
    let is_observer = quorum.ends_with(":observer");
    Some(Member {
        id: id.to_owned(),
        host,
        client,
        role: if is_observer {
            "observer"
        } else {
            "participant"
        }
        .to_owned(),
    })
}

/// Returns the members of the ensemble and their quorums. A member whose line does not contain a
/// client address is assumed to use the port of this session, unless another member has the same
/// host.
pub(crate) async fn member_addresses(shell: &mut Shell) -> Result<MemberList, Failure> {
    let client = shell.client("").await?;
    let data = match client.get_data(CONFIG).await {
        Ok((data, _)) => data,
        Err(_) => None,
    };
    let text = String::from_utf8_lossy(data.as_deref().unwrap_or_default());
    let mut members = member_list(&text);
    let (options, _) = shell.start.options(shell.server())?;
    let first = options.servers().first();
    if let Some((_, port)) = first.and_then(|server| server.rsplit_once(':')) {
        expect_at_port(&mut members, port);
    }
    let quorum = quorum(&text, &members);
    Ok(MemberList { members, quorum })
}

/// Returns the quorums of a member list: majorities of the participants, or of the groups.
fn quorum(text: &str, members: &[Member]) -> Box<dyn QuorumVerifier> {
    let participants = members.iter().filter(|member| member.role == "participant");
    let voters: Vec<Sid> = participants.filter_map(Member::sid).collect();
    let entries = |prefix: &'static str| {
        let lines = text
            .lines()
            .filter_map(move |line| line.strip_prefix(prefix));
        lines.filter_map(|line| line.split_once('='))
    };
    let groups = entries("group.").filter_map(|(id, sids)| {
        let sids = sids.split(':').filter_map(|sid| sid.trim().parse().ok());
        Some((GroupId(id.parse().ok()?), sids.map(Sid).collect()))
    });
    let groups: Vec<(GroupId, Vec<Sid>)> = groups.collect();
    let weights = entries("weight.")
        .filter_map(|(sid, weight)| Some((Sid(sid.parse().ok()?), weight.trim().parse().ok()?)));
    match Hierarchical::new(voters.iter().copied(), groups.iter().cloned(), weights) {
        Ok(hierarchical) if !groups.is_empty() => Box::new(hierarchical),
        _ => Box::new(Majority::new(voters)),
    }
}

fn expect_at_port(members: &mut [Member], port: &str) {
    for index in 0..members.len() {
        let Member { host, client, .. } = &members[index];
        let others = members.iter().filter(|other| other.host == *host).count();
        if client.is_none() && others == 1 {
            members[index].client = Some(format!("{host}:{port}"));
        }
    }
}

/// Returns the version and the client addresses of all members: `100000000 a:2181,b:2181`.
fn for_clients(members: &str) -> String {
    let (version, addresses) = version_and_addresses(members);
    let addresses: Vec<String> = addresses.into_iter().map(|(_, address)| address).collect();
    format!("{version} {}", addresses.join(","))
}

/// Returns the version, and the host and the client address of each member.
fn version_and_addresses(members: &str) -> (&str, Vec<(&str, String)>) {
    let mut version = "";
    let mut addresses = Vec::new();
    for line in members.lines() {
        if let Some(number) = line.strip_prefix("version=") {
            version = number;
        } else if let Some((name, rest)) = line.split_once('=')
            && name.starts_with("server.")
            && let Some((member, client)) = rest.split_once(';')
        {
            let host = host_of(member);
            // A port without a host applies to the member's own address.
            let address = if client.contains(':') {
                client.to_owned()
            } else {
                format!("{host}:{client}")
            };
            addresses.push((host, address));
        }
    }
    (version, addresses)
}

pub(super) async fn reconfig(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<(), Failure> {
    let list = |option: &str| {
        let values = given.options().filter(|(name, _)| *name == option);
        let values: Vec<&str> = values.map(|(_, value)| value).collect();
        (!values.is_empty()).then(|| values.join(","))
    };
    let (joining, leaving, members) = (list("add"), list("remove"), list("members"));
    let is_step = joining.is_some() || leaving.is_some();
    let is_whole = members.is_some() || given.has("file");
    if is_step && is_whole {
        return Err(Failure::new(
            "Can't use -file or -members together with -add or -remove (mixing incremental and \
             non-incremental modes is not allowed)",
        ));
    }
    if members.is_some() && given.has("file") {
        return Err(Failure::new("Can't use -file and -members together"));
    }
    if !is_step && !is_whole {
        return Err(command.usage_error());
    }
    let new_members = match given.value("file") {
        Some(file) => Some(read_members(file)?),
        None => members,
    };
    let client = shell.client("").await?;
    let wrong_version = |_| Failure::of_code(ErrorCode::BadVersion.code(), "");
    let version = given.value("v").map(|text| i64::from_str_radix(text, 16));
    let request = ReconfigRequest {
        joining: joining.map(Into::into),
        leaving: leaving.map(Into::into),
        new_members: new_members.map(Into::into),
        config_version: version.transpose().map_err(wrong_version)?.unwrap_or(-1),
    };
    let answer = client.reconfig(&request).await;
    let (data, stat) = answer.map_err(|error| Failure::of(&error, ""))?;
    if shell.start.format.is_structured() {
        shell.show(|| list_value(&text::data(data.as_deref())), String::new);
        return Ok(());
    }
    shell.print("Committed new configuration:");
    shell.print(&text::data(data.as_deref()));
    print_stat(shell, given, &stat);
    Ok(())
}

fn print_stat(shell: &mut Shell, given: &Arguments, stat: &Stat) {
    if given.has("s") {
        shell.print(&text::stat(stat));
    }
}

/// Reads a file and returns its members, groups and weights in the format of the request.
fn read_members(file: &str) -> Result<String, Failure> {
    let text = fs::read_to_string(file).map_err(|error| match error.kind() {
        // Java's message also contains the name twice.
        std::io::ErrorKind::NotFound => Failure::new(format!(
            "Error processing {file}{file} (No such file or directory)"
        )),
        _ => Failure::new(format!("Error processing {file}: {error}")),
    })?;
    let is_of_members = |line: &&str| {
        let kinds = ["server.", "group.", "weight."];
        kinds.iter().any(|kind| line.starts_with(kind))
    };
    let lines: Vec<&str> = text.lines().map(str::trim).filter(is_of_members).collect();
    Ok(lines.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_the_addresses_of_the_list() {
        let list = "server.1=h1:1:2:participant;0.0.0.0:2181\nserver.2=h2:1:2:observer;2182\n\
            server.3=[::1]:1:2|h3:1:2\nserver.4=h4:1:2;10.0.0.4:2184\nversion=a";
        let mut members = member_list(list);
        let client = |member: &Member| member.client.clone().unwrap_or_default();
        let clients: Vec<String> = members.iter().map(client).collect();
        assert_eq!(clients, ["h1:2181", "h2:2182", "", "10.0.0.4:2184"]);
        assert_eq!(
            (members[1].role.as_str(), members[2].id.as_str()),
            ("observer", "3")
        );
        expect_at_port(&mut members, "9");
        assert_eq!(client(&members[2]), "[::1]:9");
        let mut together = member_list("server.1=h:1:2\nserver.2=h:3:4\n");
        expect_at_port(&mut together, "9");
        assert!(together.iter().all(|member| member.client.is_none()));
    }

    #[test]
    fn groups_and_weights_of_the_list_decide() {
        let servers: String = (1..=6)
            .map(|id| format!("server.{id}=h{id}:1:2:participant\n"))
            .collect();
        let decides = |text: &str, has: &[i64]| {
            let quorum = quorum(text, &member_list(text));
            quorum.is_quorum(&|sid| has.contains(&sid.0))
        };
        assert!(decides(&servers, &[1, 2, 3, 4]) && !decides(&servers, &[1, 2, 3]));
        let groups = format!("{servers}group.1=1:2:3\ngroup.2=4:5:6\nweight.1=5\nversion=a");
        assert!(decides(&groups, &[1, 4, 5]) && !decides(&groups, &[1, 2, 3, 4]));
    }

    #[test]
    fn clients_get_version_and_addresses() {
        let members =
            "server.1=h1:1:2:participant;h1:2181\nserver.2=h2:1:2:observer;2182\nversion=a";
        assert_eq!(for_clients(members), "a h1:2181,h2:2182");
        let ipv6 = "server.1=[::1]:1:2|h3:1:2:participant;2181\nversion=a";
        assert_eq!(for_clients(ipv6), "a [::1]:2181");
        assert_eq!(for_clients(""), " ");
    }
}
