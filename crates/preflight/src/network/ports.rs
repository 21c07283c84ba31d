//! Ports on which a start would listen.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use config::finding::{Finding, Severity};
use config::{Config, MetricsExporter, Origin};
use socket2::{Domain, Protocol, Socket, Type};

use crate::finding;
use crate::network::names::Addresses;
use crate::processes::Processes;

/// Limit below which ports are reserved for root, if the system does not report its limit.
const PRIVILEGED_BELOW: u16 = 1024;

/// Prefix of the settings that form the member list.
const MEMBER: &str = "server.";

/// Port, with the setting that requires it.
#[derive(Debug)]
struct RequiredPort {
    key: String,
    /// Listener that uses the port. A member's addresses may share a port: the server binds it
    /// once, and needs only one of the addresses.
    listener: &'static str,
    ip: IpAddr,
    port: u16,
    /// Whether a failure to listen on the port prevents the start.
    is_needed: bool,
    /// Whether the port is in the member list.
    is_member: bool,
}

/// Result of the port checks.
#[derive(Debug)]
pub(crate) struct Ports {
    pub(crate) findings: Vec<Finding>,
    /// Whether a process that has the data open listens on one of the ports.
    pub(crate) is_own: bool,
}

/// Checks every port without listening on it.
pub(crate) fn examine(config: &Config, processes: &Processes, addresses: &Addresses) -> Ports {
    let wanted = required_ports(config, addresses);
    let is_held_by_holder = |one: &RequiredPort| {
        let holder = processes.listener(one.ip, one.port);
        holder.is_ok_and(|holder| processes.holders.contains(holder))
    };
    let is_own = wanted.iter().any(is_held_by_holder);
    let mut findings = duplicate_ports(config, &wanted);
    for one in &wanted {
        findings.extend(try_bind(config, one, processes));
    }
    Ports { findings, is_own }
}

fn required_ports(config: &Config, addresses: &Addresses) -> Vec<RequiredPort> {
    let ip_of = |host: &str| ip_of(host, addresses);
    let mut wanted: Vec<RequiredPort> = Vec::new();
    let mut add = |port: RequiredPort| {
        let is_same = |other: &RequiredPort| {
            other.listener == port.listener && other.ip == port.ip && other.port == port.port
        };
        if port.port != 0 && !wanted.iter().any(is_same) {
            wanted.push(port);
        }
    };
    let of_setting = |key: &'static str, ip: IpAddr, port: u16| RequiredPort {
        key: key.to_owned(),
        listener: key,
        ip,
        port,
        is_needed: true,
        is_member: false,
    };
    let client = &config.client;
    for (key, address) in [
        ("clientPort", &client.plain),
        ("secureClientPort", &client.secure),
    ] {
        if let Some(address) = address {
            add(of_setting(key, address.ip, address.port));
        }
    }
    if config.admin.is_enabled {
        let ip = ip_of(&config.admin.address);
        add(of_setting("admin.serverPort", ip, config.admin.port));
    }
    if let Some(port) = config.admin.health_port {
        let ip = ip_of(&config.admin.address);
        add(of_setting("zoarium.health.port", ip, port));
    }
    if let MetricsExporter::Prometheus { host, port, .. } = &config.metrics.exporter {
        add(of_setting("metricsProvider.httpPort", ip_of(host), *port));
    }
    if let Some(ensemble) = &config.ensemble
        && let Some(own) = ensemble.membership.members.get(&ensemble.my_id)
    {
        for address in &own.addresses {
            let ip = if ensemble.listen_on_all_ips {
                IpAddr::V4(Ipv4Addr::UNSPECIFIED)
            } else {
                ip_of(&address.host)
            };
            for (listener, port) in [
                ("quorum port", address.quorum_port),
                ("election port", address.election_port),
            ] {
                add(RequiredPort {
                    key: format!("{MEMBER}{}", own.sid),
                    is_member: true,
                    ..of_setting(listener, ip, port)
                });
            }
            if let Some(port) = ensemble.learner.observer_master_port {
                add(RequiredPort {
                    is_needed: false,
                    ..of_setting("observerMasterPort", ip, port)
                });
            }
        }
    }
    wanted
}

