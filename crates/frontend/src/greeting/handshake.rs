//! First frame of a connection: a four-letter word or a handshake.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use host::{SessionStep, begin_session, judge_handshake};
use jute::{Decode, Reader};
use metrics::Replies;
use metrics::fourlw::Word;
use proto::connect::ConnectRequest;
use proto::{ErrorCode, OpCode, SessionId, Xid};
use replica::connection::{CONNECT_RESPONSE_BYTES, ReplyHost, RequestHead};
use replica::{Handshake, HandshakeKind, HandshakeRefusal, NewSession};
use transport::tls::looks_like_tls;

use crate::clients::Clients;
use crate::clock;
use crate::connection::Connection;
use crate::connection::socket::{Socket, Stream, fill};
use crate::requests::answer::LockedConnection;
use crate::requests::batch::{long_frame_bytes, split_frame};

/// First frame of a connection.
pub(crate) enum FirstFrame {
    /// Four-letter word.
    Word(Word),
    /// Handshake.
    Connect(ConnectRequest),
    /// The stream has ended or its first bytes are invalid. This has already been logged.
    Nothing,
}

/// Reads until the first frame is complete.
pub(crate) async fn first_frame<S: Stream>(
    clients: &Clients,
    peer: SocketAddr,
    socket: &mut Socket<S>,
) -> io::Result<FirstFrame> {
    loop {
        if let Some(word) = socket
            .input
            .first_chunk()
            .and_then(|four| Word::recognise(*four))
        {
            let _ = socket.input.split_to(4);
            return Ok(FirstFrame::Word(word));
        }
        match split_frame(&mut socket.input, clients.settings.jute_max_buffer) {
            Ok(Some(frame)) => {
                socket.frame_reservation = None;
                let request = ConnectRequest::decode(&mut Reader::new(frame));
                return Ok(request.map_or_else(
                    |error| {
                        log_limiter::limited!(warn, %peer, err = %error, "cannot decode the handshake, closing connection");
                        FirstFrame::Nothing
                    },
                    FirstFrame::Connect,
                ));
            }
            Ok(None) => {}
            Err(_) if looks_like_tls(&socket.input) => {
                log_limiter::limited!(warn, %peer, "the client uses TLS, but this port accepts only plain connections (secureClientPort, client.portUnification), closing connection");
                return Ok(FirstFrame::Nothing);
            }
            Err(fault) => {
                log_limiter::limited!(warn, %peer, err = %fault, "client sent no handshake, closing connection");
                return Ok(FirstFrame::Nothing);
            }
        }
        let limit = clients.settings.jute_max_buffer;
        if let Some(bytes) = long_frame_bytes(&socket.input, limit)
            && socket.frame_reservation.is_none()
        {
            // The frame must arrive in time, even if no other connection waits for the memory.
            let reservation = clients.ledger.large_frames.take(bytes).await;
            socket.set_reservation(reservation, bytes);
        }
        if !fill(socket).await? {
            clients.metrics.connection_drop_count.inc();
            return Ok(FirstFrame::Nothing);
        }
    }
}

/// Starts or renews a session. Returns false if the connection must end after its outbox has been
/// written.
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
        Err(refusal) => return reject(clients, connection, &refusal),
    };
    if !take_handshake_token(clients, kind) {
        log_limiter::limited!(warn, peer = %connection.peer, "too many handshakes, closing connection (connection_throttle_tokens)");
        return false;
    }
    let judged = judge_handshake(
        &rules,
        request,
        &clients.state,
        &clients.registry,
        &**connection,
    );
    let handshake = match judged {
        Ok(handshake) => handshake,
        Err(refusal) => return reject(clients, connection, &refusal),
    };
    if matches!(handshake, Handshake::New(new) if !new.is_local) {
        // The transaction that creates a session needs a permit.
        clients.ledger.permits.take(1).await;
    }
    begin(clients, connection, handshake)
}

/// Closes the connection without an answer. Always returns false.
fn reject(clients: &Clients, connection: &Connection, refusal: &HandshakeRefusal) -> bool {
    match refusal {
        // While a server has no leader, every client reconnects repeatedly.
        HandshakeRefusal::NoLeader => {
            let metrics = &clients.metrics;
            metrics.cnxn_closed_without_zk_server_running.inc();
            tracing::debug!(peer = %connection.peer, reason = %refusal, "closing connection");
        }
        _ => {
            log_limiter::limited!(info, peer = %connection.peer, reason = %refusal, "closing connection");
        }
    }
    false
}

