//! Answering what needs no transaction: reads, pings, syncs and refusals.

use jute::Encode;
use proto::request::ReadRequest;
use proto::watch::{EventType, STATE_SYNC_CONNECTED, WatcherEvent};
use proto::{ErrorCode, Id, OpCode, OpKind, Xid, Zxid};
use tree::{Caller, Tree};

use super::connection::{Connection, ConnectionState, Queued, Work, push_frame};
use crate::metrics::Replies;
use crate::shared::Shared;

/// The refusal of a request whose record does not decode.
pub(crate) const UNDECODABLE: ErrorCode = ErrorCode::MarshallingError;

/// Answers requests of one connection under one hold of the tree.
pub(crate) struct Desk<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) tree: &'a Tree,
    pub(crate) connection: &'a Connection,
    pub(crate) now_ms: u64,
}

/// A request as its reply repeats it.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) xid: Xid,
    pub(crate) op: OpCode,
    /// When it came in, monotonic ms.
    pub(crate) received_ms: u64,
}

impl Desk<'_> {
    /// Answers a read into the connection's outbox, stamped with the last applied zxid.
    pub(crate) fn read(
        &self,
        state: &mut ConnectionState,
        replies: &mut Replies,
        asked: Asked,
        request: &ReadRequest,
        identities: &[Id],
    ) {
        let zxid = self.tree.last_zxid();
        // A ping is answered with the reserved xid, whatever the request's was.
        let is_ping = matches!(request, ReadRequest::Ping);
        let asked = Asked {
            xid: if is_ping { Xid::PING } else { asked.xid },
            ..asked
        };
        let watches = &self.shared.watches;
        if let ReadRequest::SetWatches(request) = request {
            let mut missed = Vec::new();
            let set = self
                .tree
                .set_watches(request, self.connection.id, watches, &mut missed);
            for (event_type, path) in missed {
                let start = state.outbox.len();
                push_event_frame(&mut state.outbox, event_type, path, Zxid(-1));
                replies.event((state.outbox.len() - start).saturating_sub(4));
            }
            self.reply(state, replies, asked, zxid, |_| set);
            return;
        }
        let caller = Caller {
            session: self.connection.session(),
            watcher: self.connection.id,
            identities,
        };
        let mut body = state.outbox.len();
        let err = self.reply(state, replies, asked, zxid, |out| {
            body = out.len();
            self.tree.read(request, &caller, watches, out)
        });
        if err == ErrorCode::Ok {
            replies.read_from(request, state.outbox.get(body..).unwrap_or_default());
        }
    }

    /// Answers everything at the head of the queue that waits for no transaction.
    pub(crate) fn drain_queue(&self, state: &mut ConnectionState, replies: &mut Replies) {
        while state
            .queue
            .front()
            .is_some_and(|next| !next.work.waits_for_core())
        {
            let Some(Queued { asked, work }) = state.queue.pop_front() else {
                return;
            };
            let zxid = self.tree.last_zxid();
            match work {
                Work::Read {
                    request,
                    identities,
                } => {
                    self.read(state, replies, asked, &request, &identities);
                }
                Work::Sync { path } => {
                    self.reply(state, replies, asked, zxid, |out| {
                        path.encode(out);
                        Ok(())
                    });
                }
                Work::Refuse(err) => {
                    self.reply(state, replies, asked, zxid, |_| Err(err));
                }
                Work::CloseLocal => {
                    self.shared.end_local_session(self.connection.session());
                    self.reply(state, replies, asked, zxid, |_| Ok(()));
                    state.ends_after_flush = true;
                    state.queue.clear();
                }
                Work::Write
                | Work::WriteInVain(_)
                | Work::Handshake { .. }
                | Work::ForwardedSync { .. } => return,
            }
        }
    }

    /// Appends a reply and notes it. Returns its error.
    pub(crate) fn reply(
        &self,
        state: &mut ConnectionState,
        replies: &mut Replies,
        asked: Asked,
        zxid: Zxid,
        body: impl FnOnce(&mut Vec<u8>) -> Result<(), ErrorCode>,
    ) -> ErrorCode {
        let start = state.outbox.len();
        let err = push_frame(&mut state.outbox, asked.xid, zxid, body);
        tracing::trace!(xid = %asked.xid, op = asked.op.name(), %zxid, err = %err, "answered");
        self.note(replies, asked, zxid, err, state.outbox.len() - start);
        err
    }

    /// Notes a reply of `bytes` that was appended to the outbox. The connection is locked.
    ///
    /// Credentials and what is no operation count as packets only: neither takes its turn.
    /// Source: FinalRequestProcessor.processRequest, ServerStats.updateLatency.
    pub(crate) fn note(
        &self,
        replies: &mut Replies,
        asked: Asked,
        zxid: Zxid,
        err: ErrorCode,
        bytes: usize,
    ) {
        let Asked {
            xid,
            op,
            received_ms,
        } = asked;
        replies.reply(bytes.saturating_sub(4));
        let stats = &self.connection.stats;
        stats.packets_sent(1);
        let is_write = op.kind() == OpKind::Write;
        if op.kind() == OpKind::Connection || op == OpCode::Error {
            return;
        }
        let latency_ms = self.now_ms.saturating_sub(received_ms);
        let is_throttled = err == ErrorCode::ThrottledOp;
        if (is_write || op == OpCode::CreateSession) && !is_throttled {
            replies.update(latency_ms);
        } else {
            replies.read(latency_ms);
        }
        // What fails before it is carried out has no operation to show.
        let is_refused = is_throttled || (is_write && err != ErrorCode::Ok);
        stats.answered(
            xid,
            zxid,
            (!is_refused).then_some(op),
            received_ms,
            self.now_ms,
        );
    }
}

/// Appends an event frame. `zxid` is that of the change, or -1 for one missed while away.
pub(crate) fn push_event_frame(
    out: &mut Vec<u8>,
    event_type: EventType,
    path: jute::Str,
    zxid: Zxid,
) {
    let event = WatcherEvent {
        event_type: event_type as i32,
        state: STATE_SYNC_CONNECTED,
        path,
    };
    push_frame(out, Xid::EVENT, zxid, |out| {
        event.encode(out);
        Ok(())
    });
}
