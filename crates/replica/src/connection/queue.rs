//! The connection's unanswered requests.

use std::collections::VecDeque;

use bytes::Bytes;
use jute::Str;
use proto::request::ReadRequest;
use proto::{ErrorCode, Id, OpCode, SessionId, Xid};

use super::frames;
use super::identities::{self, Identities, TooManyIdentities};
use crate::session::Passwords;

/// Expected total size of the replies to waiting reads, above which the next write must wait,
/// bytes. All earlier requests must be answered before a write is applied.
pub const REPLIES_BEFORE_WRITE_BYTES: usize = 256 << 10;

/// A client's connection: its unanswered requests, and its outbox. The host keeps an `N` with each
/// waiting read.
#[derive(Debug)]
pub struct ClientConnection<N> {
    /// Unanswered requests, oldest first. The first one waits for a transaction or for the leader,
    /// or was deferred, for example because of a full outbox.
    queue: VecDeque<Queued<N>>,
    /// Size of the queued requests' frames, bytes.
    queued_bytes: usize,
    /// Expected total size of the replies to the queued reads, bytes.
    expected_bytes: usize,
    /// Size of the longest write since the queue was last empty, bytes. A later read may return its
    /// data.
    longest_write: usize,
    /// Encoded frames that are not sent yet.
    pub outbox: Vec<u8>,
    /// Whether the connection ends as soon as the outbox is written.
    pub ends_after_flush: bool,
    /// Authenticated identities of the client.
    pub identities: Identities,
}

/// Properties of a request that are needed for its reply.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead {
    /// Number that the client gave the request.
    pub xid: Xid,
    /// Requested operation.
    pub op: OpCode,
    /// Time of arrival, ms.
    pub received_ms: u64,
    /// Size of the request's frame, which may occupy memory as long as the request waits, bytes.
    pub frame_bytes: usize,
}

/// A request that waits for its reply.
#[derive(Debug)]
pub struct Queued<N> {
    /// Properties that are needed for the reply.
    pub head: RequestHead,
    /// Event for which the request waits, or work to be done when its turn comes.
    pub work: QueuedWork<N>,
}

/// Event for which a queued request waits, or work to be done when its turn comes.
#[derive(Debug)]
pub enum QueuedWork<N> {
    /// A transaction in progress.
    Write {
        /// Number of ephemeral znodes that the write creates if it succeeds; 0 if the client's
        /// number of ephemeral znodes is not bounded.
        ephemerals: usize,
    },
    /// A transaction in progress. Its request is answered with this error, even if the transaction
    /// succeeds.
    WriteInVain(ErrorCode),
    /// The end of a local session. It does not need a transaction but keeps its position in the
    /// order.
    CloseLocal,
    /// A new session in progress. It is answered with a handshake response instead of a reply.
    Handshake {
        /// Whether the client sent the read-only byte and therefore expects it back.
        new_style: bool,
    },
    /// A read that could not be answered when it arrived, usually because it follows a write.
    Read {
        /// Decoded or encoded request.
        request: WaitingRead,
        /// Identities of the client when the request arrived.
        identities: Identities,
        /// Expected size of its reply, as far as it can be known, bytes.
        expected_bytes: usize,
        /// Whether the answer may take long.
        is_slow: bool,
        /// Data that the host keeps with the read.
        note: N,
    },
    /// A sync on a server that does not order or forward requests. It only keeps its position in
    /// the order.
    Sync {
        /// Path that the answer returns to the client.
        path: Option<Str>,
    },
    /// A sync that waits for the leader's answer or, on a leader or a standalone server, until all
    /// earlier proposals are applied.
    ForwardedSync {
        /// Path that the answer returns to the client.
        path: Option<Str>,
    },
    /// A request that is refused when its turn comes.
    Refuse(ErrorCode),
}

/// Form in which a read waits.
#[derive(Debug)]
pub enum WaitingRead {
    /// A read whose decoded form does not need more memory than its frame.
    Decoded(ReadRequest),
    /// A read with a list. Its decoded form would need several times the memory of its frame, so it
    /// is decoded again when its turn comes.
    Encoded(OpCode, Bytes),
}

impl<N> QueuedWork<N> {
    fn expected_bytes(&self) -> usize {
        match self {
            Self::Read { expected_bytes, .. } => *expected_bytes,
            _ => 0,
        }
    }

