//! Limits on the replies produced in one turn, and the recording of each reply.

use std::ops::DerefMut;
use std::sync::Arc;

use admission::MemoryReservation;
use executor::sync::AtomicUsize;
use host::ServerState;
use jute::Limits;
use metrics::Replies;
use metrics::audit::AuditLog;
use metrics::slow::{SlowRequest, SlowRequests};
use proto::request::ReadRequest;
use proto::{ErrorCode, OpCode, OpKind, Zxid};
use replica::connection::{Identities, Pace, ReplyHost, RequestHead, Responder};
use replica::session::Sessions;
use tree::Tree;

use crate::audit_trail::audit_refusal;
use crate::connection::{Connection, ConnectionState};
use crate::{clock, limits};

/// Resources that the task of a connection has acquired for one of its reads.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReadPermits {
    /// Number of bytes reserved for a long reply.
    pub(crate) room: Option<usize>,
    /// Whether the task holds a permit for a slow read.
    pub(crate) is_slow: bool,
}

/// Returns the pace of a connection's task, which depends on the acquired resources.
pub(crate) fn pace_of_task(state: &ConnectionState, permits: ReadPermits) -> Pace {
    let small = || state.allowed_ahead(limits::REPLY_BYTES_SMALL);
    Pace {
        room: permits.room.unwrap_or_else(small),
        outbox_bytes: state.allowed_ahead(limits::OUTBOX_BYTES_SOFT),
        replies: usize::MAX,
        answers_slow: permits.is_slow,
        refuses: false,
    }
}

/// Returns the pace of the core after a write on this connection. All other clients wait meanwhile.
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

/// Returns the pace of the core before a write is applied. The write must not be visible to reads
/// that arrived before it.
pub(crate) fn pace_before_write(state: &ConnectionState) -> Pace {
    Pace {
        room: state.allowed(limits::OUTBOX_BYTES_HARD),
        outbox_bytes: usize::MAX,
        replies: usize::MAX,
        answers_slow: true,
        refuses: true,
    }
}

/// Values that answers to requests use. The core and the tasks of all connections share them.
pub(crate) struct AnswerContext {
    /// Tree, watches and sessions.
    pub(crate) state: Arc<ServerState>,
    /// Limits on the fields of requests.
    pub(crate) field_limits: Limits,
    pub(crate) slow: Arc<SlowRequests>,
    /// Audit log. `None` if it is disabled.
    pub(crate) audit: Option<Arc<AuditLog>>,
    /// Number of connections whose tasks have deferred reads to answer before the next write.
    pub(crate) deferred_connections: AtomicUsize,
}

/// Connection whose requests are answered while the tree is locked.
#[derive(Clone, Copy)]
pub(crate) struct LockedConnection<'a> {
    pub(crate) answers: &'a AnswerContext,
    pub(crate) connection: &'a Connection,
    pub(crate) now_ms: u64,
}

/// Recorder of the answers on one connection. The connection's lock is held.
pub(crate) struct AnswerRecorder<'a> {
    pub(crate) served: LockedConnection<'a>,
    pub(crate) replies: &'a mut Replies,
    /// Slow read that has just been answered.
    slow_read: Option<(RequestHead, Zxid)>,
}

impl<'a> LockedConnection<'a> {
    /// Returns the responder that answers the connection's requests from this tree.
    pub(crate) fn responder(self, tree: &'a Tree) -> Responder<'a> {
        let Self {
            answers,
            connection,
            now_ms,
        } = self;
        let limits = answers.field_limits;
        answers.state.responder(tree, connection, now_ms, limits)
    }

    /// Returns a recorder for the connection's answers.
    pub(crate) fn recorder(self, replies: &'a mut Replies) -> AnswerRecorder<'a> {
        AnswerRecorder {
            served: self,
            replies,
            slow_read: None,
        }
    }

    /// Records a slow request. Locks are held, so its log line is written later.
    pub(crate) fn note_slow(self, head: RequestHead, zxid: Zxid, path: Option<&str>) {
        let Self {
            answers,
            connection,
            now_ms,
        } = self;
        answers.slow.note(SlowRequest {
            at_ms: clock::wall_ms(),
            took_ms: now_ms.saturating_sub(head.received_ms),
            peer: connection.peer,
            session: connection.session(),
            op: head.op,
            path: path.map(str::to_owned),
            xid: head.xid,
            zxid,
        });
    }

    /// Updates the state of the connection after requests were queued or answered while the tree
    /// was locked.
    pub(crate) fn note_changed(self, state: &mut ConnectionState) {
        let deferred_connections = &self.answers.deferred_connections;
        self.connection.count_deferred(state, deferred_connections);
        state.update_buffered_bytes();
    }
}

impl ReplyHost for AnswerRecorder<'_> {
    type Note = Option<MemoryReservation>;

    fn sessions(&self) -> impl DerefMut<Target = Sessions> {
        self.served.answers.state.sessions.lock()
    }

    /// Replies to credentials and malformed operations count as packets, but not as requests.
    /// Source: FinalRequestProcessor.processRequest, ServerStats.updateLatency.
    fn note_reply(&mut self, head: RequestHead, zxid: Zxid, err: ErrorCode, bytes: usize) {
        let RequestHead {
            xid,
            op,
            received_ms,
            ..
        } = head;
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
            // `note_read` later records the path of a read that succeeded.
            let is_told_below = op.kind() == OpKind::Read && err == ErrorCode::Ok;
            self.slow_read = None;
            if self.served.answers.slow.is_slow(latency_ms) {
                if is_told_below {
                    self.slow_read = Some((head, zxid));
                } else {
                    self.served.note_slow(head, zxid, None);
                }
            }
        }
        if !matches!(op, OpCode::Ping | OpCode::CreateSession) {
            stats.note_request(is_write);
        }
        // A request that fails before its execution is shown without its operation.
        let is_refused = is_throttled || (is_write && err != ErrorCode::Ok);
        stats.answered(xid, zxid, (!is_refused).then_some(op), received_ms, now_ms);
    }

    fn note_event(&mut self, bytes: usize) {
        self.replies.event(bytes.saturating_sub(4));
    }

    fn note_read(&mut self, request: &ReadRequest, body: &[u8]) {
        self.replies.read_from(request, body);
        if let Some((head, zxid)) = self.slow_read.take() {
            self.served
                .note_slow(head, zxid, request.path().map(|path| &**path));
        }
    }

    fn note_refusal(&mut self, op: OpCode, err: ErrorCode, identities: &Identities) {
        let LockedConnection {
            answers,
            connection,
            ..
        } = self.served;
        audit_refusal(answers.audit.as_deref(), connection, identities, op, err);
    }

    fn note_long_refusal(&mut self, head: RequestHead, bytes: usize) {
        let connection = self.served.connection;
        log_limiter::limited!(warn, peer = %connection.peer, session = %connection.session(), op = head.op.name(), bytes, "refusing a read because its reply became too long while the read waited for a write of its session; the client can repeat the read");
    }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
pub(crate) mod tests;
