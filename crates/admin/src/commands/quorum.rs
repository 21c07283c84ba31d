//! `leader`, `observers`, `voting_view` and `zabstate`: a member's view of its ensemble.

use config::members::{Member, MemberAddress};
use metrics::role::{Mode, RoleView};
use metrics::view::{AdminView, ObserverInfo};
use proto::Sid;

use crate::answer::{Answer, Json, Object};

/// Returns the leader. Source: LeaderCommand.
pub(super) fn leader(view: &dyn AdminView) -> Answer {
    let role = view.role();
    let Some((sid, members)) = role.leader.zip(role.members.as_ref()) else {
        return Answer::error("server is not initialized");
    };
    let hosts = members.members.get(&sid).map(|leader| {
        let hosts = leader.addresses.iter().map(|address| address.host.clone());
        hosts.collect::<Vec<_>>().join("|")
    });
    let object = Object::new()
        .with("is_leader", matches!(role.mode, Mode::Leader { .. }))
        .with("leader_id", sid.0)
        .with("leader_ip", hosts.unwrap_or_default());
    Answer::found(object)
}

pub(super) fn observers(view: &dyn AdminView) -> Answer {
    let observers: Vec<Object> = view.observers().iter().map(observer).collect();
    let synced = view.role().mode.synced_observers().unwrap_or(0);
    let object = Object::new()
        .with("synced_observers", synced)
        .with("observers", observers);
    Answer::found(object)
}

fn observer(info: &ObserverInfo) -> Object {
    let peer = std::net::SocketAddr::new(info.peer.ip().to_canonical(), info.peer.port());
    Object::new()
        .with("remote_socket_address", format!("/{peer}"))
        .with("sid", info.sid.0)
        .with("established", info.established_ms)
        .with("queued_packets", info.queued_packets)
        .with("queued_packets_size", info.queued_bytes)
        .with("packets_received", info.packets_received)
        .with("packets_sent", info.packets_sent)
        .with("requests", info.requests)
        .with("last_zxid", info.last_zxid.0)
}

/// Returns the voters. The list is empty on a standalone server, and on a member without a leader.
/// Source: VotingViewCommand.
pub(super) fn voting_view(view: &dyn AdminView) -> Answer {
    let role = view.role();
    let members = role.members.as_ref().filter(|_| role.mode.has_leader());
    let voters: Object = members.map_or_else(Object::new, |members| {
        let voters = members.participants();
        voters
            .map(|voter| (voter.sid.to_string(), voter_view(voter)))
            .collect()
    });
    Answer::found(Object::new().with("current_config", voters))
}

fn voter_view(voter: &Member) -> Object {
    let each = |port: fn(&MemberAddress) -> u16| {
        let addresses = voter.addresses.iter();
        let texts = addresses.map(|address| at(&address.host, port(address)));
        texts.collect::<Vec<_>>()
    };
    Object::new()
        .with("server_addresses", each(|address| address.quorum_port))
        .with("election_addresses", each(|address| address.election_port))
        .with("client_address", client_address(voter))
        .with("learner_type", "participant")
}

fn client_address(member: &Member) -> Option<String> {
    let client = member.client.as_ref()?;
    Some(at(&client.host, client.port))
}

fn at(host: &str, port: u16) -> String {
    format!("{host}:{port}")
}

/// Returns the state of the protocol. Without a leader, a member returns the same answer as a
/// standalone server. Source: ZabStateCommand.
pub(super) fn zabstate(view: &dyn AdminView) -> Answer {
    let role = view.role();
    let me = Sid(view.configuration().server_id);
    let object = match known(&role, me) {
        Some(own) => of_member(view, &role, own),
        None => Object::new().with("voting", false).with("zabstate", ""),
    };
    Answer::found(object)
}

fn known(role: &RoleView, me: Sid) -> Option<&Member> {
    let members = role.members.as_ref()?;
    role.served_mode().filter(|mode| mode.has_leader())?;
    members.members.get(&me)
}

fn of_member(view: &dyn AdminView, role: &RoleView, own: &Member) -> Object {
    let zxid = view.last_zxid();
    let votes = role
        .members
        .as_ref()
        .is_some_and(|members| members.participants().any(|voter| voter.sid == own.sid));
    Object::new()
        .with("myid", own.sid.0)
        .with("is_leader", matches!(role.mode, Mode::Leader { .. }))
        .with("quorum_address", addresses(own, |own| own.quorum_port))
        .with("election_address", addresses(own, |own| own.election_port))
        .with("client_address", client_address(own))
        .with("voting", votes)
        .with("last_zxid", format!("0x{:x}", zxid.0))
        .with("zab_epoch", zxid.epoch().0)
        .with("zab_counter", i64::from(zxid.counter()))
        .with("zabstate", role.zab.name())
}

/// Returns the addresses of this server. All of them are reported as reachable without a check. The
/// order of keys in Java depends on the JVM. Source: MultipleAddresses.
fn addresses(own: &Member, port: fn(&MemberAddress) -> u16) -> Object {
    let all: Vec<String> = own
        .addresses
        .iter()
        .map(|address| at(&address.host, port(address)))
        .collect();
    let first = all.first().cloned();
    let own_ports = own.addresses.iter().map(port);
    let mut ports: Vec<u16> = own_ports.collect();
    ports.sort_unstable();
    ports.dedup();
    let wildcard = ports.iter().map(|port| at("0.0.0.0", *port));
    let hosts = own.addresses.iter().map(|address| address.host.clone());
    Object::new()
        .with("empty", all.is_empty())
        .with("all_addresses", all.clone())
        .with("wildcard_addresses", wildcard.collect::<Vec<_>>())
        .with("all_ports", Json::from(ports))
        .with("all_host_strings", hosts.collect::<Vec<_>>())
        .with("reachable_address", first.clone())
        .with("all_reachable_addresses", all.clone())
        .with("all_reachable_addresses_or_all", all)
        .with("reachable_or_one", first.clone())
        .with("one", first)
}
