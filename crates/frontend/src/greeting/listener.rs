//! Acceptance of client connections.

use std::net::SocketAddr;
use std::sync::Arc;

use log_limiter::LogLimiter;
use proto::Id;
use replica::Service;
use tokio::io::DuplexStream;
use tokio::net::{TcpListener, TcpStream};
use transport::tls::{Acceptor, Refused};
use transport::{Accepting, Listener, ReservedDescriptors, SocketOptions, TcpWriter, accept_each};

use crate::clients::Clients;
use crate::connection::Connection;
use crate::limits;
use crate::login::x509;
use crate::requests::task;

/// Client port.
struct Port {
    clients: Arc<Clients>,
    acceptor: Acceptor,
    log_limiter: LogLimiter,
}

/// Accepts until the task is aborted.
pub async fn accept_loop(clients: Arc<Clients>, listener: TcpListener, acceptor: Acceptor) {
    let listener = Listener::new(listener);
    let accepting = Accepting {
        of: "clients",
        options: SocketOptions {
            keep_alive: clients.settings.tcp_keep_alive,
            unacknowledged_max: None,
        },
        reserved_descriptors: ReservedDescriptors::ByClients,
    };
    let port = Arc::new(Port {
        clients,
        acceptor,
        log_limiter: LogLimiter::of("client port"),
    });
    let admit = |stream, peer| admit(&port, stream, peer);
    accept_each(&listener, accepting, admit).await;
}

fn admit(port: &Arc<Port>, stream: TcpStream, peer: SocketAddr) {
    let clients = &port.clients;
    if clients.refuses_logins(peer) {
        clients.metrics.connection_rejected.inc();
        log_limiter::limited!(in port.log_limiter => warn, %peer, "connection refused: too many failed logins (auth.maxFailuresPerMinute)");
        return;
    }
    match register(clients, peer) {
        Ok(connection) if port.acceptor.is_plain() => {
            let (stream, writer) = TcpWriter::split(stream);
            connection.write_at_once(writer);
            tokio::spawn(task::run(clients.clone(), connection, stream));
        }
        Ok(connection) => {
            tokio::spawn(greet(port.clone(), connection, stream));
        }
        Err(refused) => {
            clients.metrics.connection_rejected.inc();
            log_limiter::limited!(warn, err = %refused, "connection refused");
        }
    }
}

/// Registers a client with this address if the limits allow it.
pub(crate) fn register(
    clients: &Clients,
    peer: SocketAddr,
) -> Result<Arc<Connection>, admission::Refused> {
    let address = peer.ip().to_canonical();
    let identity = Id {
        scheme: "ip".into(),
        id: tree::auth::host_address(address).into(),
    };
    let ledger = &clients.ledger;
    let id = ledger
        .connections
        .enter(address, clients.settings.connection_limits)?;
    let connection = Connection::new(id, peer, Arc::from([identity]), ledger.buffered.clone());
    let connection = Arc::new(connection);
    clients.registry.insert(connection.clone());
    Ok(connection)
}

/// Returns the client's end of an in-process connection for this address. The connection serves a
/// caller that acts for a client at this address and must be treated like that client.
///
/// # Errors
/// If that client would be refused. The error is the reason, for people.
pub fn connect_in_process(
    clients: &Arc<Clients>,
    peer: SocketAddr,
) -> Result<DuplexStream, String> {
    if clients.refuses_logins(peer) {
        clients.metrics.connection_rejected.inc();
        return Err("too many failed logins from your address".to_owned());
    }
    let connection = register(clients, peer).map_err(|refused| {
        clients.metrics.connection_rejected.inc();
        refused.to_string()
    })?;
    let (theirs, ours) = tokio::io::duplex(limits::CONNECTION_WITHIN_BYTES);
    tokio::spawn(task::run(clients.clone(), connection, ours));
    Ok(theirs)
}

/// Performs the TLS handshake if the client starts one, and serves the connection.
async fn greet(port: Arc<Port>, connection: Arc<Connection>, stream: TcpStream) {
    let clients = &port.clients;
    let drops_early = clients.settings.drops_handshakes_early;
    if drops_early && clients.registry.service() == Service::None {
        tracing::debug!(peer = %connection.peer, "not serving clients at present, closing connection");
        return clients.forget(&connection);
    }
    // The handshake is boxed, so that its memory is freed afterwards.
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
                    clients.auth_failed(connection.peer);
                }
                _ => {}
            }
            refused.log("clients", connection.peer, &port.log_limiter);
            clients.forget(&connection);
        }
    }
}
