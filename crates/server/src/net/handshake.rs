//! The first frame of a connection: a command word or a handshake.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use jute::{Decode, Reader};
use proto::connect::ConnectRequest;
use proto::request::WriteRequest;
use proto::{OpCode, SessionId, Xid};

use super::answer::Asked;
use super::connection::{Connection, Queued, Work, connect_response};
use super::dispatch::split_frame;
use super::task::{Socket, Stream, fill};
use super::throttle::Handshake;
use crate::clock;
use crate::fourlw::Word;
use crate::pipeline::{Revalidation, Submission};
use crate::service::Service;
use crate::shared::Shared;

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
    shared: &Shared,
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
        match split_frame(&mut socket.input, shared.settings.jute_max_buffer) {
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
            shared.metrics.connection_drop_count.inc();
            return Ok(First::Nothing);
        }
    }
}

/// Starts or renews a session. False when the connection is to end after its outbox.
///
/// Source: client-protocol.md 2.2 (ZooKeeperServer.processConnectRequest).
pub(crate) async fn connect(
    shared: &Arc<Shared>,
    connection: &Arc<Connection>,
    request: &ConnectRequest,
) -> bool {
    shared.stats.packets_received(1);
    connection.stats.packets_received(1);
    shared.metrics.connection_request_count.inc();
    if shared.service.get() == Service::None {
        tracing::debug!(peer = %connection.peer, "no leader, closing connection");
        return false;
    }
    let kind = match request.session_id {
        SessionId::NONE => Handshake::New,
        _ => Handshake::Renewal,
    };
    if !admitted(shared, kind) {
        tracing::warn!(peer = %connection.peer, "too many handshakes, closing connection (connection_throttle_tokens)");
        return false;
    }
    let last_zxid = shared.tree.read().last_zxid();
    if request.last_zxid_seen > last_zxid {
        tracing::info!(peer = %connection.peer, seen = %request.last_zxid_seen, zxid = %last_zxid, "client has seen a newer zxid than this server, closing so that it tries another");
        return false;
    }
    let settings = &shared.settings;
    let timeout_ms = session::negotiate(
        request.timeout_ms,
        settings.min_session_timeout_ms,
        settings.max_session_timeout_ms,
    );
    let new_style = request.read_only.is_some();
    if request.session_id == SessionId::NONE {
        shared.permits.take(1).await;
        open(shared, connection, timeout_ms, new_style);
        return true;
    }
    reattach(shared, connection, request, timeout_ms, new_style)
}

fn admitted(shared: &Shared, kind: Handshake) -> bool {
    let chance = f64::from(clock::seed() as u32 % 1_000_000) / 1e6;
    let mut bucket = shared.handshakes.lock();
    let admitted = bucket.admits(kind, clock::monotonic_ms(), chance);
    let deficit = bucket.deficit();
    drop(bucket);
    shared
        .metrics
        .connection_token_deficit
        .record(deficit.into());
    if !admitted {
        shared.metrics.connection_rejected.inc();
    }
    admitted
}

/// Submits a new session under a permit of the caller; the connection goes on when it is
/// committed.
fn open(shared: &Arc<Shared>, connection: &Arc<Connection>, timeout_ms: i32, new_style: bool) {
    let received_ms = clock::monotonic_ms();
    let asked = Asked {
        xid: Xid(0),
        op: OpCode::CreateSession,
        received_ms,
    };
    let identities = {
        let mut state = connection.lock();
        let work = Work::Handshake { new_style };
        state.queue.push_back(Queued { asked, work });
        state.identities.clone()
    };
    let session = shared.new_session(timeout_ms);
    shared.submit(Submission {
        origin: Some(connection.clone()),
        session,
        cxid: 0,
        received_ms,
        identities,
        request: WriteRequest::CreateSession { timeout_ms },
        body: Bytes::copy_from_slice(&timeout_ms.to_be_bytes()),
        large: None,
    });
}

fn reattach(
    shared: &Shared,
    connection: &Arc<Connection>,
    request: &ConnectRequest,
    timeout_ms: i32,
    new_style: bool,
) -> bool {
    let session = request.session_id;
    shared.metrics.connection_revalidate_count.inc();
    // Before the password is looked at, as in Java: whoever knows the id can cut the connection,
    // and its owner then reattaches with the right password.
    shared.registry.close_session_connection(session);
    let is_owner = session::password_matches(session, request.password.as_deref());
    if is_owner && shared.service.get() == Service::Forwarding {
        shared.revalidate(Revalidation {
            connection: connection.clone(),
            session,
            timeout_ms,
            new_style,
        });
        return true;
    }
    let known = is_owner && shared.renew_session(session, timeout_ms);
    finish_renewal(
        shared,
        connection,
        session,
        known.then_some(timeout_ms),
        new_style,
    );
    known
}

/// Answers a client that came back with a session: `timeout_ms` is `None` if that is over, or was
/// never its own.
pub(crate) fn finish_renewal(
    shared: &Shared,
    connection: &Connection,
    session: SessionId,
    timeout_ms: Option<i32>,
    new_style: bool,
) {
    if let Some(timeout_ms) = timeout_ms {
        shared.registry.bind(connection, session);
        connection.set_session(session, timeout_ms);
        tracing::info!(peer = %connection.peer, %session, timeout_ms, "session renewed");
    } else {
        tracing::info!(peer = %connection.peer, %session, "session is over or its password is wrong");
    }
    let renewed = timeout_ms.map(|timeout_ms| (session, timeout_ms));
    let response = connect_response(renewed, new_style);
    let mut state = connection.lock();
    state.ends_after_flush = timeout_ms.is_none();
    state.push_connect_response(&response);
    connection.stats.packets_sent(1);
    drop(state);
    shared.stats.packets_sent(1);
}
