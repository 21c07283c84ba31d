//! Accepting client connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use proto::Id;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};

use super::connection::Connection;
use super::task;
use crate::client::clients::Clients;

/// Accepts until the task is aborted.
pub(crate) async fn accept_loop(clients: Arc<Clients>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => admit(&clients, stream, peer),
            Err(error) => {
                // Out of file descriptors, most likely: it passes when others close.
                tracing::warn!(err = %error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

fn admit(clients: &Arc<Clients>, stream: TcpStream, peer: SocketAddr) {
    let address = peer.ip().to_canonical();
    let identity = Id {
        scheme: "ip".into(),
        id: address.to_string().into(),
    };
    let admitted = clients
        .registry
        .admit(address, clients.settings.connection_limits, |id| {
            Connection::new(id, peer, Arc::from([identity]))
        });
    match admitted {
        Ok(connection) => {
            if let Err(error) = configure(clients, &stream) {
                tracing::debug!(%peer, err = %error, "cannot set socket options");
            }
            tokio::spawn(task::run(clients.clone(), connection, stream));
        }
        Err(refused) => {
            clients.metrics.connection_rejected.inc();
            tracing::warn!(err = %refused, "connection refused");
        }
    }
}

fn configure(clients: &Clients, stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    if clients.settings.tcp_keep_alive {
        SockRef::from(stream).set_keepalive(true)?;
    }
    Ok(())
}
