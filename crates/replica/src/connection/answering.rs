//! Answers to a connection's requests, in the order of the requests.

use std::ops::DerefMut;

use jute::{Encode, Limits};
use proto::request::ReadRequest;
use proto::txn::Txn;
use proto::{ErrorCode, Id, OpCode, SessionId, Xid, Zxid};
use tree::{Caller, ReadFailure, SharedWatches, Tree, WatcherId};

use super::frames::{CONNECT_RESPONSE_BYTES, REPLY_BYTES_MAX, push_event_frame, push_frame};
use super::identities::Identities;
use super::queue::{ClientConnection, Queued, QueuedWork, RequestHead, WaitingRead};
use super::request::decode_again;
use super::unordered::UNDECODABLE;
use crate::interface::effect::Applied;
use crate::session::Sessions;

/// State for answering the requests of one connection while the caller holds the tree.
#[derive(Debug, Clone, Copy)]
pub struct Responder<'a> {
    /// Tree that is read.
    pub tree: &'a Tree,
    /// The watches on the tree's znodes.
    pub watches: &'a SharedWatches,
    /// Session of the connection.
    pub session: SessionId,
    /// Number of the connection, shared with its [`Ticket`](crate::Ticket).
    pub watcher: WatcherId,
    /// Current time, ms.
    pub now_ms: u64,
    /// Bounds on fields of requests.
    pub field_limits: Limits,
}

/// Limits on the work of one call.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Maximum size of one reply or, if `refuses` is set, of the outbox with that reply, bytes.
    pub room: usize,
    /// Outbox size above which the outbox must be written before the next reply, bytes.
    pub outbox_bytes: usize,
    /// Maximum number of deferred requests that are answered.
    pub replies: usize,
    /// Whether to answer one read that may take long, even if its reply is short.
    pub answers_slow: bool,
    /// Whether to refuse a read whose reply exceeds `room`, because the read cannot wait.
    pub refuses: bool,
}

impl Pace {
    /// Pace without limits.
    pub const UNBOUNDED: Self = Self {
        room: usize::MAX,
        outbox_bytes: usize::MAX,
        replies: usize::MAX,
        answers_slow: true,
        refuses: false,
    };
}

/// Progress of the answers to waiting requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainOutcome {
    /// The remaining requests wait for transactions or for the leader.
    All,
    /// The outbox should be written, or the tree released, before the next answer.
    Some,
    /// The next reply has this size in bytes, which exceeds the permitted size.
    TooLong(usize),
    /// The next read takes long and must wait for its turn.
    Slow,
}

/// Callbacks to the host while requests of a connection are answered.
pub trait ReplyHost {
    /// The host's data about a waiting read.
    type Note;

    /// Returns the table of sessions.
    fn sessions(&self) -> impl DerefMut<Target = Sessions>;

    /// Reports that a reply of this size, including its length field, was appended to the outbox.
    fn note_reply(&mut self, _asked: RequestHead, _zxid: Zxid, _err: ErrorCode, _bytes: usize) {}

    /// Reports that an event of this size was appended to the outbox.
    fn note_event(&mut self, _bytes: usize) {}

    /// Reports a read and the body of its reply.
    fn note_read(&mut self, _request: &ReadRequest, _body: &[u8]) {}

    /// Reports that a request is refused and does not become a transaction.
    fn note_refusal(&mut self, _op: OpCode, _err: ErrorCode, _identities: &Identities) {}

    /// Reports that a read is refused because its reply has become too long to be sent between two
    /// writes.
    fn note_long_refusal(&mut self, _asked: RequestHead, _bytes: usize) {}
}

/// Outcome for a connection's oldest request when its transaction is applied.
#[derive(Debug)]
pub enum WriteAnswer {
    /// The connection no longer waits for the answer.
    Forgotten,
    /// The request is answered.
    Replied {
        /// The answered request.
        head: RequestHead,
        /// Number of requests that waited after the answered one.
        waiting: usize,
        /// Number of these waiting requests that are also answered.
        answered: usize,
    },
    /// The handshake must be answered.
    Session {
        /// The client's handshake.
        head: RequestHead,
        /// The new session and its timeout in ms; `None` if the handshake is refused.
        session: Option<(SessionId, i32)>,
        /// Whether the client sent the read-only byte.
        new_style: bool,
    },
    /// The session has moved to another server, where its client will find it. The connection ends
    /// without an answer.
    Moved(RequestHead),
    /// The oldest request waits for something else. The connection ends without an answer, because
    /// the client must not receive the answer to another request.
    OutOfTurn,
}

