//! The requests of a connection that have no reply yet.

use std::collections::VecDeque;

use bytes::Bytes;
use jute::Str;
use proto::request::ReadRequest;
use proto::{ErrorCode, Id, OpCode, SessionId, Xid};
use session::Passwords;

use super::frames;
use super::identities::{self, Identities, TooManyIdentities};

/// Bytes of replies, as far as they can be known, to reads that wait behind a write, beyond which
/// the write that comes next waits as well. What stands in front of a write must be answered before
/// it is applied.
pub const REPLIES_BEFORE_WRITE_BYTES: usize = 256 << 10;

/// A client's connection: its requests without a reply, and what leaves for it. With each read that
/// waits, the host keeps an `N`.
#[derive(Debug)]
pub struct ClientConnection<N> {
    /// Oldest first. Starts with what waits for a transaction or a leader, or with what was left over
    /// when the outbox was full enough.
    queue: VecDeque<Queued<N>>,
    /// Bytes of their frames.
    queued_bytes: usize,
    /// Bytes that the replies to the reads among them are expected to take.
    expected_bytes: usize,
    /// Bytes of the longest write since the queue was empty: what reads behind it may find.
    longest_write: usize,
    /// Encoded frames, to be sent.
    pub outbox: Vec<u8>,
    /// Whether the connection ends as soon as the outbox is written.
    pub ends_after_flush: bool,
    /// Whose it is.
    pub identities: Identities,
}

/// A request as its reply repeats it.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// Its number.
    pub xid: Xid,
    /// What it asks for.
    pub op: OpCode,
    /// When it came in, ms.
    pub received_ms: u64,
    /// Bytes of its frame, which it may hold as long as it waits.
    pub frame_bytes: usize,
}

/// A request that waits for its reply.
#[derive(Debug)]
pub struct Queued<N> {
    /// The request.
    pub asked: Asked,
    /// What it waits for.
    pub work: Work<N>,
}

/// What a queued request waits for, or does when its turn comes.
#[derive(Debug)]
pub enum Work<N> {
    /// A transaction that is under way.
    Write {
        /// Ephemerals that it makes, where their number is bounded.
        ephemerals: usize,
    },
    /// The same, to be answered by this error whatever it is.
    WriteInVain(ErrorCode),
    /// The end of a local session: needs no transaction, only its place in the order.
    CloseLocal,
    /// A new session that is under way; answered by a handshake response instead of a reply.
    Handshake {
        /// Whether the client sent the read-only byte and so expects it back.
        new_style: bool,
    },
    /// A read behind a write of the same connection.
    Read {
        /// What.
        request: WaitingRead,
        /// Whose it is: what the connection had proved when it came.
        identities: Identities,
        /// Bytes of its reply, as far as they can be known before.
        expected_bytes: usize,
        /// Whether it may take long to answer.
        is_slow: bool,
        /// The host's.
        note: N,
    },
    /// sync on a server that stands alone: only its place in the order matters.
    Sync {
        /// Goes back to the client.
        path: Option<Str>,
    },
    /// sync of an ensemble's member: when the leader has answered, or when this leader has applied
    /// what was proposed before.
    ForwardedSync {
        /// Goes back to the client.
        path: Option<Str>,
    },
    /// A request that is refused in its turn.
    Refuse(ErrorCode),
}

/// A read as it waits.
#[derive(Debug)]
pub enum WaitingRead {
    /// One that takes no more than its frame.
    Decoded(ReadRequest),
    /// One that takes a multiple of it: a list. It is decoded once more when its turn comes.
    Encoded(OpCode, Bytes),
}

impl<N> Work<N> {
    fn expected_bytes(&self) -> usize {
        match self {
            Self::Read { expected_bytes, .. } => *expected_bytes,
            _ => 0,
        }
    }

    /// Whether only a transaction or a leader's answer can bring its reply.
    pub fn waits_for_replica(&self) -> bool {
        matches!(
            self,
            Self::Write { .. }
                | Self::WriteInVain(_)
                | Self::Handshake { .. }
                | Self::ForwardedSync { .. }
        )
    }
}

