//! Accepting client connections.

use std::net::SocketAddr;
use std::sync::Arc;

use proto::Id;
use replica::Service;
use tokio::net::{TcpListener, TcpStream};
use transport::tls::{Acceptor, Refused};
use transport::{Listener, LogLimiter, SocketOptions, Stream, accept_each};

use super::connection::Connection;
use super::{task, x509};
use crate::client::clients::Clients;

/// One of the client ports.
struct Port {
    clients: Arc<Clients>,
    acceptor: Acceptor,
    log_limiter: LogLimiter,
}

/// Accepts until the task is aborted.
pub(crate) async fn accept_loop(clients: Arc<Clients>, listener: TcpListener, acceptor: Acceptor) {
    let listener = Listener::new(listener);
    let options = SocketOptions {
        keep_alive: clients.settings.tcp_keep_alive,
        unacknowledged_max: None,
    };
    let port = Arc::new(Port {
        clients,
        acceptor,
        log_limiter: LogLimiter::default(),
    });
    let admit = |stream, peer| admit(&port, stream, peer);
    accept_each(&listener, "clients", options, admit).await;
}

fn admit(port: &Arc<Port>, stream: TcpStream, peer: SocketAddr) {
    let clients = &port.clients;
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
        Ok(connection) if port.acceptor.is_plain() => {
            let stream = Stream::from(stream);
            tokio::spawn(task::run(clients.clone(), connection, stream));
        }
        Ok(connection) => {
            tokio::spawn(greet(port.clone(), connection, stream));
        }
        Err(refused) => {
            clients.metrics.connection_rejected.inc();
            tracing::warn!(err = %refused, "connection refused");
        }
    }
}

/// The TLS handshake, if it is one, and the connection after it.
async fn greet(port: Arc<Port>, connection: Arc<Connection>, stream: TcpStream) {
    let clients = &port.clients;
    let drops_early = clients.settings.drops_handshakes_early;
    if drops_early && clients.service.get() == Service::None {
        tracing::debug!(peer = %connection.peer, "nobody is served at the moment, closing connection");
        return clients.forget(&connection);
    }
    // On the heap: what the handshake takes is given back after it.
    let established = Box::pin(port.acceptor.establish(stream, connection.peer)).await;
    match established {
        Ok(stream) => {
            x509::identify(clients, &connection, &stream);
            task::run(clients.clone(), connection, stream).await;
        }
        Err(refused) => {
            match refused {
                Refused::Crowded => clients.metrics.tls_handshake_exceeded.inc(),
                Refused::Handshake(_) | Refused::WrongHost(_) | Refused::NoCertificate => {
                    clients.metrics.unsuccessful_handshake.inc();
                    clients.stats.auth_failed();
                }
                _ => {}
            }
            refused.tell("clients", connection.peer, &port.log_limiter);
            clients.forget(&connection);
        }
    }
}
