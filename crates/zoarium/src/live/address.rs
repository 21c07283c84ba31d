//! Addresses of servers: one rule for all commands.
//!
//! `--server` names client ports, `--admin` names admin ports. A command that needs a port of the
//! other kind derives it: a client port implies port 8080 on the same host, and an admin server
//! reports its client port. An admin port in `--server` is recognised, because earlier versions
//! expected it there.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use client::admin::{AdminClient, AdminError, unreachable};
use client::arguments::TlsArgs;
use client::port::{ADMIN_PORT, CLIENT_PORT, PortKind, host_of, probe};
use client::tls::Connector;
use server::admin_token;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::tool::ToolError;

/// Environment variable that contains the addresses of `--server`.
const SERVER_VARIABLE: &str = "ZOARIUM_SERVER";

/// Environment variable that contains the identity of `--auth`. Other users of this machine cannot
/// read it.
const AUTH_VARIABLE: &str = "ZOARIUM_AUTH";

/// Directories in which a server on this machine may store its credential: the directories in the
/// built-in settings, of the package, and of a container.
const DATA_DIRS: [&str; 3] = ["zoarium-data", "/var/lib/zookeeper", "/data"];

/// Time limit for an admin server's answer about its client port.
const QUESTION_LIMIT: Duration = Duration::from_secs(5);

/// Servers, and the identity of the caller.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct AddressArgs {
    /// Client ports of servers, tried in turn [default: $ZOARIUM_SERVER, then localhost:2181]
    #[arg(short, long, value_name = "HOST:PORT,...", value_delimiter = ',', value_parser = parse_address)]
    server: Vec<String>,
    /// Admin ports of servers, tried in turn [default: port 8080 of the hosts of --server]
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',', value_parser = parse_address)]
    admin: Vec<String>,
    /// Identity, such as `digest user:password` [default: $ZOARIUM_AUTH]
    #[arg(long, value_name = "SCHEME DATA")]
    auth: Option<String>,
    /// File that `zoarium admin-token` wrote. Without this option and --auth, commands for a server on this
    /// machine search the usual data directories for this file
    #[arg(long, value_name = "FILE", conflicts_with = "auth")]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsArgs,
}

impl AddressArgs {
    /// Returns whether the command line names an admin port, with `--admin` or `--server`.
    ///
    /// # Errors
    /// If the runtime cannot start, or if TLS is unusable.
    pub(crate) fn names_admin_port(&self) -> Result<bool, ToolError> {
        if !self.admin.is_empty() {
            return Ok(true);
        }
        if self.server.is_empty() {
            return Ok(false);
        }
        let kinds = runtime()?.block_on(kinds_of(&self.server, &self.connector()?));
        Ok(kinds.contains(&Some(PortKind::Admin)))
    }

    /// Returns the connect string for clients: `host:port[,...][/chroot]`.
    ///
    /// # Errors
    /// If only admin ports are named, and none reports a client port.
    pub(crate) fn client_servers(&self) -> Result<String, ToolError> {
        if !self.server.is_empty() {
            return Ok(self.server.join(","));
        }
        // The command line takes precedence over the environment.
        if !self.admin.is_empty() {
            let client = self.admin_client()?;
            return Ok(runtime()?.block_on(client_ports(&client))?.join(","));
        }
        let server = server_of_environment();
        Ok(server.unwrap_or_else(|| format!("localhost:{CLIENT_PORT}")))
    }

    /// Returns the admin ports.
    ///
    /// # Errors
    /// If a named port is not an admin port.
    pub(crate) fn admin_servers(&self) -> Result<Vec<String>, ToolError> {
        let connector = self.connector()?;
        let runtime = runtime()?;
        if !self.admin.is_empty() {
            let kinds = runtime.block_on(kinds_of(&self.admin, &connector));
            for (address, kind) in self.admin.iter().zip(kinds) {
                refuse_wrong_kind(address, kind)?;
            }
            return Ok(self.admin.clone());
        }
        let servers = if self.server.is_empty() {
            match server_of_environment() {
                Some(servers) => servers.split(',').map(str::to_owned).collect(),
                None => vec![format!("localhost:{CLIENT_PORT}")],
            }
        } else {
            self.server.clone()
        };
        let servers: Vec<String> = servers
            .iter()
            .map(|server| without_chroot(server))
            .collect();
        let kinds = runtime.block_on(kinds_of(&servers, &connector));
        Ok(admin_ports(&servers, &kinds))
    }

