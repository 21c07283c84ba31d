//! Answering what needs no transaction: reads, pings, syncs and refusals.

use bytes::Bytes;
use jute::{Encode, Reader};
use proto::multi::MultiRead;
use proto::request::{ReadRequest, Request, SetWatchesRequest};
use proto::watch::{EventType, STATE_SYNC_CONNECTED, WatcherEvent};
use proto::{ErrorCode, Id, OpCode, OpKind, Xid, Zxid};
use tree::{Caller, Tree, Unanswered};

use super::connection::{Connection, ConnectionState, Queued, WaitingRead, Work, push_frame};
use crate::client::clients::Clients;
use crate::limits;
use crate::metrics::Replies;

/// Answers requests of one connection under one hold of the tree.
pub(crate) struct Responder<'a> {
    pub(crate) clients: &'a Clients,
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
    /// Bytes of its frame, which it may hold as long as it waits.
    pub(crate) frame_bytes: usize,
}

/// What the task of a connection has found for one of its reads.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Grant {
    /// Bytes for a long reply.
    pub(crate) room: Option<usize>,
    /// A turn among the reads that take long.
    pub(crate) is_slow: bool,
}

/// How much is answered at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Bytes of the longest reply.
    room: usize,
    /// Bytes in the outbox after which it must be written first.
    outbox_bytes: usize,
    replies: usize,
    /// Whether reads are answered that may take long however short their replies are; one of them
    /// at a time.
    answers_slow: bool,
    /// Whether what does not fit is refused, as it cannot wait.
    refuses: bool,
}

impl Pace {
    /// The task of a connection, by what it has found.
    pub(crate) fn of_task(state: &ConnectionState, grant: Grant) -> Self {
        let small = || state.allowed_ahead(limits::REPLY_BYTES_SMALL);
        Self {
            room: grant.room.unwrap_or_else(small),
            outbox_bytes: state.allowed_ahead(limits::OUTBOX_BYTES_SOFT),
            replies: usize::MAX,
            answers_slow: grant.is_slow,
            refuses: false,
        }
    }

    /// Whether a read that takes long may be answered.
    pub(crate) fn answers_slow(self) -> bool {
        self.answers_slow
    }

    /// Bytes of the longest reply.
    pub(crate) fn room(self) -> usize {
        self.room
    }

    /// Bytes in the outbox after which it must be written first.
    pub(crate) fn outbox_bytes(self) -> usize {
        self.outbox_bytes
    }

    /// The core, behind a write of this connection: it holds up everybody.
    pub(crate) fn of_core(state: &ConnectionState) -> Self {
        let bytes = state.allowed_ahead(limits::CORE_REPLY_BYTES);
        Self {
            room: bytes,
            outbox_bytes: bytes,
            replies: limits::CORE_REPLIES,
            answers_slow: false,
            refuses: false,
        }
    }

    /// The core, in front of a write that is about to be applied: reads that came before it must
    /// not see it.
    pub(crate) fn of_core_before_write(state: &ConnectionState) -> Self {
        Self {
            room: state.allowed(limits::OUTBOX_BYTES_HARD),
            outbox_bytes: usize::MAX,
            replies: usize::MAX,
            answers_slow: true,
            refuses: true,
        }
    }
}

/// How far the answers to what waits have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drained {
    /// The rest waits for the core.
    All,
    /// The outbox should be written, or the tree be let go, before more is answered.
    Some,
    /// The next reply has no room: so many bytes.
    TooLong(usize),
    /// The next read takes long and has no turn.
    Slow,
}

/// Whether a read may take long: some walk all that is below a znode, others bring a list.
pub(crate) fn is_slow(tree: &Tree, request: &ReadRequest) -> bool {
    match request {
        ReadRequest::GetAllChildrenNumber(_) | ReadRequest::GetEphemerals(_) => true,
        ReadRequest::GetChildren(_) | ReadRequest::GetChildren2(_) => {
            tree.expected_bytes(request) > limits::REPLIES_BEFORE_WRITE_BYTES
        }
        ReadRequest::MultiRead(MultiRead::Reads(reads)) => reads.len() > limits::LIST_SHORT,
        ReadRequest::SetWatches(request) => {
            let SetWatchesRequest {
                data,
                exist,
                child,
                persistent,
                persistent_recursive,
                ..
            } = request;
            let lists = [data, exist, child, persistent, persistent_recursive];
            let count = |list: &Option<Vec<_>>| list.as_ref().map_or(0, Vec::len);
            lists.into_iter().map(count).sum::<usize>() > limits::LIST_SHORT
        }
        _ => false,
    }
}

/// Whether a read is a list, which takes a multiple of its frame when it is decoded.
fn is_list(request: &ReadRequest) -> bool {
    matches!(
        request,
        ReadRequest::MultiRead(_) | ReadRequest::SetWatches(_)
    )
}

impl WaitingRead {
    /// `body` is the record as it came.
    pub(crate) fn new(op: OpCode, request: ReadRequest, body: Bytes) -> Self {
        match is_list(&request) {
            true => Self::Encoded(op, body),
            false => Self::Decoded(request),
        }
    }
}

