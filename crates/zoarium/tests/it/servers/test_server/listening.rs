//! Addresses on which the servers listen.

use std::collections::BTreeSet;
use std::fs;

use testkit::certificates::Authority;

use super::fixture::Fixture;

/// State of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// Returns the local addresses of the listening sockets of a process, as the kernel prints them.
fn listening(process: u32) -> Vec<String> {
    let files = fs::read_dir(format!("/proc/{process}/fd"))
        .unwrap()
        .flatten();
    let links = files.filter_map(|file| fs::read_link(file.path()).ok());
    let sockets: BTreeSet<String> = links
        .filter_map(|link| {
            let link = link.to_str()?.strip_prefix("socket:[")?;
            Some(link.strip_suffix(']')?.to_owned())
        })
        .collect();
    let mut addresses = Vec::new();
    for table in ["tcp", "tcp6"] {
        let table = fs::read_to_string(format!("/proc/{process}/net/{table}")).unwrap();
        for line in table.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if fields[3] == LISTEN && sockets.contains(fields[9]) {
                addresses.push(fields[1].to_owned());
            }
        }
    }
    addresses
}

#[test]
fn every_port_is_on_the_loopback_address() {
    let authority = Authority::new("authority");
    let directory = tempfile::tempdir().unwrap();
    let keys = directory.path().join("server.pem");
    fs::write(&keys, authority.member("localhost").pem()).unwrap();
    let trusted = directory.path().join("authority.pem");
    fs::write(&trusted, authority.pem()).unwrap();
    let settings = [
        "secureClientPort=0".to_owned(),
        format!("ssl.keyStore.location={}", keys.display()),
        format!("ssl.trustStore.location={}", trusted.display()),
        "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"
            .to_owned(),
        "metricsProvider.httpPort=0".to_owned(),
        "zoarium.health.port=0".to_owned(),
    ];
    let mut arguments = vec!["--members", "2"];
    for setting in &settings {
        arguments.extend(["--set", setting]);
    }
    let fixture = Fixture::start(&arguments);
    let addresses = listening(fixture.process.id());
    // Clients with and without TLS, admin server, exporter, health, elections; the leader's port
    // for followers; commands.
    assert_eq!(addresses.len(), 2 * 6 + 2, "{addresses:?}");
    let is_loopback = |address: &String| address.starts_with("0100007F:");
    assert!(addresses.iter().all(is_loopback), "{addresses:?}");
}
