//! Accepting client connections.

use std::net::SocketAddr;
use std::sync::Arc;

use proto::Id;
use tokio::net::{TcpListener, TcpStream};
use transport::{Listener, SocketOptions, Stream, accept_each};

use super::connection::Connection;
use super::task;
use crate::client::clients::Clients;

/// Accepts until the task is aborted.
pub(crate) async fn accept_loop(clients: Arc<Clients>, listener: TcpListener) {
    let listener = Listener::new(listener);
    let options = SocketOptions {
        keep_alive: clients.settings.tcp_keep_alive,
        unacknowledged_max: None,
    };
    let admit = |stream, peer| admit(&clients, stream, peer);
    accept_each(&listener, "clients", options, admit).await;
}

fn admit(clients: &Arc<Clients>, stream: TcpStream, peer: SocketAddr) {
    let address = peer.ip().to_canonical();
    let identity = Id {
        scheme: "ip".into(),
        id: tree::auth::host_address(address).into(),
    };
    let admitted = clients
        .registry
        .admit(address, clients.settings.connection_limits, |id| {
            Connection::new(id, peer, Arc::from([identity]), clients.held.clone())
        });
    match admitted {
        Ok(connection) => {
            let stream = Stream::from(stream);
            tokio::spawn(task::run(clients.clone(), connection, stream));
        }
        Err(refused) => {
            clients.metrics.connection_rejected.inc();
            tracing::warn!(err = %refused, "connection refused");
        }
    }
}
