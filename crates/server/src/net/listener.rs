//! Accepting client connections.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use proto::Id;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

use super::connection::Connection;
use super::task;
use crate::shared::Shared;

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

/// Accepts until the task is aborted.
pub(crate) async fn accept_loop(shared: Arc<Shared>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => admit(&shared, stream, peer),
            Err(error) => {
                // Out of file descriptors, most likely: it passes when others close.
                tracing::warn!(err = %error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

fn admit(shared: &Arc<Shared>, stream: TcpStream, peer: SocketAddr) {
    let address = peer.ip().to_canonical();
    let identity = Id {
        scheme: "ip".into(),
        id: address.to_string().into(),
    };
    let admitted = shared
        .registry
        .admit(address, shared.settings.connection_limits, |id| {
            Connection::new(id, peer, Arc::from([identity]))
        });
    match admitted {
        Ok(connection) => {
            if let Err(error) = configure(shared, &stream) {
                tracing::debug!(%peer, err = %error, "cannot set socket options");
            }
            tokio::spawn(task::run(shared.clone(), connection, stream));
        }
        Err(refused) => {
            shared.metrics.connection_rejected.inc();
            tracing::warn!(err = %refused, "connection refused");
        }
    }
}

fn configure(shared: &Shared, stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    if shared.settings.tcp_keep_alive {
        SockRef::from(stream).set_keepalive(true)?;
    }
    Ok(())
}
