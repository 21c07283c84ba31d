//! First frame of a connection: a four-letter word or a handshake.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use admission::Ledger;
use host::{SessionStep, begin_session, judge_handshake};
use jute::{Decode, Reader};
use metrics::fourlw::Word;
use metrics::{Metrics, Replies, ServerStats};
use proto::connect::ConnectRequest;
use proto::{ErrorCode, OpCode, SessionId, Xid};
use replica::connection::{CONNECT_RESPONSE_BYTES, ReplyHost, RequestHead};
use replica::{Handshake, HandshakeKind, HandshakeRefusal, NewSession};
use transport::tls::looks_like_tls;

use crate::clock;
use crate::connection::Connection;
use crate::connection::inbox::ClientMessage;
use crate::connection::socket::{Socket, Stream, fill};
use crate::requests::answer::{AnswerContext, LockedConnection};
use crate::requests::batch::{long_frame_bytes, split_frame};
use crate::requests::context::RequestContext;

/// First frame of a connection.
pub(crate) enum FirstFrame {
    /// Four-letter word.
    Word(Word),
    /// Handshake.
    Connect(ConnectRequest),
    /// The stream has ended, or its first bytes are invalid. Invalid bytes have already been
    /// logged.
    Nothing,
}

/// Reads until the first frame is complete.
pub(crate) async fn first_frame<S: Stream>(
    frame_bytes_max: usize,
    ledger: &Ledger,
    metrics: &Metrics,
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
        match split_frame(&mut socket.input, frame_bytes_max) {
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
        if let Some(bytes) = long_frame_bytes(&socket.input, frame_bytes_max)
            && socket.frame_reservation.is_none()
        {
            // The time limit for the handshake also limits the reservation, so it is not reclaimed
            // earlier for other connections.
            let reservation = ledger.large_frames.take(bytes).await;
            socket.set_reservation(reservation, bytes);
        }
        if !fill(socket).await? {
            metrics.connection_drop_count.inc();
            return Ok(FirstFrame::Nothing);
        }
    }
}

/// Starts or renews a session. Returns false if the connection must end after its outbox has been
/// written.
///
/// Source: ZooKeeperServer.processConnectRequest.
pub(crate) async fn connect(
    context: &RequestContext,
    connection: &Arc<Connection>,
    request: ConnectRequest,
) -> bool {
    let RequestContext {
        settings,
        answers,
        registry,
        ledger,
        metrics,
        stats,
        ..
    } = context;
    stats.packets_received(1);
    connection.stats.packets_received(1);
    metrics.connection_request_count.inc();
    let rules = settings.handshake_rules(registry.service());
    let kind = match rules.kind(&request) {
        Ok(kind) => kind,
        Err(refusal) => return reject(metrics, connection, &refusal),
    };
    if !take_handshake_token(ledger, metrics, kind) {
        log_limiter::limited!(warn, peer = %connection.peer, "too many handshakes, closing connection (connection_throttle_tokens)");
        return false;
    }
    let judged = judge_handshake(&rules, &request, &answers.state, registry, &**connection);
    // The password keeps the memory of the whole frame.
    drop(request);
    let handshake = match judged {
        Ok(handshake) => handshake,
        Err(refusal) => return reject(metrics, connection, &refusal),
    };
    if matches!(handshake, Handshake::New(new) if !new.is_local) {
        // The transaction that creates a session needs a permit.
        ledger.permits.take(1).await.keep();
    }
    begin(context, connection, handshake)
}

/// Logs why the connection is closed without an answer. Always returns false.
fn reject(metrics: &Metrics, connection: &Connection, refusal: &HandshakeRefusal) -> bool {
    match refusal {
        // While a server has no leader, every client reconnects repeatedly.
        HandshakeRefusal::NoLeader => {
            metrics.cnxn_closed_without_zk_server_running.inc();
            tracing::debug!(peer = %connection.peer, reason = %refusal, "closing connection");
        }
        _ => {
            log_limiter::limited!(info, peer = %connection.peer, reason = %refusal, "closing connection");
        }
    }
    false
}

