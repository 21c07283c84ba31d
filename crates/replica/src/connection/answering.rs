//! Answers, in the order of the requests.

use std::ops::DerefMut;

use jute::{Encode, Limits};
use proto::request::ReadRequest;
use proto::txn::Txn;
use proto::{ErrorCode, Id, OpCode, SessionId, Xid, Zxid};
use tree::{Caller, SharedWatches, Tree, Unanswered, WatcherId};

use super::frames::{CONNECT_RESPONSE_BYTES, REPLY_BYTES_MAX, push_event_frame, push_frame};
use super::identities::Identities;
use super::queue::{Asked, ClientConnection, Queued, WaitingRead, Work};
use super::request::decode_again;
use crate::effect::Applied;
use crate::requests::UNDECODABLE;
use crate::sessions::Sessions;

/// Answers requests of one connection under one hold of the tree.
#[derive(Debug, Clone, Copy)]
pub struct Responder<'a> {
    /// The tree.
    pub tree: &'a Tree,
    /// The watches on it.
    pub watches: &'a SharedWatches,
    /// Of the connection.
    pub session: SessionId,
    /// The connection; its [`Ticket`](crate::Ticket) has the same number.
    pub watcher: WatcherId,
    /// The time, ms.
    pub now_ms: u64,
    /// Bounds on fields of requests.
    pub field_limits: Limits,
}

/// How much is answered at a time.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Bytes of the longest reply.
    pub room: usize,
    /// Bytes in the outbox after which it must be written first.
    pub outbox_bytes: usize,
    /// Replies of those that were left over.
    pub replies: usize,
    /// Whether reads are answered that may take long however short their replies are; one of them
    /// at a time.
    pub answers_slow: bool,
    /// Whether what does not fit is refused, as it cannot wait.
    pub refuses: bool,
}

impl Pace {
    /// Everything at once.
    pub const UNBOUNDED: Self = Self {
        room: usize::MAX,
        outbox_bytes: usize::MAX,
        replies: usize::MAX,
        answers_slow: true,
        refuses: false,
    };
}

/// How far the answers to what waits have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drained {
    /// The rest waits for transactions, or the leader.
    All,
    /// The outbox should be written, or the tree be let go, before more is answered.
    Some,
    /// The next reply has no room: so many bytes.
    TooLong(usize),
    /// The next read takes long and has no turn.
    Slow,
}

/// What a host is told while requests of a connection are answered.
pub trait Replying {
    /// What it keeps with a read that waits.
    type Note;

    /// The table of sessions.
    fn sessions(&self) -> impl DerefMut<Target = Sessions>;

    /// A reply of so many bytes, its length included, was appended to the outbox.
    fn replied(&mut self, _asked: Asked, _zxid: Zxid, _err: ErrorCode, _bytes: usize) {}

    /// The same of an event.
    fn event_pushed(&mut self, _bytes: usize) {}

    /// A read was answered by this body.
    fn has_read(&mut self, _request: &ReadRequest, _body: &[u8]) {}

    /// A request is refused that never became a transaction.
    fn refuses(&mut self, _op: OpCode, _err: ErrorCode, _identities: &Identities) {}

    /// A read is refused: its reply has become too long to be made between two writes.
    fn refuses_long(&mut self, _asked: Asked, _bytes: usize) {}
}

/// What becomes of the oldest request of a connection when its transaction is applied.
#[derive(Debug)]
pub enum WriteAnswer {
    /// Nobody waits for it any more.
    Forgotten,
    /// It is answered.
    Replied {
        /// The request.
        asked: Asked,
        /// How many waited behind it.
        waiting: usize,
        /// How many of those are answered, too.
        answered: usize,
    },
    /// There is a new session, with its timeout in ms, or none: the handshake is to be answered.
    Session {
        /// The handshake.
        asked: Asked,
        /// The session.
        session: Option<(SessionId, i32)>,
        /// Whether the client sent the read-only byte.
        new_style: bool,
    },
    /// The session is at another server by now, where its client finds it. The connection ends
    /// without an answer.
    Moved(Asked),
    /// The oldest request waits for something else: no answer is better than another one's. The
    /// connection ends.
    OutOfTurn,
}