impl<N> ClientConnection<N> {
    /// One of a client that nothing else is known of.
    pub fn new(identities: Identities) -> Self {
        Self {
            queue: VecDeque::new(),
            queued_bytes: 0,
            expected_bytes: 0,
            longest_write: 0,
            outbox: Vec::new(),
            ends_after_flush: false,
            identities,
        }
    }

    /// Adds identities that are not there yet.
    ///
    /// # Errors
    /// If they would be more than one connection may have. Nothing has happened then.
    pub fn add_identities(&mut self, added: Vec<Id>) -> Result<(), TooManyIdentities> {
        self.identities = identities::joined(&self.identities, added)?;
        Ok(())
    }

    /// Queues a request behind all others.
    pub fn enqueue(&mut self, asked: Asked, work: Work<N>) {
        self.queued_bytes += asked.frame_bytes;
        self.expected_bytes += work.expected_bytes();
        if work.waits_for_replica() {
            self.longest_write = self.longest_write.max(asked.frame_bytes);
        }
        self.queue.push_back(Queued { asked, work });
    }

    /// The client gets a new session once its transaction is applied. `new_style`: it sent the
    /// read-only byte and so expects it back.
    pub fn await_session(&mut self, received_ms: u64, new_style: bool) {
        let asked = Asked {
            xid: Xid(0),
            op: OpCode::CreateSession,
            received_ms,
            frame_bytes: 0,
        };
        self.enqueue(asked, Work::Handshake { new_style });
    }

    /// Takes the oldest request, to answer it.
    pub(super) fn dequeue(&mut self) -> Option<Queued<N>> {
        let queued = self.queue.pop_front()?;
        self.queued_bytes -= queued.asked.frame_bytes;
        self.expected_bytes -= queued.work.expected_bytes();
        if self.queue.is_empty() {
            self.longest_write = 0;
        }
        Some(queued)
    }

    /// Puts back what was taken and cannot be answered yet.
    pub(super) fn requeue(&mut self, queued: Queued<N>) {
        self.queued_bytes += queued.asked.frame_bytes;
        self.expected_bytes += queued.work.expected_bytes();
        self.queue.push_front(queued);
    }

    /// Drops all requests: nobody is to be answered.
    pub fn drop_requests(&mut self) {
        self.queue.clear();
        (self.queued_bytes, self.expected_bytes) = (0, 0);
    }

    /// The session is over because the client has asked for it: what is in the outbox still leaves.
    pub fn end(&mut self) {
        self.ends_after_flush = true;
        self.drop_requests();
    }

    /// Gives the client its session, with its timeout in ms, or says that there is none and ends.
    /// Clients that sent the read-only byte get one back.
    pub fn answer_handshake(
        &mut self,
        session: Option<(SessionId, i32)>,
        passwords: &Passwords,
        read_only: Option<bool>,
    ) {
        frames::push_connect_response(&mut self.outbox, session, passwords, read_only);
        self.ends_after_flush |= session.is_none();
    }

    /// Requests without a reply, oldest first.
    pub fn requests(&self) -> impl Iterator<Item = &Queued<N>> {
        self.queue.iter()
    }

    /// How many there are.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Bytes of their frames.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Bytes of the longest write since there was none.
    pub(super) fn longest_write(&self) -> usize {
        self.longest_write
    }

    /// The oldest request if it waits for no transaction.
    pub(super) fn next_left_over(&self) -> Option<&Queued<N>> {
        let next = self.queue.front();
        next.filter(|queued| !queued.work.waits_for_replica())
    }

    /// Whether the oldest request waits for no transaction: it was left over.
    pub fn has_left_over(&self) -> bool {
        self.next_left_over().is_some()
    }

    /// Whether the replies to reads in the queue are so long that no write may come behind them yet.
    pub fn holds_up_writes(&self) -> bool {
        self.expected_bytes > REPLIES_BEFORE_WRITE_BYTES
    }

    /// Whether the end of a local session waits for its turn: nothing comes behind it.
    pub(super) fn is_closing_local(&self) -> bool {
        let newest = self.queue.back();
        newest.is_some_and(|queued| matches!(queued.work, Work::CloseLocal))
    }
}