/// Returns the first address of a host, or the unspecified address if none is known.
fn ip_of(host: &str, addresses: &Addresses) -> IpAddr {
    let known = addresses.get(host).and_then(Option::as_ref);
    let first = known.and_then(|known| known.first().copied());
    first.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}

/// Returns the line of a setting. For a member without a line in zoo.cfg, returns the dynamic file.
fn place(config: &Config, key: &str) -> Option<Origin> {
    let given = config.given.iter().find(|given| given.name == key);
    let dynamic_file = || {
        let ensemble = config.ensemble.as_ref().filter(|_| key.starts_with(MEMBER));
        ensemble?.dynamic_file.as_deref().map(Origin::file)
    };
    given.map_or_else(dynamic_file, |given| given.origin.clone())
}

fn duplicate_ports(config: &Config, wanted: &[RequiredPort]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, one) in wanted.iter().enumerate() {
        let overlaps = |other: &&RequiredPort| {
            let is_everywhere = one.ip.is_unspecified() || other.ip.is_unspecified();
            one.listener != other.listener
                && one.port == other.port
                && (is_everywhere || one.ip == other.ip)
        };
        if let Some(other) = wanted.iter().take(index).find(overlaps) {
            let problem = format!("port {} is also used by {}", one.port, other.key);
            let found = Finding::new(finding::PORT_TWICE, Severity::Blocker, problem);
            let found = found.at(place(config, &one.key)).key(&one.key);
            findings.push(found.way_out("use different ports"));
        }
    }
    findings
}

fn try_bind(config: &Config, one: &RequiredPort, processes: &Processes) -> Option<Finding> {
    let found = |id, severity, problem: String| {
        let found = Finding::new(id, severity, problem);
        found.at(place(config, &one.key)).key(&one.key)
    };
    let needed = if one.is_needed {
        Severity::Blocker
    } else {
        Severity::Warning
    };
    let port = one.port;
    let Err(error) = bind(one.ip, port) else {
        return (port < privileged_below()).then(|| {
            let problem = format!("port {port} is reserved for root");
            found(finding::PORT_PRIVILEGED, Severity::Warning, problem)
                .way_out("grant CAP_NET_BIND_SERVICE to the server, or choose another port")
        });
    };
    let at = SocketAddr::new(one.ip, port);
    match error.kind() {
        io::ErrorKind::AddrInUse => Some(port_in_use(one, processes, found, needed)),
        io::ErrorKind::PermissionDenied => Some(
            found(finding::PORT_PRIVILEGED, needed, format!("the user that runs preflight is not permitted to use port {port}"))
                .way_out("grant CAP_NET_BIND_SERVICE to the server, or choose another port"),
        ),
        // A separate check covers the member list.
        io::ErrorKind::AddrNotAvailable if one.is_member => None,
        io::ErrorKind::AddrNotAvailable => Some(
            found(finding::PORT_ADDRESS, needed, format!("{} is not an address of this machine", one.ip))
                .way_out("write an address of this machine; with network address translation, set quorumListenOnAllIPs=true"),
        ),
        _ => Some(found(finding::PORT_TAKEN, needed, format!("cannot listen on {at}: {error}"))),
    }
}

