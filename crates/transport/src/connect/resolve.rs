//! Name resolution.
//!
//! A name is resolved each time it is needed, because a server may have moved. A lookup never takes
//! longer than the caller permits.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::time::timeout;

/// Maximum number of addresses tried for one server. This is enough for a name that resolves to a
/// few stale entries.
pub const ADDRESSES_MAX: usize = 16;

/// Returns the addresses of a host, in the resolver's order. A numeric address is returned
/// unchanged.
///
/// # Errors
/// If the resolver fails, or does not answer in time (`TimedOut`). A host without addresses yields
/// an empty list.
pub async fn resolve(host: &str, port: u16, limit: Duration) -> io::Result<Vec<SocketAddr>> {
    let looked_up = timeout(limit, lookup_host((host, port))).await;
    let found = looked_up.unwrap_or_else(|_| {
        let text = format!("the lookup of {host} timed out");
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    })?;
    Ok(found.collect())
}

/// Returns the distinct addresses of the hosts, in order. Looks up at most [`ADDRESSES_MAX`] hosts,
/// each within `limit`, and returns at most the same number of addresses.
///
/// # Errors
/// If a lookup failed and no address was found. Returns the error of the last failed lookup.
pub async fn resolve_all(places: &[(&str, u16)], limit: Duration) -> io::Result<Vec<SocketAddr>> {
    let mut addresses = Vec::new();
    let mut failure = None;
    for &(host, port) in places.iter().take(ADDRESSES_MAX) {
        match resolve(host, port, limit).await {
            Ok(found) => addresses.extend(found),
            Err(error) => failure = Some(error),
        }
    }
    let mut known = Vec::new();
    addresses.retain(|address| {
        let is_new = !known.contains(address);
        known.push(*address);
        is_new
    });
    addresses.truncate(ADDRESSES_MAX);
    match failure {
        Some(error) if addresses.is_empty() => Err(error),
        _ => Ok(addresses),
    }
}

/// Returns the canonical name of a host, or `host` itself if the resolver does not return a name in
/// time.
pub async fn canonical_host(host: &str, limit: Duration) -> String {
    let found = resolve(host, 0, limit).await.unwrap_or_default();
    let name = match found.first() {
        Some(address) => reverse(address.ip(), limit).await,
        None => None,
    };
    name.unwrap_or_else(|| host.to_owned())
}

/// Returns the name for an address, or `None` if the address has no name or the resolver does not
/// answer in time.
pub(crate) async fn reverse(ip: IpAddr, limit: Duration) -> Option<String> {
    let looked_up = blocking::run(move || {
        blocking::mark("look up the name of an address");
        dns_lookup::lookup_addr(&ip)
    });
    let name = timeout(limit, looked_up).await.ok()?.ok()?.ok()?;
    // Without a name, the resolver returns the numeric address.
    name.parse::<IpAddr>().is_err().then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn each_host_is_resolved_once_within_a_limit() {
        let twice = [("127.0.0.1", 7), ("127.0.0.1", 7)];
        assert_eq!(resolve_all(&twice, LIMIT).await.unwrap().len(), 1);
        let many: Vec<_> = (1..500).map(|port| ("127.0.0.1", port)).collect();
        let found = resolve_all(&many, LIMIT).await.unwrap();
        assert_eq!(found.len(), ADDRESSES_MAX);
        let unknown = [("host.invalid", 7), ("127.0.0.1", 7)];
        assert_eq!(resolve_all(&unknown, LIMIT).await.unwrap().len(), 1);
        assert!(resolve_all(&unknown[..1], LIMIT).await.is_err());
    }
}