impl Responder<'_> {
    /// Answers a read into the connection's outbox, stamped with the last applied zxid.
    ///
    /// # Errors
    /// If the reply takes more than `room` bytes: how many. Nothing has happened then.
    pub(crate) fn read(
        &self,
        state: &mut ConnectionState,
        replies: &mut Replies,
        asked: Asked,
        (request, identities): (&ReadRequest, &[Id]),
        room: usize,
    ) -> Result<(), usize> {
        let zxid = self.tree.last_zxid();
        // A ping is answered with the reserved xid, whatever the request's was.
        let is_ping = matches!(request, ReadRequest::Ping);
        let asked = Asked {
            xid: if is_ping { Xid::PING } else { asked.xid },
            ..asked
        };
        let watches = &self.clients.state.watches;
        if let ReadRequest::SetWatches(request) = request {
            let bytes = tree::set_watches_bytes_max(request);
            if bytes > room {
                return Err(bytes);
            }
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
            return Ok(());
        }
        let caller = Caller {
            session: self.connection.session(),
            watcher: self.connection.id,
            identities,
        };
        let start = state.outbox.len();
        let mut body = start;
        let mut too_long = None;
        let err = push_frame(&mut state.outbox, asked.xid, zxid, |out| {
            body = out.len();
            let answered = self.tree.read_within(room, request, &caller, watches, out);
            answered.or_else(|unanswered| match unanswered {
                Unanswered::Error(code) => Err(code),
                Unanswered::TooLong { bytes } if bytes > limits::REPLY_BYTES_MAX => {
                    Err(ErrorCode::MarshallingError)
                }
                Unanswered::TooLong { bytes } => {
                    too_long = Some(bytes);
                    Ok(())
                }
            })
        });
        if let Some(bytes) = too_long {
            state.outbox.truncate(start);
            return Err(bytes);
        }
        self.note(replies, asked, zxid, err, state.outbox.len() - start);
        if err == ErrorCode::Ok {
            replies.read_from(request, state.outbox.get(body..).unwrap_or_default());
        }
        Ok(())
    }

    /// Answers what waits for no transaction at the head of the queue, at this pace.
    pub(crate) fn drain_queue(
        &self,
        state: &mut ConnectionState,
        replies: &mut Replies,
        pace: Pace,
    ) -> Drained {
        let drained = self.drain(state, replies, pace);
        self.connection
            .note_left_over(state, &self.clients.left_over);
        state.note_held();
        drained
    }

    fn drain(&self, state: &mut ConnectionState, replies: &mut Replies, pace: Pace) -> Drained {
        let mut left = pace.replies;
        while let Some(next) = state.next_for_task() {
            let slow = matches!(&next.work, Work::Read { is_slow: true, .. });
            let is_due = left > 0 && state.outbox.len() < pace.outbox_bytes;
            if !is_due {
                return Drained::Some;
            }
            if slow && !pace.answers_slow {
                return Drained::Slow;
            }
            left -= 1;
            let Some(queued) = state.dequeue() else {
                break;
            };
            if let Some((queued, bytes)) = self.answer(state, replies, queued, pace) {
                state.requeue(queued);
                return Drained::TooLong(bytes);
            }
            if slow && !pace.refuses {
                left = 0;
            }
        }
        Drained::All
    }

    /// Answers one request from the queue that waits for no transaction, or gives it back with the
    /// room it takes.
    fn answer(
        &self,
        state: &mut ConnectionState,
        replies: &mut Replies,
        queued: Queued,
        pace: Pace,
    ) -> Option<(Queued, usize)> {
        let Queued { asked, work } = &queued;
        let (asked, zxid) = (*asked, self.tree.last_zxid());
        match work {
            Work::Read {
                request,
                identities,
                ..
            } => {
                let room = match pace.refuses {
                    true => pace.room.saturating_sub(state.outbox.len()),
                    false => pace.room,
                };
                let decoded;
                let request = match request {
                    WaitingRead::Decoded(request) => request,
                    WaitingRead::Encoded(op, body) => match self.decode_again(*op, body) {
                        Some(read) => {
                            decoded = read;
                            &decoded
                        }
                        None => {
                            self.reply(state, replies, asked, zxid, |_| Err(replica::UNDECODABLE));
                            return None;
                        }
                    },
                };
                match self.read(state, replies, asked, (request, identities), room) {
                    Err(bytes) if pace.refuses => {
                        tracing::warn!(peer = %self.connection.peer, session = %self.connection.session(), op = asked.op.name(), bytes, "refusing a read: its answer has become too long to be made between two writes of its session; ask again");
                        self.reply(state, replies, asked, zxid, |_| Err(ErrorCode::ThrottledOp));
                    }
                    Err(bytes) => return Some((queued, bytes)),
                    Ok(()) => {}
                }
            }
            Work::Sync { path } => {
                self.reply(state, replies, asked, zxid, |out| {
                    path.encode(out);
                    Ok(())
                });
            }
            Work::Refuse(err) => {
                let refused = (asked.op, *err);
                self.clients.audit_refusal(self.connection, state, refused);
                self.reply(state, replies, asked, zxid, |_| Err(*err));
            }
            Work::CloseLocal => {
                self.clients.end_local_session(self.connection.session());
                self.reply(state, replies, asked, zxid, |_| Ok(()));
                state.ends_after_flush = true;
                state.clear_queue();
            }
            Work::Write
            | Work::WriteInVain(_)
            | Work::Handshake { .. }
            | Work::ForwardedSync { .. } => {}
        }
        None
    }

    /// A read that waited as it came. It has been decoded before, so it does decode.
    fn decode_again(&self, op: OpCode, body: &Bytes) -> Option<ReadRequest> {
        let limits = self.clients.settings.field_limits;
        let mut input = Reader::with_limits(body.clone(), limits);
        match Request::decode(op, &mut input) {
            Ok(Request::Read(request)) => Some(request),
            _ => None,
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
            ..
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

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
