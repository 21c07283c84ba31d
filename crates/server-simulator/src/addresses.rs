//! Addresses and ports of the members.

use std::net::{IpAddr, Ipv4Addr};

use proto::Sid;

pub(crate) const CLIENT_PORT: u16 = 2181;
pub(crate) const QUORUM_PORT: u16 = 2888;
pub(crate) const ELECTION_PORT: u16 = 3888;
pub(crate) const OBSERVER_MASTER_PORT: u16 = 2889;
pub(crate) const ADMIN_PORT: u16 = 8080;
pub(crate) const EXPORTER_PORT: u16 = 7000;
pub(crate) const HEALTH_PORT: u16 = 8081;

/// Returns the address of a member. Each process uses different addresses, so the ports are free.
pub(crate) fn address_of(member: Sid) -> IpAddr {
    address(u8::try_from(member.0).expect("few members"))
}

/// Returns the other address of a member that has two.
pub(crate) fn second_address_of(member: Sid) -> IpAddr {
    address(100 + u8::try_from(member.0).expect("few members"))
}

fn address(last: u8) -> IpAddr {
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, high | 0x80, low, last).into()
}