impl Responder<'_> {
    /// Answers a read into the connection's outbox, stamped with the last applied zxid.
    ///
    /// # Errors
    /// If the reply takes more than `room` bytes: how many. Nothing has happened then.
    pub(super) fn read<H: Replying>(
        &self,
        client: &mut ClientConnection<H::Note>,
        asked: Asked,
        (request, identities): (&ReadRequest, &[Id]),
        room: usize,
        host: &mut H,
    ) -> Result<(), usize> {
        let zxid = self.tree.last_zxid();
        // A ping is answered with the reserved xid, whatever the request's was.
        let is_ping = matches!(request, ReadRequest::Ping);
        let asked = Asked {
            xid: if is_ping { Xid::PING } else { asked.xid },
            ..asked
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
                host.event_pushed(client.outbox.len() - start);
            }
            self.reply(client, asked, zxid, host, |_| set);
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
        let err = push_frame(&mut client.outbox, asked.xid, zxid, |out| {
            body = out.len();
            let answered = self
                .tree
                .read_within(room, request, &caller, self.watches, out);
            answered.or_else(|unanswered| match unanswered {
                Unanswered::Error(code) => Err(code),
                Unanswered::TooLong { bytes } if bytes > REPLY_BYTES_MAX => {
                    Err(ErrorCode::MarshallingError)
                }
                Unanswered::TooLong { bytes } => {
                    too_long = Some(bytes);
                    Ok(())
                }
            })
        });
        if let Some(bytes) = too_long {
            client.outbox.truncate(start);
            return Err(bytes);
        }
        host.replied(asked, zxid, err, client.outbox.len() - start);
        if err == ErrorCode::Ok {
            host.has_read(request, client.outbox.get(body..).unwrap_or_default());
        }
        Ok(())
    }

    /// Answers what waits for no transaction at the head of the queue, at this pace.
    pub fn drain<H: Replying>(
        &self,
        client: &mut ClientConnection<H::Note>,
        pace: Pace,
        host: &mut H,
    ) -> Drained {
        let mut left = pace.replies;
        while let Some(next) = client.next_left_over() {
            let is_slow = matches!(&next.work, Work::Read { is_slow: true, .. });
            let is_due = left > 0 && client.outbox.len() < pace.outbox_bytes;
            if !is_due {
                return Drained::Some;
            }
            if is_slow && !pace.answers_slow {
                return Drained::Slow;
            }
            left -= 1;
            let Some(queued) = client.dequeue() else {
                break;
            };
            if let Some((queued, bytes)) = self.answer(client, queued, pace, host) {
                client.requeue(queued);
                return Drained::TooLong(bytes);
            }
            if is_slow && !pace.refuses {
                left = 0;
            }
        }
        Drained::All
    }

    /// Answers one request from the queue that waits for no transaction, or gives it back with the
    /// room it takes.
    fn answer<H: Replying>(
        &self,
        client: &mut ClientConnection<H::Note>,
        queued: Queued<H::Note>,
        pace: Pace,
        host: &mut H,
    ) -> Option<(Queued<H::Note>, usize)> {
        let Queued { asked, work } = &queued;
        let (asked, zxid) = (*asked, self.tree.last_zxid());
        match work {
            Work::Read {
                request,
                identities,
                ..
            } => {
                let room = match pace.refuses {
                    true => pace.room.saturating_sub(client.outbox.len()),
                    false => pace.room,
                };
                let decoded;
                let request = match request {
                    WaitingRead::Decoded(request) => request,
                    WaitingRead::Encoded(op, body) => {
                        let Some(read) = decode_again(*op, body, self.field_limits) else {
                            self.reply(client, asked, zxid, host, |_| Err(UNDECODABLE));
                            return None;
                        };
                        decoded = read;
                        &decoded
                    }
                };
                match self.read(client, asked, (request, identities), room, host) {
                    Err(bytes) if pace.refuses => {
                        host.refuses_long(asked, bytes);
                        self.reply(client, asked, zxid, host, |_| Err(ErrorCode::ThrottledOp));
                    }
                    Err(bytes) => return Some((queued, bytes)),
                    Ok(()) => {}
                }
            }
            Work::Sync { path } => self.reply(client, asked, zxid, host, |out| {
                path.encode(out);
                Ok(())
            }),
            Work::Refuse(err) => {
                host.refuses(asked.op, *err, &client.identities);
                self.reply(client, asked, zxid, host, |_| Err(*err));
            }
            Work::CloseLocal => {
                host.sessions().remove(self.session);
                self.reply(client, asked, zxid, host, |_| Ok(()));
                client.end();
            }
            Work::Write { .. }
            | Work::WriteInVain(_)
            | Work::Handshake { .. }
            | Work::ForwardedSync { .. } => {}
        }
        None
    }

    /// A transaction that this connection has asked for was applied: its reply, and then, at the pace
    /// `behind`, what waits behind it for no transaction. What was left over in front of it has been
    /// answered before it was applied. The end of a session ends its connection behind the reply.
    pub fn answer_write<H: Replying>(
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

    fn answer_oldest<H: Replying>(
        &self,
        client: &mut ClientConnection<H::Note>,
        applied: &Applied<'_>,
        host: &mut H,
    ) -> WriteAnswer {
        let Some(Queued { asked, work }) = client.dequeue() else {
            return WriteAnswer::Forgotten;
        };
        let waiting = client.waiting();
        let (outcome, header) = (applied.outcome, &applied.record.header);
        match (work, outcome.error()) {
            (Work::WriteInVain(err), _) => {
                self.reply(client, asked, header.zxid, host, |_| Err(err));
                WriteAnswer::Replied {
                    asked,
                    waiting,
                    answered: 0,
                }
            }
            (Work::Handshake { new_style }, err) => {
                host.replied(asked, header.zxid, ErrorCode::Ok, CONNECT_RESPONSE_BYTES);
                let session = match applied.record.txn {
                    Txn::CreateSession { timeout_ms } if err == ErrorCode::Ok => {
                        Some((header.session, timeout_ms))
                    }
                    _ => None,
                };
                WriteAnswer::Session {
                    asked,
                    session,
                    new_style,
                }
            }
            (Work::Write { .. }, ErrorCode::SessionMoved) => WriteAnswer::Moved(asked),
            (Work::Write { .. }, err) => {
                self.reply(client, asked, header.zxid, host, |out| match err {
                    ErrorCode::Ok => {
                        outcome.encode_body(applied.op, out);
                        Ok(())
                    }
                    err => Err(err),
                });
                WriteAnswer::Replied {
                    asked,
                    waiting,
                    answered: 0,
                }
            }
            _ => WriteAnswer::OutOfTurn,
        }
    }

    /// The oldest sync of this connection is answered; `None` if something else is its oldest request,
    /// and the connection has to end. What was left over in front of it comes first, at the pace
    /// `before`, and what waits behind it then, at the pace `behind`.
    pub fn answer_sync<H: Replying>(
        &self,
        client: &mut ClientConnection<H::Note>,
        (before, behind): (Pace, impl FnOnce() -> Pace),
        host: &mut H,
    ) -> Option<Asked> {
        self.drain(client, before, host);
        let Some(Queued {
            asked,
            work: Work::ForwardedSync { path },
        }) = client.dequeue()
        else {
            return None;
        };
        let zxid = self.tree.last_zxid();
        self.reply(client, asked, zxid, host, |out| {
            path.encode(out);
            Ok(())
        });
        self.drain(client, behind(), host);
        Some(asked)
    }

    /// Appends a reply and has it noted.
    pub(super) fn reply<H: Replying>(
        &self,
        client: &mut ClientConnection<H::Note>,
        asked: Asked,
        zxid: Zxid,
        host: &mut H,
        body: impl FnOnce(&mut Vec<u8>) -> Result<(), ErrorCode>,
    ) {
        let start = client.outbox.len();
        let err = push_frame(&mut client.outbox, asked.xid, zxid, body);
        tracing::trace!(xid = %asked.xid, op = asked.op.name(), %zxid, err = %err, "answered");
        host.replied(asked, zxid, err, client.outbox.len() - start);
    }
}
