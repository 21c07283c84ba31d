//! Messages that a server prints when it has started.

use std::net::SocketAddr;

use config::Config;
use server::Started;

use crate::setup::admin_token_tool;
use crate::tool::number;

/// Returns one line for programs: ports, data directory, and the recovered data.
pub(crate) fn ready_line(started: &Started, config: &Config) -> String {
    let Started {
        client_address,
        secure_client_address,
        member,
        zxid,
        znodes,
        sessions,
        replayed,
    } = started;
    let listens = match (client_address, secure_client_address) {
        (Some(plain), None) => format!("serving clients on {plain}"),
        (None, Some(secure)) => format!("serving clients on {secure} (TLS)"),
        (Some(plain), Some(secure)) => {
            format!("serving clients on {plain} and {secure} (TLS)")
        }
        (None, None) => "running without a client port".to_owned(),
    };
    let has_clients = client_address.is_some() || secure_client_address.is_some();
    let listens = match member {
        Some(sid) if has_clients => {
            format!("member {sid} of an ensemble, {listens} once there is a leader")
        }
        Some(sid) => format!("member {sid} of an ensemble, {listens}"),
        None => listens,
    };
    format!(
        "zoarium: {listens}; data in {}: zxid {zxid}, {}, {}, {} replayed",
        config.data_dir.display(),
        number(znodes, "znode"),
        number(sessions, "session"),
        number(replayed, "transaction"),
    )
}

/// Returns five lines for a person at a terminal: version, clients, console, data, and how to stop
/// the server. Writes the credential of administrators at the first start.
pub(crate) fn welcome(started: &Started, config: &Config) -> String {
    let version = metrics::version::PRODUCT;
    let plain = started.client_address.map(local);
    let secure = started
        .secure_client_address
        .map(|address| format!("{} (TLS)", local(address)));
    let clients: Vec<String> = plain.into_iter().chain(secure).collect();
    let clients = match (clients.is_empty(), started.member) {
        (true, _) => "no client port is configured".to_owned(),
        (false, None) => clients.join(" and "),
        (false, Some(id)) => format!("{}, once member {id} has a leader", clients.join(" and ")),
    };
    let console = match admin_token_tool::console_address(config) {
        Some(address) => match admin_token_tool::first_credential(config) {
            Some((user, password)) => format!("{address} (user {user}, password {password})"),
            None => address,
        },
        None => "disabled by admin.enableServer or admin.console.enabled".to_owned(),
    };
    let (znodes, data) = (number(started.znodes, "znode"), config.data_dir.display());
    format!(
        "Zoarium {version}\n  clients: {clients}\n  console: {console}\n  data:    {data} ({znodes})\n  Ctrl-C stops the server."
    )
}

/// Returns an address that can be used on this machine.
fn local(address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        format!("localhost:{}", address.port())
    } else {
        address.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::local;

    #[test]
    fn an_address_of_all_interfaces_is_this_machine() {
        assert_eq!(local("0.0.0.0:2181".parse().unwrap()), "localhost:2181");
        assert_eq!(local("10.0.0.7:2181".parse().unwrap()), "10.0.0.7:2181");
    }
}