/// Returns the finding for a port that is in use. A running server of this installation is not a
/// blocker, because the start may replace it.
fn port_in_use(
    one: &RequiredPort,
    processes: &Processes,
    found: impl Fn(&'static str, Severity, String) -> Finding,
    needed: Severity,
) -> Finding {
    let port = one.port;
    match processes.listener(one.ip, port) {
        Ok(process) if processes.is_server(process) => found(
            finding::RUNNING,
            Severity::Note,
            format!("port {port} is used by the running server, {process}"),
        ),
        Ok(process) => found(
            finding::PORT_TAKEN,
            needed,
            format!("port {port} is used by {process}"),
        )
        .way_out("stop this process, or choose another port"),
        Err(_) if processes.has_server() => found(
            finding::RUNNING,
            if processes.own.is_empty() {
                Severity::Warning
            } else {
                Severity::Note
            },
            format!("port {port} is in use, probably by the running server"),
        )
        .way_out("run preflight as root to see the process"),
        Err(_) => found(
            finding::PORT_TAKEN,
            needed,
            format!("port {port} is used by a process that preflight cannot inspect"),
        )
        .way_out("run preflight as root to see the process. Then stop the process, or choose another port"),
    }
}

/// Binds to an address briefly, without listening. This fails if another process listens on the
/// port.
fn bind(ip: IpAddr, port: u16) -> io::Result<()> {
    if ip != IpAddr::V4(Ipv4Addr::UNSPECIFIED) {
        return bind_one(SocketAddr::new(ip, port));
    }
    bind_one(SocketAddr::new(ip, port))?;
    // The unspecified address covers both IPv4 and IPv6. A machine may have only one of them.
    match bind_one(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port)) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
        _ => Ok(()),
    }
}

fn bind_one(at: SocketAddr) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
    if at.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // Servers set the same option, so that the remains of closed connections do not count.
    socket.set_reuse_address(true)?;
    socket.bind(&at.into())
}

fn privileged_below() -> u16 {
    let file = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let written = file.ok().and_then(|text| text.trim().parse().ok());
    written.unwrap_or(PRIVILEGED_BELOW)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use config::{RawConfig, Surroundings, SystemProperties};

    use super::*;

    /// Machine whose only file is `myid`.
    struct Machine;

    impl Surroundings for Machine {
        fn read(&mut self, _: &Path, _: usize) -> io::Result<Vec<u8>> {
            Ok(b"1\n".to_vec())
        }

        fn resolve(&mut self, _: &str) -> io::Result<IpAddr> {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    /// Returns the ports of server 1, whose hosts `a` and `b` have the same address, and the
    /// problems with duplicate ports.
    fn ports(lines: &str) -> (Vec<u16>, Vec<String>) {
        let text = format!(
            "dataDir=/nowhere\nclientPort=2181\ninitLimit=10\nsyncLimit=5\nadmin.enableServer=false\n\
             multiAddress.enabled=true\nserver.2=c:2888:3888\n{lines}\n"
        );
        let raw = RawConfig::parse("zoo.cfg".as_ref(), text.as_bytes()).expect("zoo.cfg");
        let config =
            Config::parse(raw, SystemProperties::new(), &mut Machine).expect("a configuration");
        let ip = "192.0.2.1".parse().expect("an address");
        let same = ["a", "b"].map(|host| (host.to_owned(), Some(vec![ip])));
        let wanted = required_ports(&config, &same.into());
        let problems = duplicate_ports(&config, &wanted).into_iter();
        (
            wanted.iter().map(|one| one.port).collect(),
            problems.map(|found| found.problem).collect(),
        )
    }

    #[test]
    fn addresses_of_a_member_may_share_a_port() {
        let observers = "observerMasterPort=2191";
        for addresses in [
            "server.1=a:2888:3888|b:2888:3888",
            "server.1=10.0.0.1:2888:3888|10.0.0.2:2888:3888\nquorumListenOnAllIPs=true",
        ] {
            let found = ports(&format!("{addresses}\n{observers}"));
            assert_eq!(found, (vec![2181, 2888, 3888, 2191], vec![]), "{addresses}");
        }
        // A host without a known address stands for all addresses.
        let (_, problems) = ports("server.1=a:2888:3888|unknown:2888:3888");
        assert!(problems.is_empty(), "{problems:?}");
        let (_, problems) = ports("server.1=a:2888:3888|b:2889:2888");
        assert_eq!(problems, ["port 2888 is also used by server.1"]);
    }
}
