//! Addresses and ports of members and of their peers. Each process uses different addresses, so the
//! ports are free.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use proto::Sid;
use tokio::net::{TcpSocket, TcpStream};

pub(crate) const CLIENT_PORT: u16 = 2181;
pub(crate) const SECURE_PORT: u16 = 2281;
pub(crate) const QUORUM_PORT: u16 = 2888;
pub(crate) const ELECTION_PORT: u16 = 3888;
pub(crate) const OBSERVER_MASTER_PORT: u16 = 2889;
pub(crate) const ADMIN_PORT: u16 = 8080;
pub(crate) const EXPORTER_PORT: u16 = 7000;
pub(crate) const HEALTH_PORT: u16 = 8081;

/// Last byte of the address of the proxies.
const OBSERVER: u8 = 99;
/// Last byte of the address of attackers that act as clients and members.
const ATTACKER: u8 = 199;
/// Last byte of the first address of attackers that visit one port, and number of the addresses.
const VISITORS: (u8, u8) = (200, 50);

/// Returns the address of a member.
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

/// Returns the address of the proxies between clients and servers.
pub(crate) fn observer() -> IpAddr {
    address(OBSERVER)
}

/// Returns the address of attackers that act as clients and members. No certificate contains it.
pub(crate) fn attacker() -> IpAddr {
    address(ATTACKER)
}

/// Returns the address of an attacker that visits one port. Log lines about different attackers
/// differ.
pub(crate) fn visitor(number: u8) -> IpAddr {
    let (first, count) = VISITORS;
    address(first + number % count)
}

/// Returns whether a host is the address of an attacker that visits one port.
pub(crate) fn is_visitor(host: &str) -> bool {
    let host: Result<IpAddr, _> = host.parse();
    host.is_ok_and(|host| (0..VISITORS.1).any(|number| visitor(number) == host))
}

/// Connects from an address.
pub(crate) async fn connect(server: SocketAddr, source: IpAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(source, 0))?;
    socket.connect(server).await
}
