//! The first frame of a connection: a command word or a handshake.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use jute::{Decode, Reader};
use proto::connect::ConnectRequest;
use proto::{ErrorCode, OpCode, SessionId, Xid};
use replica::{
    ComingBack, Handshake, HandshakeKind, HandshakeRefusal, NewSession, RenewalStep, Service,
};
use transport::tls::looks_like_tls;

use super::answer::{Asked, Responder};
use super::batch::{long_frame_bytes, split_frame};
use super::connection::{CONNECT_RESPONSE_BYTES, Connection, Queued, Work, connect_response};
use super::task::{Socket, Stream, fill};
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
    peer: SocketAddr,
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
                socket.frame_room = None;
                let request = ConnectRequest::decode(&mut Reader::new(frame));
                return Ok(request.map_or_else(
                    |error| {
                        tracing::warn!(%peer, err = %error, "handshake does not decode, closing connection");
                        First::Nothing
                    },
                    First::Connect,
                ));
            }
            Ok(None) => {}
            Err(_) if looks_like_tls(&socket.input) => {
                tracing::warn!(%peer, "the client speaks TLS, and this port takes plain connections (secureClientPort, client.portUnification), closing connection");
                return Ok(First::Nothing);
            }
            Err(fault) => {
                tracing::warn!(%peer, err = %fault, "no handshake, closing connection");
                return Ok(First::Nothing);
            }
        }
        let limit = clients.settings.jute_max_buffer;
        if let Some(bytes) = long_frame_bytes(&socket.input, limit)
            && socket.frame_room.is_none()
        {
            // It has to be there in time, whether others wait or not.
            let room = clients.large_frames.take(bytes).await;
            socket.hold(room, bytes);
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
    let rules = clients.handshake_rules();
    let kind = match rules.kind(request) {
        Ok(kind) => kind,
        Err(refusal) => return turn_away(clients, connection, &refusal),
    };
    if !admitted(clients, kind) {
        tracing::warn!(peer = %connection.peer, "too many handshakes, closing connection (connection_throttle_tokens)");
        return false;
    }
    let judged = rules.judge(request, &clients.state.tree.read());
    let handshake = match judged {
        Ok(handshake) => handshake,
        Err(refusal) => return turn_away(clients, connection, &refusal),
    };
    if rules.service == Service::ReadOnly {
        connection.set_read_only();
    }
    let new_style = request.read_only.is_some();
    match handshake {
        Handshake::New(new) if new.is_local => open_local(clients, connection, new, new_style),
        Handshake::New(new) => {
            clients.permits.take(1).await;
            open(clients, connection, new, new_style);
        }
        Handshake::Back(back) => return reattach(clients, connection, back),
    }
    true
}

/// The connection ends without an answer. Always false.
fn turn_away(clients: &Clients, connection: &Connection, refusal: &HandshakeRefusal) -> bool {
    match refusal {
        // Each client of a server without a leader comes again and again.
        HandshakeRefusal::NoLeader => {
            let metrics = &clients.metrics;
            metrics.cnxn_closed_without_zk_server_running.inc();
            tracing::debug!(peer = %connection.peer, reason = %refusal, "closing connection");
        }
        _ => tracing::info!(peer = %connection.peer, reason = %refusal, "closing connection"),
    }
    false
}

fn admitted(clients: &Clients, kind: HandshakeKind) -> bool {
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
fn open(clients: &Arc<Clients>, connection: &Arc<Connection>, new: NewSession, new_style: bool) {
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
    let session = clients.new_session(new);
    let request = new.request(session, connection.ticket(), identities);
    clients.submit(connection, received_ms, vec![request]);
}

/// Starts a session that needs no transaction.
fn open_local(clients: &Clients, connection: &Connection, new: NewSession, new_style: bool) {
    let (session, timeout_ms) = (clients.new_session(new), new.timeout_ms);
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

/// False if the connection is to end after its outbox.
fn reattach(clients: &Clients, connection: &Arc<Connection>, back: ComingBack) -> bool {
    let ComingBack {
        session,
        timeout_ms,
        ..
    } = back;
    clients.registry.close_session_connection(session);
    let is_cut = || connection.is_closed();
    let now_ms = clock::session_ms();
    let step = back.decide(connection.ticket(), &*clients.state, now_ms, is_cut);
    let renewed = match step {
        RenewalStep::AskLeader(renewal) => {
            clients.renew(connection, renewal);
            return true;
        }
        RenewalStep::Renewed => Some(timeout_ms),
        RenewalStep::Over | RenewalStep::Nothing => None,
    };
    clients.metrics.connection_revalidate_count.inc();
    if step != RenewalStep::Nothing {
        let new_style = back.is_new_style();
        finish_renewal(clients, connection, session, renewed, new_style);
    }
    renewed.is_some()
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
    use bytes::Bytes;
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
        let make = |id: WatcherId| Connection::new(id, peer, Arc::from([]), clients.held.clone());
        let limits = Default::default();
        let connection = clients.registry.admit(peer.ip(), limits, make).unwrap();
        let new = NewSession {
            timeout_ms: 4000,
            is_local: false,
        };
        let session = clients.new_session(new);
        let rules = clients.handshake_rules();
        assert_eq!(rules.service, Service::Deciding);
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: proto::Zxid::ZERO,
            timeout_ms: 4000,
            session_id: session,
            password: Some(Bytes::copy_from_slice(&session::password(session))),
            read_only: Some(false),
        };
        let judged = rules.judge(&request, &clients.state.tree.read());
        let Ok(Handshake::Back(back)) = judged else {
            panic!("{judged:?}");
        };
        // What the core does at the end of a role, in this order.
        clients.stop_serving();
        *clients.state.sessions.lock() = Sessions::reporting(2000);
        assert!(!reattach(clients, &connection, back));
        assert!(connection.lock().outbox.is_empty(), "nothing is said");
        server.stop().await;
    }
}
