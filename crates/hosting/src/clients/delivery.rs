//! What a transaction brings clients.

use std::sync::Arc;

use proto::SessionId;
use proto::txn::Txn;
use replica::Applied;
use replica::connection::{
    Asked, ClientConnection, Pace, Replying, Responder, WriteAnswer, push_event_frame,
};
use tree::{Event, Tree};

use super::{Connected, Registry, answer_handshake};

/// A host's part of it.
pub trait Delivering {
    /// A client's connection.
    type Connection: Connected;

    /// All of them.
    fn registry(&self) -> &Registry<Self::Connection>;

    /// A watch has fired.
    fn fired(&mut self, _event: &Event) {}

    /// Puts an event into the outbox.
    fn push_event(&mut self, connection: &Arc<Self::Connection>, frame: &[u8]) {
        connection.with_client(|client| client.outbox.extend_from_slice(frame));
    }

    /// Answers it, while its lock is held, from this tree (see [`ToAnswer::carry_out`]).
    fn answer(
        &mut self,
        tree: &Tree,
        connection: &Arc<Self::Connection>,
        what: ToAnswer<'_, '_>,
    ) -> Answered;

    /// The connection got something, and goes on once the tree is free.
    fn touched(&mut self, connection: &Arc<Self::Connection>);
}

/// What a connection is to be answered while the tree is held alone.
#[derive(Debug, Clone, Copy)]
pub enum ToAnswer<'a, 'b> {
    /// What it has asked before the write that is about to be applied, and must not see that.
    LeftOver,
    /// Its oldest request, which is a `sync`.
    Sync,
    /// Its oldest request, by this transaction.
    Write(&'a Applied<'b>),
}

/// What it was answered.
#[derive(Debug)]
pub enum Answered {
    /// What was left over.
    LeftOver,
    /// The `sync`; `None` if its oldest request is another one.
    Sync(Option<Asked>),
    /// What became of the write.
    Write(WriteAnswer),
}

impl ToAnswer<'_, '_> {
    /// Answers it. What must be answered before goes at the first pace, what waited behind it at the
    /// second.
    pub fn carry_out<H: Replying>(
        self,
        responder: &Responder<'_>,
        client: &mut ClientConnection<H::Note>,
        (before, behind): (Pace, impl FnOnce() -> Pace),
        host: &mut H,
    ) -> Answered {
        match self {
            Self::LeftOver => {
                responder.drain(client, before, host);
                Answered::LeftOver
            }
            Self::Sync => {
                let paces = (before, behind);
                Answered::Sync(responder.answer_sync(client, paces, host))
            }
            Self::Write(applied) => {
                Answered::Write(responder.answer_write(client, applied, behind, host))
            }
        }
    }
}

/// The oldest `sync` of a connection is answered, and the tree is held.
pub fn answer_sync<H: Delivering>(host: &mut H, tree: &Tree, connection: &Arc<H::Connection>) {
    match host.answer(tree, connection, ToAnswer::Sync) {
        // Out of step with the leader; only a connection that is gone may be.
        Answered::Sync(None) => connection.close(),
        _ => host.touched(connection),
    }
}

/// A transaction was applied, and the tree is held alone: events, then the reply to who asked for it
/// and the reads that waited for it, then the end of a session. An event is encoded once, into `frame`,
/// and copied to every watcher that may see it.
pub fn deliver<H: Delivering>(
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
        && let Answered::Write(answer) = host.answer(tree, connection, ToAnswer::Write(&applied))
    {
        match answer {
            WriteAnswer::Forgotten => {}
            WriteAnswer::Replied { .. } => host.touched(connection),
            WriteAnswer::Session {
                session, new_style, ..
            } => {
                answer_handshake(host.registry(), &**connection, session, new_style);
                // Nothing waits behind a handshake.
                host.touched(connection);
            }
            WriteAnswer::Moved(_) | WriteAnswer::OutOfTurn => connection.close(),
        }
    }
    if matches!(applied.record.txn, Txn::CloseSession { .. }) {
        end_session(host, applied.record.header.session, origin);
    }
}

fn deliver_event<H: Delivering>(host: &mut H, frame: &mut Vec<u8>, tree: &Tree, event: Event) {
    host.fired(&event);
    frame.clear();
    push_event_frame(frame, event.event_type, event.path, event.zxid);
    for connection in host.registry().each_of(&event.watchers) {
        let may_see = |identities: &[_]| tree.may_see(event.acl.as_deref(), identities);
        if connection.with_client(|client| may_see(&client.identities)) {
            host.push_event(&connection, frame);
        }
    }
}

/// The session is over: its connection ends, after the reply if it asked for it itself, and without a
/// byte if it expired.
fn end_session<H: Delivering>(
    host: &mut H,
    session: SessionId,
    asked_by: Option<&Arc<H::Connection>>,
) {
    if let Some(connection) = asked_by {
        host.touched(connection);
    }
    let served_by = host.registry().of_session(session);
    let is_other = |served: &Arc<_>| !asked_by.is_some_and(|asked| Arc::ptr_eq(asked, served));
    if let Some(connection) = served_by.filter(is_other) {
        connection.close();
    }
}
