//! Handshakes, until the connection serves a session.

use std::sync::Arc;

use proto::SessionId;
use proto::connect::ConnectRequest;
use replica::{
    ClientRequest, Handshake, HandshakeRefusal, HandshakeRules, NewSession, Renewal, RenewalStep,
    Service, SessionReconnect, State as _,
};

use super::registry::Registry;
use super::status::SharedConnection;
use crate::ServerState;

/// Outcome of a handshake.
#[derive(Debug)]
pub enum SessionStep {
    /// The client receives a session when this request is applied.
    Ordered(ClientRequest),
    /// The leader decides. See [`answer_renewal`].
    AskLeader(Renewal),
    /// The client receives this session with its timeout in ms. With `None`, the client is refused,
    /// and the connection ends after its outbox is written.
    Told(Option<(SessionId, i32)>),
    /// The connection ends without an answer, because the role has ended meanwhile.
    Nothing,
}

/// Checks the client's request against the handshake rules. Marks the connection as read-only if
/// the server only serves reads.
///
/// # Errors
/// If the client is refused. The connection then ends without an answer.
pub fn judge_handshake<C: SharedConnection>(
    rules: &HandshakeRules,
    request: &ConnectRequest,
    state: &ServerState,
    registry: &Registry<C>,
    connection: &C,
) -> Result<Handshake, HandshakeRefusal> {
    let handshake = rules.judge(request, &state.tree(), registry.passwords())?;
    if rules.service == Service::ReadOnly {
        connection.status().set_read_only();
    }
    Ok(handshake)
}

/// Begins or renews a session. `now_ms` is the time by the sessions' clock, `received_ms` the time
/// by the connection's clock. An older connection of the session ends first, as in Java, but only
/// if the password is correct.
///
/// Source: ZooKeeperServer.processConnectRequest.
pub fn begin_session<C: SharedConnection>(
    state: &ServerState,
    registry: &Registry<C>,
    connection: &C,
    handshake: Handshake,
    received_ms: u64,
    now_ms: i64,
) -> SessionStep {
    match handshake {
        Handshake::New(new) if new.is_local => {
            let session = Some((state.new_session(new, now_ms), new.timeout_ms));
            answer_handshake(registry, connection, session, new.new_style);
            SessionStep::Told(session)
        }
        Handshake::New(new) => {
            SessionStep::Ordered(request_session(state, connection, new, received_ms, now_ms))
        }
        Handshake::Back(back) => renew_session(state, registry, connection, back, now_ms),
    }
}

fn request_session(
    state: &ServerState,
    connection: &impl SharedConnection,
    new: NewSession,
    received_ms: u64,
    now_ms: i64,
) -> ClientRequest {
    let identities = connection.with_client(|client| {
        client.await_session(received_ms, new.new_style);
        client.identities.clone()
    });
    let session = state.new_session(new, now_ms);
    new.request(session, connection.status().ticket(), identities)
}

fn renew_session<C: SharedConnection>(
    state: &ServerState,
    registry: &Registry<C>,
    connection: &C,
    back: SessionReconnect,
    now_ms: i64,
) -> SessionStep {
    if back.is_owner() {
        registry.close_session(back.session);
    }
    let status = connection.status();
    let is_cut = || status.is_closed();
    let session = match back.decide(status.ticket(), state, now_ms, is_cut) {
        RenewalStep::AskLeader(renewal) => return SessionStep::AskLeader(renewal),
        RenewalStep::Nothing => return SessionStep::Nothing,
        RenewalStep::Renewed => Some((back.session, back.timeout_ms)),
        RenewalStep::Over => None,
    };
    answer_handshake(registry, connection, session, back.is_new_style());
    SessionStep::Told(session)
}

/// Sends the leader's answer to a returning client. Returns the client's connection, which the
/// caller wakes, or `None` if the connection has ended.
pub fn answer_renewal<C: SharedConnection>(
    registry: &Registry<C>,
    renewal: &Renewal,
    is_valid: bool,
) -> Option<Arc<C>> {
    let connection = registry.of(renewal.ticket)?;
    let session = is_valid.then_some((renewal.session, renewal.timeout_ms));
    answer_handshake(registry, &*connection, session, renewal.new_style);
    Some(connection)
}

/// Sends the connection its session with the timeout in ms. Without a session, refuses the client
/// and ends the connection. `new_style` states whether the client sent the read-only byte and
/// expects it back.
pub fn answer_handshake<C: SharedConnection>(
    registry: &Registry<C>,
    connection: &C,
    session: Option<(SessionId, i32)>,
    new_style: bool,
) {
    let status = connection.status();
    if let Some((id, timeout_ms)) = session {
        registry.bind(status, id, timeout_ms);
    }
    let read_only = new_style.then_some(status.is_read_only());
    connection
        .with_client(|client| client.answer_handshake(session, registry.passwords(), read_only));
}