    /// Returns a client for the admin ports.
    ///
    /// # Errors
    /// If a named port is not an admin port, or if a file named by `--tls-...` is unusable.
    pub(crate) fn admin_client(&self) -> Result<AdminClient, ToolError> {
        let servers = self.admin_servers()?;
        let authorization = self.authorization(&servers)?;
        let client = AdminClient::new(servers).with_authorization(authorization.as_deref());
        Ok(client.with_connector(self.connector()?))
    }

    /// Returns the scheme and data of the caller's identity, from the command line or from a
    /// credential on this machine. `servers` are the receivers.
    ///
    /// # Errors
    /// If the file named by `--token-file` does not contain a credential.
    pub(crate) fn authorization(&self, servers: &[String]) -> Result<Option<String>, ToolError> {
        if let Some(file) = &self.token_file {
            let unusable = |reason: &dyn std::fmt::Display| {
                ToolError::Refused(format!("--token-file: {}: {reason}", file.display()))
            };
            let found = admin_token::read(file).map_err(|error| unusable(&error))?;
            let found = found.ok_or_else(|| unusable(&"the file does not exist"))?;
            return Ok(Some(format!("digest {}", found.expose())));
        }
        Ok(self.named_identity().or_else(|| found_token(servers)))
    }

    /// Returns the identity that `--auth` or the environment names.
    pub(crate) fn named_identity(&self) -> Option<String> {
        let named = self.auth.clone();
        named.or_else(|| std::env::var(AUTH_VARIABLE).ok())
    }

    /// Returns the connector for the connections.
    ///
    /// # Errors
    /// If a file named by `--tls-...` is unusable.
    pub(crate) fn connector(&self) -> Result<Connector, ToolError> {
        let connector = self.tls.connector(true);
        connector.map_err(|error| ToolError::Refused(format!("--tls: {error}")))
    }

    /// Returns whether `--tls` is set.
    pub(crate) fn has_tls(&self) -> bool {
        self.tls.is_set()
    }
}

/// Validates `host`, `host:port` or `host:port/path`.
pub(crate) fn parse_address(text: &str) -> Result<String, String> {
    let address = without_chroot(text);
    let port = match address.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && !address.ends_with(']') => port,
        None if !address.is_empty() => return Ok(text.to_owned()),
        _ if address.ends_with(']') => return Ok(text.to_owned()),
        _ => return Err("the host is missing".to_owned()),
    };
    match port.parse::<u16>() {
        Ok(1..) => Ok(text.to_owned()),
        _ => Err(format!("`{port}` is not a port from 1 to 65535")),
    }
}

/// Returns the addresses in `ZOARIUM_SERVER`, if it is set.
fn server_of_environment() -> Option<String> {
    let server = std::env::var(SERVER_VARIABLE).ok();
    server.filter(|server| !server.trim().is_empty())
}

/// Returns the credential of a server on this machine, from the directories that servers use by
/// default. Returns `None` if one of `servers` may be on another machine.
fn found_token(servers: &[String]) -> Option<String> {
    let is_local = |server: &String| {
        let host = host_of(server);
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    };
    if servers.is_empty() || !servers.iter().all(is_local) {
        return None;
    }
    let mut files = DATA_DIRS
        .iter()
        .map(|dir| admin_token::path(Path::new(dir)));
    let found = files.find_map(|file| admin_token::read(&file).ok().flatten());
    found.map(|secret| format!("digest {}", secret.expose()))
}

fn runtime() -> Result<Runtime, ToolError> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

/// Returns the kind of each port, or `None` for a port that cannot be connected to.
async fn kinds_of(servers: &[String], connector: &Connector) -> Vec<Option<PortKind>> {
    let mut probes = JoinSet::new();
    for (index, server) in servers.iter().enumerate() {
        let (server, connector) = (server.clone(), connector.clone());
        probes.spawn(async move { (index, probe(&server, &connector).await.ok()) });
    }
    let mut kinds = probes.join_all().await;
    kinds.sort_by_key(|(index, _)| *index);
    kinds.into_iter().map(|(_, kind)| kind).collect()
}

