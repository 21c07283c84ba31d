//! Listening sockets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

/// Binds a listening socket. The address can be reused immediately after a restart.
///
/// # Errors
/// If the address cannot be bound.
pub fn bind(address: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // One socket serves both address families, as in the JVM.
        socket.set_only_v6(false)?;
    }
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket.into())
}

/// Binds a port on all addresses of this machine, in both address families if the machine has both,
/// as in the JVM.
///
/// # Errors
/// If the port is already in use in either family, or if neither family can be bound.
pub fn bind_everywhere(port: u16, backlog: i32) -> io::Result<TcpListener> {
    let both = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port);
    bind(both, backlog).or_else(|error| match error.kind() {
        io::ErrorKind::AddrInUse => Err(error),
        _ => bind(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port), backlog),
    })
}

/// Binds an address and a port. `0.0.0.0` stands for all addresses of this machine.
///
/// # Errors
/// If [`bind`] or [`bind_everywhere`] fails.
pub fn bind_ip(ip: IpAddr, port: u16, backlog: i32) -> io::Result<TcpListener> {
    match ip {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => bind_everywhere(port, backlog),
        ip => bind(SocketAddr::new(ip, port), backlog),
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn a_wildcard_port_accepts_both_families() {
        let listener = bind_ip(Ipv4Addr::UNSPECIFIED.into(), 0, 8).unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port))
            .await
            .unwrap();
        if listener.local_addr().unwrap().is_ipv6() {
            TcpStream::connect((Ipv6Addr::LOCALHOST, port))
                .await
                .unwrap();
        }
    }

    #[tokio::test]
    async fn a_used_port_is_reported() {
        let first = bind_everywhere(0, 8).unwrap();
        let port = first.local_addr().unwrap().port();
        let error = bind_everywhere(port, 8).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
