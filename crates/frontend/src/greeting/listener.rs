//! Acceptance of client connections.

use std::net::SocketAddr;
use std::sync::Arc;

use log_limiter::LogLimiter;
use replica::Service;
use tokio::io::DuplexStream;
use tokio::net::{TcpListener, TcpStream};
use transport::tls::{Acceptor, Refused};
use transport::{Accepting, Listener, ReservedDescriptors, SocketOptions, TcpWriter, accept_each};

use crate::connection::Connection;
use crate::limits;
use crate::login::x509;
use crate::requests::context::ConnectionContext;
use crate::requests::task;

/// Client port.
struct Port {
    context: Arc<ConnectionContext>,
    acceptor: Acceptor,
    log_limiter: LogLimiter,
}

/// Accepts client connections until the task is aborted.
pub async fn accept_loop(
    context: Arc<ConnectionContext>,
    listener: TcpListener,
    acceptor: Acceptor,
) {
    let listener = Listener::new(listener);
    let accepting = Accepting {
        of: "clients",
        options: SocketOptions {
            keep_alive: context.requests.settings.tcp_keep_alive,
            unacknowledged_max: None,
        },
        reserved_descriptors: ReservedDescriptors::ByClients,
    };
    let port = Arc::new(Port {
        context,
        acceptor,
        log_limiter: LogLimiter::of("client port"),
    });
    let admit = |stream, peer| admit(&port, stream, peer);
    accept_each(&listener, accepting, admit).await;
}

fn admit(port: &Arc<Port>, stream: TcpStream, peer: SocketAddr) {
    let context = &port.context;
    let metrics = &context.requests.metrics;
    if context.refuses_logins(peer) {
        metrics.connection_rejected.inc();
        log_limiter::limited!(in port.log_limiter => warn, %peer, "connection refused: too many failed logins (auth.maxFailuresPerMinute)");
        return;
    }
    match context.connections.register(peer) {
        Ok(connection) if port.acceptor.is_plain() => {
            let (stream, writer) = TcpWriter::split(stream);
            connection.write_at_once(writer);
            tokio::spawn(task::run(context.clone(), connection, stream));
        }
        Ok(connection) => {
            tokio::spawn(greet(port.clone(), connection, stream));
        }
        Err(refused) => {
            metrics.connection_rejected.inc();
            log_limiter::limited!(warn, err = %refused, "connection refused");
        }
    }
}

/// Returns the client's end of an in-process connection for this address. The connection serves a
/// caller that acts for a client at this address and must be treated like that client. `subject` is
/// the subject of that client's certificate, if the caller has verified one.
///
/// # Errors
/// If that client would be refused. The error contains the reason as text.
pub fn connect_in_process(
    context: &Arc<ConnectionContext>,
    peer: SocketAddr,
    subject: Option<&str>,
) -> Result<DuplexStream, String> {
    let metrics = &context.requests.metrics;
    if context.refuses_logins(peer) {
        metrics.connection_rejected.inc();
        return Err("too many failed logins from your address".to_owned());
    }
    let connection = context.connections.register(peer).map_err(|refused| {
        metrics.connection_rejected.inc();
        refused.to_string()
    })?;
    if let Some(subject) = subject {
        x509::add_identities(&context.requests.settings.x509, &connection, subject);
    }
    let (theirs, ours) = tokio::io::duplex(limits::CONNECTION_WITHIN_BYTES);
    tokio::spawn(task::run(context.clone(), connection, ours));
    Ok(theirs)
}

/// Performs the TLS handshake if the client starts one, and serves the connection.
async fn greet(port: Arc<Port>, connection: Arc<Connection>, stream: TcpStream) {
    let ConnectionContext {
        connections,
        requests,
        ..
    } = &*port.context;
    let drops_early = requests.settings.drops_handshakes_early;
    if drops_early && requests.registry.service() == Service::None {
        tracing::debug!(peer = %connection.peer, "not serving clients at present, closing connection");
        return connections.forget(&connection);
    }
    // The handshake is boxed, so that its memory is freed afterwards.
    let established = Box::pin(port.acceptor.establish(stream, connection.peer)).await;
    match established {
        Ok(stream) => {
            x509::identify(&requests.settings.x509, &connection, &stream);
            task::run(port.context.clone(), connection, stream).await;
        }
        Err(refused) => {
            match refused {
                Refused::Crowded => requests.metrics.tls_handshake_exceeded.inc(),
                Refused::Handshake(_) | Refused::WrongHost(_) | Refused::NoCertificate => {
                    requests.metrics.unsuccessful_handshake.inc();
                    requests.login_failures().note(connection.peer);
                }
                _ => {}
            }
            refused.log("clients", connection.peer, &port.log_limiter);
            connections.forget(&connection);
        }
    }
}