fn take_handshake_token(ledger: &Ledger, metrics: &Metrics, kind: HandshakeKind) -> bool {
    let millionths = u32::try_from(clock::seed() % 1_000_000).unwrap_or(0);
    let chance = f64::from(millionths) / 1e6;
    let mut bucket = ledger.handshakes.lock();
    let admitted = bucket.admits(kind, clock::monotonic_ms(), chance);
    let deficit = bucket.deficit();
    drop(bucket);
    metrics.connection_token_deficit.record(deficit.into());
    if !admitted {
        metrics.connection_rejected.inc();
    }
    admitted
}

/// Starts or renews a session. The caller holds a permit if this needs a transaction. Returns false
/// if the connection must end after its outbox has been written.
fn begin(context: &RequestContext, connection: &Arc<Connection>, handshake: Handshake) -> bool {
    let RequestContext {
        answers,
        registry,
        metrics,
        stats,
        core,
        ..
    } = context;
    let received_ms = clock::monotonic_ms();
    let begun = begin_session(
        &answers.state,
        registry,
        &**connection,
        handshake,
        received_ms,
        clock::session_ms(),
    );
    let session = match begun {
        SessionStep::Ordered(request) => {
            core.put(ClientMessage::Submit {
                connection: connection.clone(),
                received_ms,
                requests: vec![request],
            });
            core.run_inline();
            return true;
        }
        SessionStep::AskLeader(renewal) => {
            core.send(ClientMessage::Renew(connection.clone(), renewal));
            return true;
        }
        SessionStep::Told(session) => Some(session),
        SessionStep::Nothing => None,
    };
    match (handshake, session) {
        (Handshake::New(new), _) => note_local(answers, stats, connection, new),
        (Handshake::Back(back), session) => {
            metrics.connection_revalidate_count.inc();
            if let Some(session) = session {
                note_renewal(stats, connection, back.session, session);
            }
        }
    }
    session.flatten().is_some()
}

/// Records a new session that does not need a transaction.
fn note_local(
    answers: &AnswerContext,
    stats: &ServerStats,
    connection: &Connection,
    new: NewSession,
) {
    let (session, timeout_ms) = (connection.session(), new.timeout_ms);
    tracing::debug!(peer = %connection.peer, %session, timeout_ms, "local session established");
    let zxid = answers.state.tree.read().last_zxid();
    let now_ms = clock::monotonic_ms();
    let served = LockedConnection {
        answers,
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
    stats.replied(&replies);
}

/// Records the answer to a client that renewed a session: the session is confirmed, has expired, or
/// is not owned by the client.
pub(crate) fn note_renewal(
    stats: &ServerStats,
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
    stats.packets_sent(1);
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use replica::Service;
    use replica::session::Sessions;

    use super::*;
    use crate::start::tests::test_frontend;

    /// A handshake starts while this server decides about sessions, and continues after the role
    /// has ended. The server then does not know the sessions, so it must not report the session as
    /// expired.
    #[test]
    fn a_reconnect_at_the_end_of_a_role_does_not_expire_the_session() {
        let context = test_frontend().context;
        let peer = "127.0.0.1:1".parse().unwrap();
        let connection = context.connections.register(peer).unwrap();
        let RequestContext {
            settings,
            answers,
            registry,
            ..
        } = &context.requests;
        let new = NewSession {
            timeout_ms: 4000,
            is_local: false,
            new_style: true,
        };
        let session = answers.state.new_session(new, clock::session_ms());
        let rules = settings.handshake_rules(registry.service());
        assert_eq!(rules.service, Service::Deciding);
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: proto::Zxid::ZERO,
            timeout_ms: 4000,
            session_id: session,
            password: Some(Bytes::copy_from_slice(&replica::session::password(session))).into(),
            read_only: Some(false),
        };
        let judged = rules.judge(&request, &answers.state.tree.read(), registry.passwords());
        let Ok(Handshake::Back(_)) = judged else {
            panic!("{judged:?}");
        };
        // At the end of a role, the core performs these calls in this order.
        registry.stop_serving();
        *answers.state.sessions.lock() = Sessions::reporting(2000);
        assert!(!begin(&context.requests, &connection, judged.unwrap()));
        assert!(
            connection.lock().client.outbox.is_empty(),
            "nothing is said"
        );
    }
}
