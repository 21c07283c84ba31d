//! Listening sockets of the quorum port.
//!
//! They exist only during a term. Java opens them in the constructor of Leader and closes them at
//! its end, so the kernel refuses learners that connect too early or too late.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use config::members::HostPort;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use transport::{Listener, bind_ip, resolve};

use crate::limits;

/// Addresses on which learners are accepted.
#[derive(Debug, Clone)]
pub(crate) struct ListenSettings {
    /// This member's quorum addresses, as configured.
    pub(crate) addresses: Vec<HostPort>,
    /// Whether the ports of these addresses are bound on all addresses of this machine
    /// (`quorumListenOnAllIPs`).
    pub(crate) on_all_ips: bool,
}

/// Maximum number of connections that the kernel keeps for the accepting task.
const BACKLOG: i32 = 1024;

/// Results of the name resolution, by host.
#[derive(Debug, Default)]
pub(super) struct ResolvedAddresses(HashMap<String, io::Result<IpAddr>>);

impl ListenSettings {
    /// Returns whether names must be resolved before the sockets can be opened.
    pub(super) fn needs_resolver(&self) -> bool {
        let is_name = |address: &HostPort| address.host.parse::<IpAddr>().is_err();
        !self.on_all_ips && self.addresses.iter().any(is_name)
    }

    /// Resolves the names.
    pub(super) async fn resolve(&self) -> ResolvedAddresses {
        let mut resolved = ResolvedAddresses::default();
        for address in &self.addresses {
            let ip = first_ip(address).await;
            resolved.0.insert(address.host.clone(), ip);
        }
        resolved
    }
}

/// Opens the sockets.
///
/// # Errors
/// If none of the addresses can be used. Returns the error of the first address. All errors are
/// logged.
pub(super) fn open(
    runtime: &Handle,
    settings: &ListenSettings,
    mut resolved: ResolvedAddresses,
) -> io::Result<Vec<(Arc<Listener>, SocketAddr)>> {
    let _inside = runtime.enter();
    let mut ports = Vec::new();
    let mut sockets = Vec::new();
    let mut fault = None;
    for address in &settings.addresses {
        if settings.on_all_ips {
            if ports.contains(&address.port) {
                continue;
            }
            ports.push(address.port);
        }
        let opened = open_one(address, settings.on_all_ips, &mut resolved).and_then(|listener| {
            let local = listener.local_addr()?;
            Ok((Arc::new(Listener::new(listener)), local))
        });
        match opened {
            Ok(socket) => sockets.push(socket),
            Err(error) => {
                tracing::error!(%address, err = %error, "cannot listen for learners");
                fault.get_or_insert(error);
            }
        }
    }
    match fault {
        Some(error) if sockets.is_empty() => Err(error),
        _ => Ok(sockets),
    }
}

fn open_one(
    address: &HostPort,
    on_all_ips: bool,
    resolved: &mut ResolvedAddresses,
) -> io::Result<TcpListener> {
    let ip = match (on_all_ips, address.host.parse()) {
        (true, _) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        (false, Ok(ip)) => ip,
        (false, Err(_)) => {
            let found = resolved.0.remove(&address.host);
            found.unwrap_or_else(|| Err(io::Error::other("the name cannot be resolved")))?
        }
    };
    bind_ip(ip, address.port, BACKLOG)
}

/// Returns the first address of a name, as Java does.
async fn first_ip(address: &HostPort) -> io::Result<IpAddr> {
    if let Ok(ip) = address.host.parse() {
        return Ok(ip);
    }
    let found = resolve(&address.host, address.port, limits::RESOLVE_TIMEOUT).await?;
    let first = found.first().map(SocketAddr::ip);
    first.ok_or_else(|| io::Error::other("the name has no address"))
}
