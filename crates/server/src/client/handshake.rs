//! The first frame of a connection: a command word or a handshake.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use jute::{Decode, Reader};
use proto::connect::ConnectRequest;
use proto::request::WriteRequest;
use proto::{ErrorCode, OpCode, SessionId, Xid};
use replica::{ClientRequest, Renewal, Service};

use super::answer::{Asked, Responder};
use super::batch::split_frame;
use super::connection::{CONNECT_RESPONSE_BYTES, Connection, Queued, Work, connect_response};
use super::task::{Socket, Stream, fill};
use super::throttle::Handshake;
use crate::client::clients::Clients;
use crate::clock;
use crate::fourlw::Word;
use crate::metrics::Replies;

/// What a connection starts with.
pub(crate) enum First {
    /// A four-letter word.
    Word(Word),
    /// A handshake.
    Connect(ConnectRequest),
    /// The stream ended, or holds neither; logged.
    Nothing,
}

/// Reads until the first frame is there.
pub(crate) async fn first_frame<S: Stream>(
    clients: &Clients,
    socket: &mut Socket<S>,
) -> io::Result<First> {
    loop {
        if let Some(word) = socket
            .input
            .first_chunk()
            .and_then(|four| Word::recognise(*four))
        {
            let _ = socket.input.split_to(4);
            return Ok(First::Word(word));
        }
        match split_frame(&mut socket.input, clients.settings.jute_max_buffer) {
            Ok(Some(frame)) => {
                let request = ConnectRequest::decode(&mut Reader::new(frame));
                return Ok(request.map_or_else(
                    |error| {
                        tracing::warn!(err = %error, "handshake does not decode, closing connection");
                        First::Nothing
                    },
                    First::Connect,
                ));
            }
            Ok(None) => {}
            Err(fault) => {
                tracing::warn!(err = %fault, "no handshake, closing connection");
                return Ok(First::Nothing);
            }
        }
        if !fill(socket).await? {
            clients.metrics.connection_drop_count.inc();
            return Ok(First::Nothing);
        }
    }
}

/// Starts or renews a session. False when the connection is to end after its outbox.
///
/// Source: ZooKeeperServer.processConnectRequest.
pub(crate) async fn connect(
    clients: &Arc<Clients>,
    connection: &Arc<Connection>,
    request: &ConnectRequest,
) -> bool {
    clients.stats.packets_received(1);
    connection.stats.packets_received(1);
    clients.metrics.connection_request_count.inc();
    let service = clients.service.get();
    if service == Service::None {
        tracing::debug!(peer = %connection.peer, "no leader, closing connection");
        return false;
    }
    let is_local = clients.makes_local_sessions(service);
    let kind = match request.session_id {
        SessionId::NONE if is_local => Handshake::NewLocal,
        SessionId::NONE => Handshake::New,
        _ => Handshake::Renewal,
    };
    if !admitted(clients, kind) {
        tracing::warn!(peer = %connection.peer, "too many handshakes, closing connection (connection_throttle_tokens)");
        return false;
    }
    if service == Service::ReadOnly {
        if request.read_only != Some(true) {
            tracing::info!(peer = %connection.peer, "no leader, and the client cannot do with reads, closing connection");
            return false;
        }
        connection.set_read_only();
    }
    let last_zxid = clients.state.tree.read().last_zxid();
    if request.last_zxid_seen > last_zxid {
        tracing::info!(peer = %connection.peer, seen = %request.last_zxid_seen, zxid = %last_zxid, "client has seen a newer zxid than this server, closing so that it tries another");
        return false;
    }
    let settings = &clients.settings;
    let timeout_ms = session::negotiate(
        request.timeout_ms,
        settings.min_session_timeout_ms,
        settings.max_session_timeout_ms,
    );
    let new_style = request.read_only.is_some();
    if request.session_id == SessionId::NONE {
        if is_local {
            open_local(clients, connection, timeout_ms, new_style);
            return true;
        }
        clients.permits.take(1).await;
        open(clients, connection, timeout_ms, new_style);
        return true;
    }
    let session = request.session_id;
    let back = Return {
        service,
        session,
        timeout_ms,
        is_owner: session::password_matches(session, request.password.as_deref()),
        new_style,
    };
    reattach(clients, connection, &back)
}

fn admitted(clients: &Clients, kind: Handshake) -> bool {
    let millionths = u32::try_from(clock::seed() % 1_000_000).unwrap_or(0);
    let chance = f64::from(millionths) / 1e6;
    let mut bucket = clients.handshakes.lock();
    let admitted = bucket.admits(kind, clock::monotonic_ms(), chance);
    let deficit = bucket.deficit();
    drop(bucket);
    clients
        .metrics
        .connection_token_deficit
        .record(deficit.into());
    if !admitted {
        clients.metrics.connection_rejected.inc();
    }
    admitted
}

/// Submits a new session under a permit of the caller; the connection goes on when it is
/// committed.
fn open(clients: &Arc<Clients>, connection: &Arc<Connection>, timeout_ms: i32, new_style: bool) {
    let received_ms = clock::monotonic_ms();
    let asked = Asked {
        xid: Xid(0),
        op: OpCode::CreateSession,
        received_ms,
        frame_bytes: 0,
    };
    let identities = {
        let mut state = connection.lock();
        let work = Work::Handshake { new_style };
        state.enqueue(Queued { asked, work });
        state.identities.clone()
    };
    let session = clients.new_session(timeout_ms);
    let request = ClientRequest {
        ticket: connection.ticket(),
        session,
        cxid: 0,
        identities,
        request: WriteRequest::CreateSession { timeout_ms },
        body: Bytes::copy_from_slice(&timeout_ms.to_be_bytes()),
        large_bytes: 0,
        upgrade_ms: None,
    };
    clients.submit(connection, received_ms, vec![request]);
}