/// Returns the admin ports of servers. A server that does not answer keeps the address that the
/// user entered, unless another address is a client port.
fn admin_ports(servers: &[String], kinds: &[Option<PortKind>]) -> Vec<String> {
    let has_client = kinds.contains(&Some(PortKind::Client));
    let mut ports = Vec::new();
    for (server, kind) in servers.iter().zip(kinds) {
        let port = match kind {
            Some(PortKind::Client) => admin_port_of(server),
            None if has_client => admin_port_of(server),
            _ => server.clone(),
        };
        if !ports.contains(&port) {
            ports.push(port);
        }
    }
    ports
}

/// Returns the default admin port on the host of a server.
fn admin_port_of(server: &str) -> String {
    let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
    format!("{host}:{ADMIN_PORT}")
}

fn without_chroot(server: &str) -> String {
    let server = server.split('/').next().unwrap_or(server);
    server.trim().to_owned()
}

fn refuse_wrong_kind(address: &str, kind: Option<PortKind>) -> Result<(), ToolError> {
    match kind {
        Some(PortKind::Client) => Err(ToolError::Usage(format!(
            "{address} is a client port. Name it with --server; --admin takes the admin port (by default {ADMIN_PORT})"
        ))),
        _ => Ok(()),
    }
}

/// Returns the client ports that admin servers report.
async fn client_ports(client: &AdminClient) -> Result<Vec<String>, ToolError> {
    let mut ports = Vec::new();
    let mut failed = None;
    for server in client.servers() {
        let one = client.for_server(server);
        let question = async {
            match one.ask("members", &[]).await {
                // Apache ZooKeeper only has the second command.
                Err(AdminError::Refused { .. }) => one.ask("configuration", &[]).await,
                other => other,
            }
        };
        let answer = tokio::time::timeout(QUESTION_LIMIT, question).await;
        match answer.unwrap_or_else(|_| Err(unreachable(server, &"no answer in time"))) {
            Ok(answer) => {
                let number = |name: &str| answer[name].as_u64().filter(|port| *port > 0);
                let port = number("client_port").or_else(|| number("secure_client_port"));
                let host = server
                    .rsplit_once(':')
                    .map_or(server.as_str(), |(host, _)| host);
                match port {
                    Some(port) => ports.push(format!("{host}:{port}")),
                    None => failed = Some(no_client_port(server)),
                }
            }
            Err(error) => failed = Some(error.into()),
        }
    }
    match failed {
        Some(error) if ports.is_empty() => Err(error),
        _ => Ok(ports),
    }
}

fn no_client_port(admin: &str) -> ToolError {
    let remedy = "name the client port with --server HOST:PORT";
    ToolError::Refused(format!("{admin} does not report a client port; {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(servers: &[&str], kinds: &[Option<PortKind>]) -> Vec<String> {
        let servers: Vec<String> = servers.iter().map(|server| (*server).to_owned()).collect();
        admin_ports(&servers, kinds)
    }

    #[test]
    fn a_client_port_implies_the_default_admin_port() {
        let (client, admin) = (Some(PortKind::Client), Some(PortKind::Admin));
        assert_eq!(ports(&["a:2181"], &[client]), ["a:8080"]);
        assert_eq!(ports(&["a:2181", "a:2182"], &[client, None]), ["a:8080"]);
        assert_eq!(ports(&["[::1]:2181"], &[client]), ["[::1]:8080"]);
        // Earlier versions interpreted these values in the same way.
        assert_eq!(ports(&["a:9", "b:9"], &[admin, None]), ["a:9", "b:9"]);
        assert_eq!(ports(&["a:9"], &[None]), ["a:9"]);
        assert_eq!(without_chroot("a:2181/app"), "a:2181");
    }

    #[test]
    fn addresses_are_checked() {
        for right in [
            "a",
            "a:1",
            "a:2181/app",
            "[::1]:2181",
            "[::1]",
            "127.0.0.1:65535",
            "a:8080/x",
        ] {
            assert_eq!(parse_address(right), Ok(right.to_owned()));
        }
        for wrong in [
            "", ":", ":2181", "a:", "a:0", "a:x", "a:65536", "a:-1", "/app", "[::1]:x",
        ] {
            assert!(parse_address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_client_port_is_no_admin_port() {
        let error = refuse_wrong_kind("a:2181", Some(PortKind::Client)).unwrap_err();
        assert!(error.to_string().contains("a:2181 is a client port"));
        assert!(refuse_wrong_kind("a:1", Some(PortKind::Admin)).is_ok());
        assert!(refuse_wrong_kind("a:1", None).is_ok());
    }
}
