//! Checks of the member list: host names, shared addresses, and the address of this server.

use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};

use config::finding::{Finding, Severity, UNRESOLVED};
use config::{Config, Ensemble, Origin};
use proto::Sid;

use crate::finding;
use crate::network::names::Addresses;

/// Checks the member list of an ensemble.
pub(crate) fn examine(config: &Config, addresses: &Addresses) -> Vec<Finding> {
    let Some(ensemble) = &config.ensemble else {
        return Vec::new();
    };
    let at = |sid: Sid, id, severity, problem: String| {
        let key = format!("server.{sid}");
        let given = config.given.iter().find(|given| given.name == key);
        let written = given.and_then(|given| given.origin.clone());
        let file = ensemble.dynamic_file.as_deref().map(Origin::file);
        Finding::new(id, severity, problem)
            .at(written.or(file))
            .key(key)
    };
    let mut findings = Vec::new();
    for member in ensemble.membership.members.values() {
        for address in &member.addresses {
            if addresses.get(&address.host).is_none_or(Option::is_none) {
                let problem = format!("the host {} cannot be resolved", address.host);
                let found = at(member.sid, UNRESOLVED, Severity::Warning, problem);
                findings.push(found.way_out("add the host to the name service or to /etc/hosts; the server resolves its name again for every connection"));
            }
        }
    }
    for (sid, other) in members_with_shared_address(ensemble) {
        let problem = format!("this member has the address of server.{other}");
        let found = at(sid, finding::MEMBER_TWICE, Severity::Warning, problem);
        findings.push(found.way_out("give every member a different host or different ports"));
    }
    findings.extend(own_address(ensemble, addresses, at));
    findings
}

/// Checks that the other members can reach this server at its listed address.
fn own_address(
    ensemble: &Ensemble,
    addresses: &Addresses,
    at: impl Fn(Sid, &'static str, Severity, String) -> Finding,
) -> Option<Finding> {
    let of = |sid: Sid| -> Vec<IpAddr> {
        let member = ensemble.membership.members.get(&sid);
        let hosts = member.into_iter().flat_map(|member| &member.addresses);
        let known = hosts.filter_map(|at| addresses.get(&at.host)?.as_ref());
        known.flatten().copied().collect()
    };
    let own = of(ensemble.my_id);
    if own.is_empty() {
        return None;
    }
    let listed = own
        .iter()
        .map(IpAddr::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    if !own.iter().any(|ip| is_local(*ip)) && !ensemble.listen_on_all_ips {
        let problem =
            format!("this server must listen on {listed}, which is not an address of this machine");
        let found = at(
            ensemble.my_id,
            finding::MEMBER_ADDRESS,
            Severity::Blocker,
            problem,
        );
        return Some(found.way_out(
            "correct the host or myid; with network address translation, set quorumListenOnAllIPs=true",
        ));
    }
    let mut others = ensemble
        .membership
        .members
        .keys()
        .filter(|sid| **sid != ensemble.my_id);
    let is_elsewhere = |sid: &Sid| {
        of(*sid)
            .iter()
            .any(|ip| !ip.is_loopback() && !ip.is_unspecified())
    };
    if own.iter().all(IpAddr::is_loopback) && others.any(is_elsewhere) {
        let problem =
            format!("this server would listen on {listed}, which other machines cannot reach");
        let found = at(
            ensemble.my_id,
            finding::MEMBER_LOOPBACK,
            Severity::Warning,
            problem,
        );
        return Some(found.way_out(
            "write the network address of this machine; /etc/hosts often maps a machine's own name to 127.0.1.1",
        ));
    }
    None
}

/// Returns each member that has an address of an earlier member, with the earlier member.
fn members_with_shared_address(ensemble: &Ensemble) -> Vec<(Sid, Sid)> {
    let mut seen: BTreeMap<(String, u16), Sid> = BTreeMap::new();
    let mut found = BTreeMap::new();
    for member in ensemble.membership.members.values() {
        for address in &member.addresses {
            for port in [address.quorum_port, address.election_port] {
                let other = seen.insert((address.host.clone(), port), member.sid);
                if let Some(other) = other.filter(|other| *other != member.sid) {
                    found.entry(member.sid).or_insert(other);
                }
            }
        }
    }
    found.into_iter().collect()
}

/// Returns whether a socket can be bound to the address.
fn is_local(ip: IpAddr) -> bool {
    ip.is_unspecified() || UdpSocket::bind((ip, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_another_machine_is_not_local() {
        assert!(is_local("127.0.0.1".parse().unwrap()));
        assert!(is_local("0.0.0.0".parse().unwrap()));
        // TEST-NET-1, whose addresses no machine has.
        assert!(!is_local("192.0.2.1".parse().unwrap()));
    }
}