fn take_handshake_token(clients: &Clients, kind: HandshakeKind) -> bool {
    let millionths = u32::try_from(clock::seed() % 1_000_000).unwrap_or(0);
    let chance = f64::from(millionths) / 1e6;
    let mut bucket = clients.ledger.handshakes.lock();
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

/// Starts or renews a session. The caller holds a permit if that needs a transaction. Returns false
/// if the connection must end after its outbox has been written.
fn begin(clients: &Clients, connection: &Arc<Connection>, handshake: Handshake) -> bool {
    let received_ms = clock::monotonic_ms();
    let begun = begin_session(
        &clients.state,
        &clients.registry,
        &**connection,
        handshake,
        received_ms,
        clock::session_ms(),
    );
    let session = match begun {
        SessionStep::Ordered(request) => {
            clients.submit(connection, received_ms, vec![request]);
            clients.run_core_inline();
            return true;
        }
        SessionStep::AskLeader(renewal) => {
            clients.renew(connection, renewal);
            return true;
        }
        SessionStep::Told(session) => Some(session),
        SessionStep::Nothing => None,
    };
    match (handshake, session) {
        (Handshake::New(new), _) => note_local(clients, connection, new),
        (Handshake::Back(back), session) => {
            clients.metrics.connection_revalidate_count.inc();
            if let Some(session) = session {
                note_renewal(clients, connection, back.session, session);
            }
        }
    }
    session.flatten().is_some()
}

/// Records a new session that does not need a transaction.
fn note_local(clients: &Clients, connection: &Connection, new: NewSession) {
    let (session, timeout_ms) = (connection.session(), new.timeout_ms);
    tracing::debug!(peer = %connection.peer, %session, timeout_ms, "local session established");
    let zxid = clients.state.tree.read().last_zxid();
    let now_ms = clock::monotonic_ms();
    let served = LockedConnection {
        clients,
        connection,
        now_ms,
    };
    let head = RequestHead {
        xid: Xid(0),
        op: OpCode::CreateSession,
        received_ms: now_ms,
        frame_bytes: 0,
    };
    let mut replies = Replies::default();
    let state = connection.lock();
    let mut noting = served.recorder(&mut replies);
    noting.note_reply(head, zxid, ErrorCode::Ok, CONNECT_RESPONSE_BYTES);
    drop(state);
    clients.stats.replied(&replies);
}

/// Records the answer to a client that renewed a session: the session is confirmed, has expired, or
/// is not owned by the client.
pub fn note_renewal(
    clients: &Clients,
    connection: &Connection,
    session: SessionId,
    told: Option<(SessionId, i32)>,
) {
    match told {
        Some((_, timeout_ms)) => {
            tracing::debug!(peer = %connection.peer, %session, timeout_ms, "session renewed");
        }
        None => {
            log_limiter::limited!(info, peer = %connection.peer, %session, "the session has expired, or its password is wrong");
        }
    }
    connection.stats.packets_sent(1);
    clients.stats.packets_sent(1);
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use replica::Service;
    use replica::session::Sessions;

    use super::*;
    use crate::clients::tests::test_clients;
    use crate::greeting::listener::register;

    /// A handshake starts while this server decides about sessions, and continues after the role
    /// has ended. The server then knows no sessions, so it must not report the session as expired.
    #[test]
    fn a_reconnect_at_the_end_of_a_role_does_not_expire_the_session() {
        let clients = &test_clients();
        let peer = "127.0.0.1:1".parse().unwrap();
        let connection = register(clients, peer).unwrap();
        let new = NewSession {
            timeout_ms: 4000,
            is_local: false,
            new_style: true,
        };
        let session = clients.state.new_session(new, clock::session_ms());
        let rules = clients.handshake_rules();
        assert_eq!(rules.service, Service::Deciding);
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: proto::Zxid::ZERO,
            timeout_ms: 4000,
            session_id: session,
            password: Some(Bytes::copy_from_slice(&replica::session::password(session))).into(),
            read_only: Some(false),
        };
        let judged = rules.judge(
            &request,
            &clients.state.tree.read(),
            clients.registry.passwords(),
        );
        let Ok(Handshake::Back(_)) = judged else {
            panic!("{judged:?}");
        };
        // At the end of a role, the core performs these calls in this order.
        clients.registry.stop_serving();
        *clients.state.sessions.lock() = Sessions::reporting(2000);
        assert!(!begin(clients, &connection, judged.unwrap()));
        assert!(
            connection.lock().client.outbox.is_empty(),
            "nothing is said"
        );
    }
}
