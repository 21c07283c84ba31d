//! Delivery of a transaction's events and replies to clients.

use std::sync::Arc;

use proto::SessionId;
use proto::txn::Txn;
use replica::Applied;
use replica::connection::{
    ClientConnection, Pace, ReplyHost, RequestHead, Responder, WriteAnswer, push_event_frame,
};
use tree::{Event, Tree};

use super::handshake::answer_handshake;
use super::registry::Registry;
use super::status::SharedConnection;

/// The host's part of the delivery.
pub trait DeliveryHost {
    /// A client's connection.
    type Connection: SharedConnection;

    /// Returns the registry of all connections.
    fn registry(&self) -> &Registry<Self::Connection>;

    /// Reports an event that has fired watches. Called once per event.
    fn note_fired(&mut self, _event: &Event) {}

    /// Appends an event to a connection's outbox.
    fn push_event(&mut self, connection: &Arc<Self::Connection>, frame: &[u8]) {
        connection.with_client(|client| client.outbox.extend_from_slice(frame));
    }

    /// Answers the connection from this tree, while the tree is locked (see
    /// [`PendingAnswer::carry_out`]).
    fn answer(
        &mut self,
        tree: &Tree,
        connection: &Arc<Self::Connection>,
        what: PendingAnswer<'_, '_>,
    ) -> AnswerOutcome;

    /// Marks a connection that received output. The connection continues once the tree is released.
    fn mark_touched(&mut self, connection: &Arc<Self::Connection>);
}

/// Answer that a connection needs while the tree is held exclusively.
#[derive(Debug, Clone, Copy)]
pub enum PendingAnswer<'a, 'b> {
    /// Answer to the requests before the write that is about to be applied. Their replies must not
    /// reflect the write.
    Deferred,
    /// Answer to the connection's oldest request, which is a `sync`.
    Sync,
    /// Answer to the connection's oldest request, which this transaction executes.
    Write(&'a Applied<'b>),
}

/// Result of an answer.
#[derive(Debug)]
pub enum AnswerOutcome {
    /// Result for the deferred requests.
    Deferred,
    /// Result for the `sync`; `None` if the oldest request is a different one.
    Sync(Option<RequestHead>),
    /// Outcome for the write.
    Write(WriteAnswer),
}

impl PendingAnswer<'_, '_> {
    /// Answers the connection. Requests before the answered one are handled at the pace `before`,
    /// requests after it at the pace `after`.
    pub fn carry_out<H: ReplyHost>(
        self,
        responder: &Responder<'_>,
        client: &mut ClientConnection<H::Note>,
        before: Pace,
        after: impl FnOnce() -> Pace,
        host: &mut H,
    ) -> AnswerOutcome {
        match self {
            Self::Deferred => {
                responder.drain(client, before, host);
                AnswerOutcome::Deferred
            }
            Self::Sync => AnswerOutcome::Sync(responder.answer_sync(client, before, after, host)),
            Self::Write(applied) => {
                AnswerOutcome::Write(responder.answer_write(client, applied, after, host))
            }
        }
    }
}

/// Answers the oldest request of a connection, which must be a `sync`, while the tree is held.
pub fn answer_sync<H: DeliveryHost>(host: &mut H, tree: &Tree, connection: &Arc<H::Connection>) {
    match host.answer(tree, connection, PendingAnswer::Sync) {
        // The oldest request is not a `sync`. This is only valid for a connection that is already
        // closed.
        AnswerOutcome::Sync(None) => connection.close(),
        _ => host.mark_touched(connection),
    }
}

/// Delivers an applied transaction while the tree is held exclusively: first the events, then the
/// reply to the client and the reads that waited for it, then the end of a session. Each event is
/// encoded once, into `frame`, and copied to every watcher that may see it.
pub fn deliver<H: DeliveryHost>(
    host: &mut H,
    frame: &mut Vec<u8>,
    tree: &Tree,
    applied: Applied<'_>,
    origin: Option<&Arc<H::Connection>>,
) {
    for event in applied.events.drain(..) {
        deliver_event(host, frame, tree, event);
    }
    if let Some(connection) = origin
        && let AnswerOutcome::Write(answer) =
            host.answer(tree, connection, PendingAnswer::Write(&applied))
    {
        match answer {
            WriteAnswer::Forgotten => {}
            WriteAnswer::Replied { .. } => host.mark_touched(connection),
            WriteAnswer::Session {
                session, new_style, ..
            } => {
                answer_handshake(host.registry(), &**connection, session, new_style);
                // Requests cannot wait after a handshake.
                host.mark_touched(connection);
            }
            WriteAnswer::Moved(_) | WriteAnswer::OutOfTurn => connection.close(),
        }
    }
    if matches!(applied.record.txn, Txn::CloseSession { .. }) {
        end_session(host, applied.record.header.session, origin);
    }
}

fn deliver_event<H: DeliveryHost>(host: &mut H, frame: &mut Vec<u8>, tree: &Tree, event: Event) {
    host.note_fired(&event);
    frame.clear();
    push_event_frame(frame, event.event_type, event.path, event.zxid);
    for connection in host.registry().open_connections(&event.watchers) {
        let may_see = |identities: &[_]| tree.may_see(event.acl.as_deref(), identities);
        if connection.with_client(|client| may_see(&client.identities)) {
            host.push_event(&connection, frame);
        }
    }
}

/// Ends a session's connection. If the client closed the session, the reply is sent first; if the
/// session expired, nothing is sent.
fn end_session<H: DeliveryHost>(
    host: &mut H,
    session: SessionId,
    asked_by: Option<&Arc<H::Connection>>,
) {
    if let Some(connection) = asked_by {
        host.mark_touched(connection);
    }
    let served_by = host.registry().of_session(session);
    let is_other = |served: &Arc<_>| !asked_by.is_some_and(|asked| Arc::ptr_eq(asked, served));
    if let Some(connection) = served_by.filter(is_other) {
        connection.close();
    }
}
