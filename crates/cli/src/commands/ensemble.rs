//! `config` and `reconfig`.
//!
//! Source: GetConfigCommand, ReconfigCommand, ConfigUtils.getClientConfigStr.

use std::fs;

use proto::request::ReconfigRequest;
use proto::{ErrorCode, Stat};

use super::Command;
use crate::connection::Watch;
use crate::failure::Failure;
use crate::options::Given;
use crate::shell::Shell;
use crate::text;

/// Where the member list is. No chroot applies to it.
const CONFIG: &str = "/zookeeper/config";

pub(super) async fn config(shell: &mut Shell, given: &Given) -> Result<(), Failure> {
    let client = shell.client("").await?;
    let answer = match given.has("w") {
        true => client.get_data_and_watch(CONFIG).await,
        false => client.get_data(CONFIG).await,
    };
    let (data, stat) = answer.map_err(|error| Failure::of(&error, ""))?;
    if given.has("w")
        && let Some(connection) = shell.connection()
    {
        connection.leave(Watch::Data, CONFIG);
    }
    let members = String::from_utf8_lossy(data.as_deref().unwrap_or_default()).into_owned();
    match given.has("c") {
        true => shell.print(&for_clients(&members)),
        false => shell.print(&members),
    }
    print_stat(shell, given, &stat);
    Ok(())
}

/// The client addresses of all members; none if the list is empty, or may not be read.
pub(super) async fn client_addresses(shell: &mut Shell) -> Result<Vec<String>, Failure> {
    let client = shell.client("").await?;
    let data = match client.get_data(CONFIG).await {
        Ok((data, _)) => data,
        Err(_) => None,
    };
    let members = String::from_utf8_lossy(data.as_deref().unwrap_or_default()).into_owned();
    let addresses = version_and_addresses(&members).1.into_iter();
    // All addresses of a machine are none to connect to.
    let reachable = |(host, address): (&str, String)| match address.strip_prefix("0.0.0.0:") {
        Some(port) => format!("{host}:{port}"),
        None => address,
    };
    Ok(addresses.map(reachable).collect())
}

/// The version and the client addresses of all members: `100000000 a:2181,b:2181`.
fn for_clients(members: &str) -> String {
    let (version, addresses) = version_and_addresses(members);
    let addresses: Vec<String> = addresses.into_iter().map(|(_, address)| address).collect();
    format!("{version} {}", addresses.join(","))
}

/// The version, and the host and the client address of each member.
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
            let host = member.split(':').next().unwrap_or_default();
            // A port alone is at the member's own address.
            let address = match client.contains(':') {
                true => client.to_owned(),
                false => format!("{host}:{client}"),
            };
            addresses.push((host, address));
        }
    }
    (version, addresses)
}

pub(super) async fn reconfig(
    shell: &mut Shell,
    command: &Command,
    given: &Given,
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
        return Err(command.misused());
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
    shell.print("Committed new configuration:");
    shell.print(&text::data(data.as_deref()));
    print_stat(shell, given, &stat);
    Ok(())
}

fn print_stat(shell: &mut Shell, given: &Given, stat: &Stat) {
    if given.has("s") {
        shell.print(&text::stat(stat));
    }
}

/// The members, groups and weights of a file, as the request has them.
fn read_members(file: &str) -> Result<String, Failure> {
    let text = fs::read_to_string(file).map_err(|error| match error.kind() {
        // As Java says it: the name is there twice.
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
    fn clients_get_version_and_addresses() {
        let members =
            "server.1=h1:1:2:participant;h1:2181\nserver.2=h2:1:2:observer;2182\nversion=a";
        assert_eq!(for_clients(members), "a h1:2181,h2:2182");
        assert_eq!(for_clients(""), " ");
    }
}
