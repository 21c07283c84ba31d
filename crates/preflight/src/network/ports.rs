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
    let mut wanted = Vec::new();
    let mut add = |key: &str, ip: IpAddr, port: u16, is_needed| {
        if port != 0 {
            let is_member = key.starts_with(MEMBER);
            let key = key.to_owned();
            wanted.push(RequiredPort {
                key,
                ip,
                port,
                is_needed,
                is_member,
            });
        }
    };
    let client = &config.client;
    for (key, address) in [
        ("clientPort", &client.plain),
        ("secureClientPort", &client.secure),
    ] {
        if let Some(address) = address {
            add(key, address.ip, address.port, true);
        }
    }
    if config.admin.is_enabled {
        let ip = ip_of(&config.admin.address);
        add("admin.serverPort", ip, config.admin.port, true);
    }
    if let Some(port) = config.admin.health_port {
        let ip = ip_of(&config.admin.address);
        add("zoarium.health.port", ip, port, true);
    }
    if let MetricsExporter::Prometheus { host, port, .. } = &config.metrics.exporter {
        add("metricsProvider.httpPort", ip_of(host), *port, true);
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
            let key = format!("server.{}", own.sid);
            add(&key, ip, address.quorum_port, true);
            add(&key, ip, address.election_port, true);
            if let Some(port) = ensemble.learner.observer_master_port {
                add("observerMasterPort", ip, port, false);
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
            one.port == other.port && (is_everywhere || one.ip == other.ip)
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