/// Starts a session that needs no transaction.
fn open_local(clients: &Clients, connection: &Connection, timeout_ms: i32, new_style: bool) {
    let session = clients.new_local_session(timeout_ms);
    tracing::info!(peer = %connection.peer, %session, timeout_ms, "local session established");
    answer(clients, connection, Some((session, timeout_ms)), new_style);
    let tree = clients.state.tree.read();
    let now_ms = clock::monotonic_ms();
    let responder = Responder {
        clients,
        tree: &tree,
        connection,
        now_ms,
    };
    let asked = Asked {
        xid: Xid(0),
        op: OpCode::CreateSession,
        received_ms: now_ms,
        frame_bytes: 0,
    };
    let mut replies = Replies::default();
    let state = connection.lock();
    let zxid = tree.last_zxid();
    responder.note(
        &mut replies,
        asked,
        zxid,
        ErrorCode::Ok,
        CONNECT_RESPONSE_BYTES,
    );
    drop(state);
    clients.stats.replied(&replies);
}

/// A client that comes back with a session.
struct Return {
    service: Service,
    session: SessionId,
    /// Negotiated on this connection.
    timeout_ms: i32,
    /// Whether it has the session's password.
    is_owner: bool,
    new_style: bool,
}

/// False if the connection is to end after its outbox.
fn reattach(clients: &Clients, connection: &Arc<Connection>, back: &Return) -> bool {
    let &Return {
        service,
        session,
        timeout_ms,
        is_owner,
        new_style,
    } = back;
    if service == Service::ReadOnly
        && clients
            .state
            .tree
            .read()
            .session_timeout_ms(session)
            .is_some()
    {
        tracing::info!(peer = %connection.peer, %session, "no leader to say whether the session lives, closing connection");
        return false;
    }
    // Before the password is looked at, as in Java: whoever knows the id can cut the connection,
    // and its owner then reattaches with the right password.
    clients.registry.close_session_connection(session);
    if is_owner && service == Service::Forwarding && !clients.is_local(session) {
        let renewal = Renewal {
            ticket: connection.ticket(),
            session,
            timeout_ms,
            new_style,
        };
        clients.renew(connection, renewal);
        return true;
    }
    clients.metrics.connection_revalidate_count.inc();
    let known = is_owner
        && match service {
            Service::ReadOnly => clients.renew_read_only(session, timeout_ms),
            Service::None | Service::Deciding | Service::Forwarding => {
                clients.renew_session(session, timeout_ms)
            }
        };
    if !known && connection.is_closed() {
        // The role has ended meanwhile, and the sessions that this server knows are not those that it
        // decided about: nothing is known about this one.
        return false;
    }
    let timeout_ms = known.then_some(timeout_ms);
    finish_renewal(clients, connection, session, timeout_ms, new_style);
    known
}

/// Answers a client that came back with a session: `timeout_ms` is `None` if that is over, or was
/// never its own.
pub(crate) fn finish_renewal(
    clients: &Clients,
    connection: &Connection,
    session: SessionId,
    timeout_ms: Option<i32>,
    new_style: bool,
) {
    if let Some(timeout_ms) = timeout_ms {
        tracing::info!(peer = %connection.peer, %session, timeout_ms, "session renewed");
    } else {
        tracing::info!(peer = %connection.peer, %session, "session is over or its password is wrong");
    }
    let renewed = timeout_ms.map(|timeout_ms| (session, timeout_ms));
    answer(clients, connection, renewed, new_style);
    connection.stats.packets_sent(1);
    clients.stats.packets_sent(1);
}

/// Gives the connection its session and says so, or says that there is none and ends it.
fn answer(
    clients: &Clients,
    connection: &Connection,
    session: Option<(SessionId, i32)>,
    new_style: bool,
) {
    if let Some((id, timeout_ms)) = session {
        clients.registry.bind(connection, id);
        connection.set_session(id, timeout_ms);
    }
    let response = connect_response(session, new_style, connection.is_read_only());
    let mut state = connection.lock();
    state.ends_after_flush = session.is_none();
    state.push_connect_response(&response);
}

#[cfg(test)]
mod tests {
    use replica::sessions::Sessions;
    use tree::WatcherId;

    use super::*;
    use crate::assemble::server::test_server;

    /// A handshake that has begun while this server decided about sessions, and goes on when the role
    /// has ended: nothing is known about any session then, and "it is over" would be a lie.
    #[tokio::test]
    async fn a_client_that_comes_back_while_the_role_ends_is_not_told_that_its_session_is_over() {
        let dir = tempfile::tempdir().unwrap();
        let server = test_server(dir.path()).await;
        let clients = &server.clients;
        let peer = "127.0.0.1:1".parse().unwrap();
        let make = |id: WatcherId| Connection::new(id, peer, Arc::from([]));
        let limits = Default::default();
        let connection = clients.registry.admit(peer.ip(), limits, make).unwrap();
        let session = clients.new_session(4000);
        let service = clients.service.get();
        assert_eq!(service, Service::Deciding);
        // What the core does at the end of a role, in this order.
        clients.stop_serving();
        *clients.state.sessions.lock() = Sessions::reporting(2000);
        let back = Return {
            service,
            session,
            timeout_ms: 4000,
            is_owner: true,
            new_style: true,
        };
        assert!(!reattach(clients, &connection, &back));
        assert!(connection.lock().outbox.is_empty(), "nothing is said");
        server.stop().await;
    }
}
