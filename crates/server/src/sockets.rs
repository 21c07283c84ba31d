//! Listening sockets, of all ports alike.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

/// Binds a listening socket. The address may be taken again at once after a restart.
///
/// # Errors
/// If the address cannot be bound.
pub(crate) fn bind(address: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // One socket for both families, as the JVM does.
        socket.set_only_v6(false)?;
    }
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket.into())
}

/// Binds every address of this machine: of both families where it has both, as the JVM does.
///
/// # Errors
/// If the port is taken in either family, or no family can be bound.
pub(crate) fn bind_everywhere(port: u16, backlog: i32) -> io::Result<TcpListener> {
    let both = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port);
    bind(both, backlog).or_else(|error| match error.kind() {
        io::ErrorKind::AddrInUse => Err(error),
        _ => bind(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port), backlog),
    })
}