    /// Returns whether the reply needs a transaction or a leader's answer.
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
    /// Creates the connection of a client with these identities.
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

    /// Adds the identities that the connection lacks.
    ///
    /// # Errors
    /// If the identities would exceed a limit. The connection is then unchanged.
    pub fn add_identities(&mut self, added: Vec<Id>) -> Result<(), TooManyIdentities> {
        self.identities = identities::merge_identities(&self.identities, added)?;
        Ok(())
    }

    /// Appends a request to the queue.
    pub fn enqueue(&mut self, head: RequestHead, work: QueuedWork<N>) {
        self.queued_bytes += head.frame_bytes;
        self.expected_bytes += work.expected_bytes();
        if work.waits_for_replica() {
            self.longest_write = self.longest_write.max(head.frame_bytes);
        }
        self.queue.push_back(Queued { head, work });
    }

    /// Queues the handshake of a new session, which is answered once the session's transaction is
    /// applied. `new_style` states whether the client sent the read-only byte and expects it back.
    pub fn await_session(&mut self, received_ms: u64, new_style: bool) {
        let head = RequestHead {
            xid: Xid(0),
            op: OpCode::CreateSession,
            received_ms,
            frame_bytes: 0,
        };
        self.enqueue(head, QueuedWork::Handshake { new_style });
    }

    /// Removes the oldest request from the queue so that it can be answered.
    pub(super) fn dequeue(&mut self) -> Option<Queued<N>> {
        let queued = self.queue.pop_front()?;
        self.queued_bytes -= queued.head.frame_bytes;
        self.expected_bytes -= queued.work.expected_bytes();
        if self.queue.is_empty() {
            self.longest_write = 0;
        }
        Some(queued)
    }

    /// Puts back a removed request that cannot be answered yet.
    pub(super) fn requeue(&mut self, queued: Queued<N>) {
        self.queued_bytes += queued.head.frame_bytes;
        self.expected_bytes += queued.work.expected_bytes();
        self.queue.push_front(queued);
    }

    /// Drops all waiting requests without answering them.
    pub fn drop_requests(&mut self) {
        self.queue.clear();
        (self.queued_bytes, self.expected_bytes) = (0, 0);
    }

    /// Ends the connection because the client has closed its session. The outbox is still sent.
    pub fn end(&mut self) {
        self.ends_after_flush = true;
        self.drop_requests();
    }

    /// Answers the handshake with a session and its timeout in ms. Without a session, the
    /// connection ends. The response contains a read-only byte if the client sent one.
    pub fn answer_handshake(
        &mut self,
        session: Option<(SessionId, i32)>,
        passwords: &Passwords,
        read_only: Option<bool>,
    ) {
        frames::push_connect_response(&mut self.outbox, session, passwords, read_only);
        self.ends_after_flush |= session.is_none();
    }

    /// Returns the requests without a reply, oldest first.
    pub fn requests(&self) -> impl Iterator<Item = &Queued<N>> {
        self.queue.iter()
    }

    /// Returns the number of requests without a reply.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Returns the size of the waiting requests' frames, bytes.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Returns the size of the longest write since the queue was last empty, bytes.
    pub(super) fn longest_write(&self) -> usize {
        self.longest_write
    }

    /// Returns the oldest request, if it does not wait for a transaction.
    pub(super) fn next_deferred(&self) -> Option<&Queued<N>> {
        let next = self.queue.front();
        next.filter(|queued| !queued.work.waits_for_replica())
    }

    /// Returns whether the oldest request was deferred and does not wait for a transaction.
    pub fn has_deferred(&self) -> bool {
        self.next_deferred().is_some()
    }

    /// Returns whether the replies to queued reads are so long that no further write may be queued
    /// yet.
    pub fn must_delay_writes(&self) -> bool {
        self.expected_bytes > REPLIES_BEFORE_WRITE_BYTES
    }

    /// Returns whether the client has closed its session, or the connection ends once its outbox is
    /// sent. Later requests are ignored.
    pub fn is_closing(&self) -> bool {
        let newest = self.queue.back();
        self.ends_after_flush || newest.is_some_and(|queued| queued.head.op == OpCode::CloseSession)
    }
}
