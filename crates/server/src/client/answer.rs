//! How much is answered at a time, and what the server notes of it.

use std::ops::DerefMut;

use monitoring::slow::SlowRequest;
use proto::request::ReadRequest;
use proto::{ErrorCode, OpCode, OpKind, Zxid};
use replica::connection::{Asked, Identities, Pace, Replying, Responder};
use replica::sessions::Sessions;
use tree::Tree;

use super::connection::{Connection, ConnectionState};
use super::room::Room;
use crate::client::clients::Clients;
use crate::metrics::Replies;
use crate::{clock, limits};

/// What the task of a connection has found for one of its reads.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Grant {
    /// Bytes for a long reply.
    pub(crate) room: Option<usize>,
    /// A turn among the reads that take long.
    pub(crate) is_slow: bool,
}

/// The pace of the task of a connection, by what it has found.
pub(crate) fn pace_of_task(state: &ConnectionState, grant: Grant) -> Pace {
    let small = || state.allowed_ahead(limits::REPLY_BYTES_SMALL);
    Pace {
        room: grant.room.unwrap_or_else(small),
        outbox_bytes: state.allowed_ahead(limits::OUTBOX_BYTES_SOFT),
        replies: usize::MAX,
        answers_slow: grant.is_slow,
        refuses: false,
    }
}

/// The pace of the core, behind a write of this connection: it holds up everybody.
pub(crate) fn pace_of_core(state: &ConnectionState) -> Pace {
    let bytes = state.allowed_ahead(limits::CORE_REPLY_BYTES);
    Pace {
        room: bytes,
        outbox_bytes: bytes,
        replies: limits::CORE_REPLIES,
        answers_slow: false,
        refuses: false,
    }
}

/// The pace of the core, in front of a write that is about to be applied: reads that came before it
/// must not see it.
pub(crate) fn pace_before_write(state: &ConnectionState) -> Pace {
    Pace {
        room: state.allowed(limits::OUTBOX_BYTES_HARD),
        outbox_bytes: usize::MAX,
        replies: usize::MAX,
        answers_slow: true,
        refuses: true,
    }
}

/// A connection, and what is to be noted of it under one hold of the tree.
#[derive(Clone, Copy)]
pub(crate) struct Served<'a> {
    pub(crate) clients: &'a Clients,
    pub(crate) connection: &'a Connection,
    pub(crate) now_ms: u64,
}

/// Notes what is answered to one connection, which is locked.
pub(crate) struct Noting<'a> {
    pub(crate) served: Served<'a>,
    pub(crate) replies: &'a mut Replies,
    /// A read that took long and was just answered.
    slow_read: Option<(Asked, Zxid)>,
}

impl<'a> Served<'a> {
    /// What answers its requests from this tree.
    pub(crate) fn responder(self, tree: &'a Tree) -> Responder<'a> {
        let Self {
            clients,
            connection,
            now_ms,
        } = self;
        let limits = clients.settings.field_limits;
        clients.state.responder(tree, connection, now_ms, limits)
    }

    /// Notes what is answered.
    pub(crate) fn noting(self, replies: &'a mut Replies) -> Noting<'a> {
        Noting {
            served: self,
            replies,
            slow_read: None,
        }
    }

    /// A request took long. Locks are held: its line in the log comes later.
    pub(crate) fn note_slow(self, asked: Asked, zxid: Zxid, path: Option<&str>) {
        let Self {
            clients,
            connection,
            now_ms,
        } = self;
        clients.slow.note(SlowRequest {
            at_ms: clock::wall_ms(),
            took_ms: now_ms.saturating_sub(asked.received_ms),
            peer: connection.peer,
            session: connection.session(),
            op: asked.op,
            path: path.map(str::to_owned),
            xid: asked.xid,
            zxid,
        });
    }

    /// Requests were queued or answered under this hold of the tree.
    pub(crate) fn note_changed(self, state: &mut ConnectionState) {
        let left_over = &self.clients.left_over;
        self.connection.note_left_over(state, left_over);
        state.note_held();
    }
}

impl Replying for Noting<'_> {
    type Note = Option<Room>;

    fn sessions(&self) -> impl DerefMut<Target = Sessions> {
        self.served.clients.state.sessions.lock()
    }

    /// Credentials and what is no operation count as packets only: neither takes its turn.
    /// Source: FinalRequestProcessor.processRequest, ServerStats.updateLatency.
    fn replied(&mut self, asked: Asked, zxid: Zxid, err: ErrorCode, bytes: usize) {
        let Asked {
            xid,
            op,
            received_ms,
            ..
        } = asked;
        self.replies.reply(bytes.saturating_sub(4));
        let stats = &self.served.connection.stats;
        stats.packets_sent(1);
        stats.bytes_sent(bytes as u64);
        let is_write = op.kind() == OpKind::Write;
        if op.kind() == OpKind::Connection || op == OpCode::Error {
            return;
        }
        let now_ms = self.served.now_ms;
        let latency_ms = now_ms.saturating_sub(received_ms);
        let is_throttled = err == ErrorCode::ThrottledOp;
        if (is_write || op == OpCode::CreateSession) && !is_throttled {
            self.replies.update(latency_ms);
        } else {
            self.replies.read(latency_ms);
            // A read that is answered says below which znode it was.
            let is_told_below = op.kind() == OpKind::Read && err == ErrorCode::Ok;
            self.slow_read = None;
            if self.served.clients.slow.is_slow(latency_ms) {
                match is_told_below {
                    true => self.slow_read = Some((asked, zxid)),
                    false => self.served.note_slow(asked, zxid, None),
                }
            }
        }
        if !matches!(op, OpCode::Ping | OpCode::CreateSession) {
            stats.asked(is_write);
        }
        // What fails before it is carried out has no operation to show.
        let is_refused = is_throttled || (is_write && err != ErrorCode::Ok);
        stats.answered(xid, zxid, (!is_refused).then_some(op), received_ms, now_ms);
    }

    fn event_pushed(&mut self, bytes: usize) {
        self.replies.event(bytes.saturating_sub(4));
    }

    fn has_read(&mut self, request: &ReadRequest, body: &[u8]) {
        self.replies.read_from(request, body);
        if let Some((asked, zxid)) = self.slow_read.take() {
            self.served.note_slow(asked, zxid, request.path());
        }
    }

    fn refuses(&mut self, op: OpCode, err: ErrorCode, identities: &Identities) {
        let Served {
            clients,
            connection,
            ..
        } = self.served;
        clients.audit_refusal(connection, identities, (op, err));
    }

    fn refuses_long(&mut self, asked: Asked, bytes: usize) {
        let connection = self.served.connection;
        log_limiter::limited!(warn, peer = %connection.peer, session = %connection.session(), op = asked.op.name(), bytes, "refusing a read: its answer has become too long to be made between two writes of its session; ask again");
    }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