impl Responder<'_> {
    /// Encodes the answer to a read into the connection's outbox, including the last applied zxid.
    ///
    /// # Errors
    /// If the reply exceeds `room`. The error is the reply's size in bytes, and the outbox is
    /// unchanged.
    pub(super) fn read<H: ReplyHost>(
        &self,
        client: &mut ClientConnection<H::Note>,
        head: RequestHead,
        request: &ReadRequest,
        identities: &[Id],
        room: usize,
        host: &mut H,
    ) -> Result<(), usize> {
        let zxid = self.tree.last_zxid();
        // The answer to a ping has the reserved xid, whatever the request's xid was.
        let is_ping = matches!(request, ReadRequest::Ping);
        let head = RequestHead {
            xid: if is_ping { Xid::PING } else { head.xid },
            ..head
        };
        if let ReadRequest::SetWatches(request) = request {
            let bytes = tree::set_watches_bytes_max(request);
            if bytes > room {
                return Err(bytes);
            }
            let (mut missed, watches) = (Vec::new(), self.watches);
            let set = self
                .tree
                .set_watches(request, self.watcher, watches, &mut missed);
            for (event_type, path) in missed {
                let start = client.outbox.len();
                push_event_frame(&mut client.outbox, event_type, path, Zxid(-1));
                host.note_event(client.outbox.len() - start);
            }
            self.reply(client, head, zxid, host, |_| set);
            return Ok(());
        }
        let caller = Caller {
            session: self.session,
            watcher: self.watcher,
            identities,
        };
        let start = client.outbox.len();
        let mut body = start;
        let mut too_long = None;
        let err = push_frame(&mut client.outbox, head.xid, zxid, |out| {
            body = out.len();
            let answered = self
                .tree
                .read_within(room, request, &caller, self.watches, out);
            answered.or_else(|unanswered| match unanswered {
                ReadFailure::Error(code) => Err(code),
                ReadFailure::TooLong { bytes } if bytes > REPLY_BYTES_MAX => {
                    Err(ErrorCode::MarshallingError)
                }
                ReadFailure::TooLong { bytes } => {
                    too_long = Some(bytes);
                    Ok(())
                }
            })
        });
        if let Some(bytes) = too_long {
            client.outbox.truncate(start);
            return Err(bytes);
        }
        host.note_reply(head, zxid, err, client.outbox.len() - start);
        if err == ErrorCode::Ok {
            host.note_read(request, client.outbox.get(body..).unwrap_or_default());
        }
        Ok(())
    }

    /// Answers the requests at the head of the queue that do not wait for a transaction, at this
    /// pace.
    pub fn drain<H: ReplyHost>(
        &self,
        client: &mut ClientConnection<H::Note>,
        pace: Pace,
        host: &mut H,
    ) -> DrainOutcome {
        let mut left = pace.replies;
        while let Some(next) = client.next_deferred() {
            let is_slow = matches!(&next.work, QueuedWork::Read { is_slow: true, .. });
            let is_due = left > 0 && client.outbox.len() < pace.outbox_bytes;
            if !is_due {
                return DrainOutcome::Some;
            }
            if is_slow && !pace.answers_slow {
                return DrainOutcome::Slow;
            }
            left -= 1;
            let Some(queued) = client.dequeue() else {
                break;
            };
            if let Some((queued, bytes)) = self.answer(client, queued, pace, host) {
                client.requeue(queued);
                return DrainOutcome::TooLong(bytes);
            }
            if is_slow && !pace.refuses {
                left = 0;
            }
        }
        DrainOutcome::All
    }

    /// Answers one queued request that does not wait for a transaction. If its reply is too long
    /// for this pace, returns the request and the size of the reply instead.
    fn answer<H: ReplyHost>(
        &self,
        client: &mut ClientConnection<H::Note>,
        queued: Queued<H::Note>,
        pace: Pace,
        host: &mut H,
    ) -> Option<(Queued<H::Note>, usize)> {
        let Queued { head, work } = &queued;
        let (head, zxid) = (*head, self.tree.last_zxid());
        match work {
            QueuedWork::Read {
                request,
                identities,
                ..
            } => {
                let room = if pace.refuses {
                    pace.room.saturating_sub(client.outbox.len())
                } else {
                    pace.room
                };
                let decoded;
                let request = match request {
                    WaitingRead::Decoded(request) => request,
                    WaitingRead::Encoded(op, body) => {
                        let Some(read) = decode_again(*op, body, self.field_limits) else {
                            self.reply(client, head, zxid, host, |_| Err(UNDECODABLE));
                            return None;
                        };
                        decoded = read;
                        &decoded
                    }
                };
                match self.read(client, head, request, identities, room, host) {
                    Err(bytes) if pace.refuses => {
                        host.note_long_refusal(head, bytes);
                        self.reply(client, head, zxid, host, |_| Err(ErrorCode::ThrottledOp));
                    }
                    Err(bytes) => return Some((queued, bytes)),
                    Ok(()) => {}
                }
            }
            QueuedWork::Sync { path } => self.reply(client, head, zxid, host, |out| {
                path.encode(out);
                Ok(())
            }),
            QueuedWork::Refuse(err) => {
                host.note_refusal(head.op, *err, &client.identities);
                self.reply(client, head, zxid, host, |_| Err(*err));
            }
            QueuedWork::CloseLocal => {
                host.sessions().remove(self.session);
                self.reply(client, head, zxid, host, |_| Ok(()));
                client.end();
            }
            QueuedWork::Write { .. }
            | QueuedWork::WriteInVain(_)
            | QueuedWork::Handshake { .. }
            | QueuedWork::ForwardedSync { .. } => {}
        }
        None
    }

    /// Answers the request of this connection whose transaction was applied. Then answers later
    /// requests that do not wait for a transaction, at the pace `behind`. The caller must have
    /// answered earlier deferred requests before the transaction was applied. If the request ended
    /// the session, the connection ends after the reply.
    pub fn answer_write<H: ReplyHost>(
        &self,
        client: &mut ClientConnection<H::Note>,
        applied: &Applied<'_>,
        behind: impl FnOnce() -> Pace,
        host: &mut H,
    ) -> WriteAnswer {
        let mut answer = self.answer_oldest(client, applied, host);
        if let WriteAnswer::Replied { answered, .. } = &mut answer {
            let waiting = client.waiting();
            self.drain(client, behind(), host);
            *answered = waiting - client.waiting();
        }
        if matches!(applied.record.txn, Txn::CloseSession { .. }) {
            client.end();
        }
        answer
    }

    fn answer_oldest<H: ReplyHost>(
        &self,
        client: &mut ClientConnection<H::Note>,
        applied: &Applied<'_>,
        host: &mut H,
    ) -> WriteAnswer {
        let Some(Queued { head, work }) = client.dequeue() else {
            return WriteAnswer::Forgotten;
        };
        let waiting = client.waiting();
        let (outcome, header) = (applied.outcome, &applied.record.header);
        match (work, outcome.error()) {
            (QueuedWork::WriteInVain(err), _) => {
                self.reply(client, head, header.zxid, host, |_| Err(err));
                WriteAnswer::Replied {
                    head,
                    waiting,
                    answered: 0,
                }
            }
            (QueuedWork::Handshake { new_style }, err) => {
                host.note_reply(head, header.zxid, ErrorCode::Ok, CONNECT_RESPONSE_BYTES);
                let session = match applied.record.txn {
                    Txn::CreateSession { timeout_ms } if err == ErrorCode::Ok => {
                        Some((header.session, timeout_ms))
                    }
                    _ => None,
                };
                WriteAnswer::Session {
                    head,
                    session,
                    new_style,
                }
            }
            (QueuedWork::Write { .. }, ErrorCode::SessionMoved) => WriteAnswer::Moved(head),
            (QueuedWork::Write { .. }, err) => {
                self.reply(client, head, header.zxid, host, |out| match err {
                    ErrorCode::Ok => {
                        outcome.encode_body(applied.op, out);
                        Ok(())
                    }
                    err => Err(err),
                });
                WriteAnswer::Replied {
                    head,
                    waiting,
                    answered: 0,
                }
            }
            _ => WriteAnswer::OutOfTurn,
        }
    }

    /// Answers this connection's oldest sync. Deferred requests before the sync are answered at the
    /// pace `before`, waiting requests after it at the pace `after`. Returns `None` if the oldest
    /// request is not a sync. The connection must then end.
    pub fn answer_sync<H: ReplyHost>(
        &self,
        client: &mut ClientConnection<H::Note>,
        before: Pace,
        after: impl FnOnce() -> Pace,
        host: &mut H,
    ) -> Option<RequestHead> {
        self.drain(client, before, host);
        let Some(Queued {
            head,
            work: QueuedWork::ForwardedSync { path },
        }) = client.dequeue()
        else {
            return None;
        };
        let zxid = self.tree.last_zxid();
        self.reply(client, head, zxid, host, |out| {
            path.encode(out);
            Ok(())
        });
        self.drain(client, after(), host);
        Some(head)
    }

    /// Appends a reply and reports it to the host.
    pub(super) fn reply<H: ReplyHost>(
        &self,
        client: &mut ClientConnection<H::Note>,
        head: RequestHead,
        zxid: Zxid,
        host: &mut H,
        body: impl FnOnce(&mut Vec<u8>) -> Result<(), ErrorCode>,
    ) {
        let start = client.outbox.len();
        let err = push_frame(&mut client.outbox, head.xid, zxid, body);
        tracing::trace!(xid = %head.xid, op = head.op.name(), %zxid, err = %err, "answered");
        host.note_reply(head, zxid, err, client.outbox.len() - start);
    }
}
