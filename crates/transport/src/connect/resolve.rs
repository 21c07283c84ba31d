//! Name resolution.
//!
//! A name is resolved each time it is needed, because a server may have moved. The caller never
//! waits longer than it permits. The lookup itself continues, so the number of lookups is bounded.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Origin of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameSource {
    /// The configuration or the member list contains the name.
    Configured,
    /// A peer that may be a stranger has announced the name.
    Announced,
}

/// Maximum numbers of concurrent lookups. Each uses a thread, also after its caller has given up,
/// because a name server that does not respond can hold it for a minute.
const CONFIGURED_MAX: usize = 64;
const ANNOUNCED_MAX: usize = 8;

static CONFIGURED: LazyLock<Arc<Semaphore>> =
    LazyLock::new(|| Arc::new(Semaphore::new(CONFIGURED_MAX)));
static ANNOUNCED: LazyLock<Arc<Semaphore>> =
    LazyLock::new(|| Arc::new(Semaphore::new(ANNOUNCED_MAX)));

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
    resolve_from(NameSource::Configured, host, port, limit).await
}

async fn resolve_from(
    source: NameSource,
    host: &str,
    port: u16,
    limit: Duration,
) -> io::Result<Vec<SocketAddr>> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let name = host.to_owned();
    #[allow(clippy::disallowed_methods, reason = "runs on a thread that may block")]
    let look_up = move || Ok((name.as_str(), port).to_socket_addrs()?.collect());
    let found = off_thread(source, limit, look_up).await;
    found.unwrap_or_else(|| {
        let text = format!("the lookup of {host} timed out");
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    })
}

/// Looks up a name on a thread that may block. The lookup keeps its turn until it ends. Returns
/// `None` if it does not end in time.
async fn off_thread<T: Send + 'static>(
    source: NameSource,
    limit: Duration,
    look_up: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let turns = match source {
        NameSource::Configured => &CONFIGURED,
        NameSource::Announced => &ANNOUNCED,
    };
    let looking = async {
        let turn = Arc::clone(turns).acquire_owned().await.ok()?;
        let looked_up = blocking::run(move || {
            blocking::mark("look up a name");
            let found = look_up();
            drop(turn);
            found
        });
        looked_up.await.ok()
    };
    timeout(limit, looking).await.ok()?
}

/// Returns the distinct addresses of the hosts, in order. Looks up at most [`ADDRESSES_MAX`] hosts,
/// each within `limit`, and returns at most the same number of addresses.
///
/// # Errors
/// If a lookup failed and no address was found. Returns the error of the last failed lookup.
pub async fn resolve_all(
    source: NameSource,
    places: &[(&str, u16)],
    limit: Duration,
) -> io::Result<Vec<SocketAddr>> {
    let mut addresses = Vec::new();
    let mut failure = None;
    for &(host, port) in places.iter().take(ADDRESSES_MAX) {
        match resolve_from(source, host, port, limit).await {
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
    let look_up = move || dns_lookup::lookup_addr(&ip);
    let name = off_thread(NameSource::Configured, limit, look_up)
        .await?
        .ok()?;
    // Without a name, the resolver returns the numeric address.
    name.parse::<IpAddr>().is_err().then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);
    const SOURCE: NameSource = NameSource::Configured;

    /// Name servers that do not respond must not use up the threads of the process.
    #[tokio::test]
    async fn lookups_that_were_given_up_keep_their_turns() {
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let ends = Arc::new(std::sync::Mutex::new(ends));
        let stuck = || {
            let ends = ends.clone();
            move || ends.lock().is_ok_and(|ends| ends.recv().is_err())
        };
        let announced = NameSource::Announced;
        for _ in 0..ANNOUNCED_MAX {
            let found = off_thread(announced, Duration::from_millis(1), stuck()).await;
            assert_eq!(found, None);
        }
        while ANNOUNCED.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let refused = off_thread(announced, Duration::from_millis(1), || true).await;
        assert_eq!(refused, None, "all turns are in use");
        assert_eq!(off_thread(SOURCE, LIMIT, || 7).await, Some(7));
        drop(end);
        assert_eq!(off_thread(announced, LIMIT, || 7).await, Some(7));
    }

    #[tokio::test]
    async fn each_host_is_resolved_once_within_a_limit() {
        let twice = [("127.0.0.1", 7), ("127.0.0.1", 7)];
        assert_eq!(resolve_all(SOURCE, &twice, LIMIT).await.unwrap().len(), 1);
        let many: Vec<_> = (1..500).map(|port| ("127.0.0.1", port)).collect();
        let found = resolve_all(SOURCE, &many, LIMIT).await.unwrap();
        assert_eq!(found.len(), ADDRESSES_MAX);
        let unknown = [("host.invalid", 7), ("127.0.0.1", 7)];
        assert_eq!(resolve_all(SOURCE, &unknown, LIMIT).await.unwrap().len(), 1);
        assert!(resolve_all(SOURCE, &unknown[..1], LIMIT).await.is_err());
    }
}
