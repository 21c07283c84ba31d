//! Listening sockets of the quorum port.
//!
//! They exist only during a term. Java opens them in the constructor of Leader and closes them at
//! its end, so the kernel refuses learners that connect too early or too late.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use config::members::HostPort;
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

/// Configured address, and the IP address to bind for it.
#[derive(Debug)]
pub(super) struct BindAddress {
    configured: HostPort,
    ip: io::Result<IpAddr>,
}

impl ListenSettings {
    /// Returns the addresses to bind, or `None` if a name must be resolved first.
    pub(super) fn known_addresses(&self) -> Option<Vec<BindAddress>> {
        let known = |configured: HostPort| {
            let ip = Ok(self.known_ip(&configured)?);
            Some(BindAddress { configured, ip })
        };
        self.distinct_addresses().map(known).collect()
    }

    /// Resolves the names, and returns the addresses to bind.
    pub(super) async fn resolve(&self) -> Vec<BindAddress> {
        let mut addresses = Vec::new();
        for configured in self.distinct_addresses() {
            let ip = match self.known_ip(&configured) {
                Some(ip) => Ok(ip),
                None => first_ip(&configured).await,
            };
            addresses.push(BindAddress { configured, ip });
        }
        addresses
    }

    fn known_ip(&self, address: &HostPort) -> Option<IpAddr> {
        if self.on_all_ips {
            return Some(Ipv4Addr::UNSPECIFIED.into());
        }
        address.host.parse().ok()
    }

    /// Returns the configured addresses. A port that is bound on all addresses occurs once.
    fn distinct_addresses(&self) -> impl Iterator<Item = HostPort> {
        let mut ports = Vec::new();
        let is_first = move |address: &&HostPort| {
            let is_first = !self.on_all_ips || !ports.contains(&address.port);
            ports.push(address.port);
            is_first
        };
        self.addresses.iter().filter(is_first).cloned()
    }
}

/// Opens the sockets.
///
/// # Errors
/// If none of the addresses can be used. Returns the error of the first address. All errors are
/// logged.
pub(super) fn open(
    runtime: &Handle,
    addresses: Vec<BindAddress>,
) -> io::Result<Vec<(Arc<Listener>, SocketAddr)>> {
    let _inside = runtime.enter();
    let mut sockets = Vec::new();
    let mut fault = None;
    for BindAddress { configured, ip } in addresses {
        let opened = ip.and_then(|ip| {
            let listener = bind_ip(ip, configured.port, BACKLOG)?;
            let local = listener.local_addr()?;
            Ok((Arc::new(Listener::new(listener)), local))
        });
        match opened {
            Ok(socket) => sockets.push(socket),
            Err(error) => {
                tracing::error!(address = %configured, err = %error, "cannot listen for learners");
                fault.get_or_insert(error);
            }
        }
    }
    match fault {
        Some(error) if sockets.is_empty() => Err(error),
        _ => Ok(sockets),
    }
}

/// Returns the first address of a name, as Java does.
async fn first_ip(address: &HostPort) -> io::Result<IpAddr> {
    let found = resolve(&address.host, address.port, limits::RESOLVE_TIMEOUT).await?;
    let first = found.first().map(SocketAddr::ip);
    first.ok_or_else(|| io::Error::other("the name has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn addresses_with_the_same_name_are_all_opened() {
        // The kernel chooses a different port for each.
        let address = HostPort {
            host: "localhost".to_owned(),
            port: 0,
        };
        let settings = ListenSettings {
            addresses: vec![address.clone(), address],
            on_all_ips: false,
        };
        assert!(settings.known_addresses().is_none());
        let opened = open(&Handle::current(), settings.resolve().await).unwrap();
        assert_eq!(opened.len(), 2);
    }
}
