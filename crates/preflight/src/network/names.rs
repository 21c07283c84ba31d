//! Concurrent lookups of host names, with a time limit.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use config::{Config, MetricsExporter};

/// Time limit for all names together. A name service that does not respond must not block the
/// checks.
const RESOLVING: Duration = Duration::from_secs(5);

/// Addresses by host. `None` if the name is unknown or was not resolved in time.
pub(crate) type Addresses = BTreeMap<String, Option<Vec<IpAddr>>>;

/// Resolves the hosts in a configuration.
pub(crate) fn of_config(config: &Config) -> Addresses {
    let ensemble = config.ensemble.iter();
    let members = ensemble.flat_map(|ensemble| ensemble.membership.members.values());
    let hosts = members.flat_map(|member| member.addresses.iter().map(|at| at.host.clone()));
    let mut hosts: BTreeSet<String> = hosts.collect();
    hosts.insert(config.admin.address.clone());
    if let MetricsExporter::Prometheus { host, .. } = &config.metrics.exporter {
        hosts.insert(host.clone());
    }
    hosts.remove("");
    resolve(hosts)
}

/// Resolves all names concurrently.
fn resolve(hosts: BTreeSet<String>) -> Addresses {
    let (sender, answers) = mpsc::channel();
    let mut found: Addresses = BTreeMap::new();
    let mut waiting: usize = 0;
    for host in hosts {
        if let Ok(ip) = host.parse() {
            found.insert(host, Some(vec![ip]));
            continue;
        }
        found.insert(host.clone(), None);
        let sender = sender.clone();
        // A lookup that never ends is abandoned when the process ends.
        let started = std::thread::Builder::new().spawn(move || {
            let resolved = (host.as_str(), 0).to_socket_addrs();
            let resolved = resolved.map(|all| all.map(|address| address.ip()).collect());
            let _ = sender.send((host, resolved.ok()));
        });
        waiting += usize::from(started.is_ok());
    }
    let end = Instant::now() + RESOLVING;
    while waiting > 0 {
        let left = end.saturating_duration_since(Instant::now());
        let Ok((host, resolved)) = answers.recv_timeout(left) else {
            break;
        };
        found.insert(host, resolved);
        waiting -= 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_need_no_name_service() {
        let hosts = ["127.0.0.1", "::1", "no.such.host.invalid"];
        let found = resolve(hosts.into_iter().map(str::to_owned).collect());
        assert_eq!(found["127.0.0.1"], Some(vec!["127.0.0.1".parse().unwrap()]));
        assert_eq!(found["::1"], Some(vec!["::1".parse().unwrap()]));
        assert_eq!(found["no.such.host.invalid"], None);
    }
}
