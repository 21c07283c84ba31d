//! One client connection as the rest of the server sees it.
//!
//! ```text
//!             socket task                            core thread
//!   frames -> decode -> [queue of unanswered] <----- committed writes, in zxid order
//!                         |  reads with nothing in front: answered at once by the task
//!                         v  reads behind a write: answered by the core, right after that write
//!                       [outbox] -> one write syscall for all that waits
//! ```
//!
//! Lock order: tree, then a connection's state, then the watch table. The core holds the tree
//! exclusively while it fills outboxes, the task holds it shared while it answers reads; so an
//! event is always in the outbox before a reply that would reveal its change.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use proto::connect::{ConnectResponse, ReplyHeader};
use proto::request::ReadRequest;
use proto::{ErrorCode, Id, OpCode, SessionId, Xid, Zxid};
use replica::Ticket;
use tokio::sync::Notify;
use transport::sasl::ServerExchange;
use tree::WatcherId;

use super::answer::Asked;
use super::held::{Held, HeldBytes};
use super::room::Room;
use crate::metrics::ConnectionStats;
use crate::{clock, limits};

/// The identities of a connection; replaced as a whole when a client authenticates.
pub(crate) type Identities = Arc<[Id]>;

/// A client connection, shared by its socket task, the core thread and the registry.
pub(crate) struct Connection {
    pub(crate) id: WatcherId,
    pub(crate) peer: SocketAddr,
    pub(crate) stats: ConnectionStats,
    session: AtomicI64,
    timeout_ms: AtomicI32,
    /// Whether the server had no leader at the handshake; the connection ends when it finds one.
    read_only: AtomicBool,
    /// Set once nothing more is to be read or answered; the task then ends.
    closed: AtomicBool,
    /// Whether the queue begins with what its task has to answer. Changed under a hold of the tree.
    left_over: AtomicBool,
    state: Mutex<ConnectionState>,
    wake: Notify,
}

/// What the lock of a connection guards.
pub(crate) struct ConnectionState {
    /// Requests without a reply, oldest first. Starts with what waits for the core, or with what
    /// was left over when the outbox was full enough ([`Connection::has_left_over`]).
    pub(crate) queue: VecDeque<Queued>,
    /// Bytes of their frames.
    queued_bytes: usize,
    /// Bytes that the replies to the reads among them are expected to take.
    expected_bytes: usize,
    /// Bytes of the longest write since the queue was empty: what reads behind it may find.
    longest_write: usize,
    /// Encoded frames for the socket.
    pub(crate) outbox: Vec<u8>,
    /// Bytes of events among them.
    event_bytes: usize,
    /// Bytes of a long reply among them, which has room of its own.
    roomy_bytes: usize,
    /// What the task has taken from the outbox and is writing.
    writing: Writing,
    held: Held,
    /// Whether the connection ends as soon as the outbox is written.
    pub(crate) ends_after_flush: bool,
    pub(crate) identities: Identities,
    /// The SASL exchange, once there is one: a connection has one, good or bad.
    pub(crate) sasl: Option<Box<ServerExchange>>,
}

/// Bytes on their way to the socket.
#[derive(Debug, Clone, Copy, Default)]
struct Writing {
    bytes: usize,
    /// Of events among them.
    event_bytes: usize,
}

/// A request that waits for its reply.
pub(crate) struct Queued {
    pub(crate) asked: Asked,
    pub(crate) work: Work,
}

/// What a queued request waits for, or does when its turn comes.
pub(crate) enum Work {
    /// A transaction that is under way.
    Write,
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
        request: WaitingRead,
        identities: Identities,
        /// Bytes of its reply, as far as they can be known before.
        expected_bytes: usize,
        /// Whether it may take long to answer.
        is_slow: bool,
        /// For its frame, which it is part of.
        frame_room: Option<Room>,
    },
    /// sync on a server that stands alone: only its place in the order matters.
    Sync { path: Option<jute::Str> },
    /// sync of an ensemble's member, answered by the core: when the leader has answered, or when this
    /// leader has applied what was proposed before.
    ForwardedSync { path: Option<jute::Str> },
    /// A request that could not be decoded.
    Refuse(ErrorCode),
}

/// A read as it waits.
pub(crate) enum WaitingRead {
    /// One that takes no more than its frame.
    Decoded(ReadRequest),
    /// One that takes a multiple of it: a list. It is decoded once more when its turn comes.
    Encoded(OpCode, Bytes),
}

impl Work {
    fn expected_bytes(&self) -> usize {
        match self {
            Self::Read { expected_bytes, .. } => *expected_bytes,
            _ => 0,
        }
    }

    /// Whether only the core can answer it: when its transaction is applied, or the leader says so.
    pub(crate) fn waits_for_core(&self) -> bool {
        matches!(
            self,
            Self::Write
                | Self::WriteInVain(_)
                | Self::Handshake { .. }
                | Self::ForwardedSync { .. }
        )
    }
}

impl Connection {
    pub(crate) fn new(
        id: WatcherId,
        peer: SocketAddr,
        identities: Identities,
        held: Arc<HeldBytes>,
    ) -> Self {
        Self {
            id,
            peer,
            stats: ConnectionStats::new(clock::wall_ms()),
            session: AtomicI64::new(0),
            timeout_ms: AtomicI32::new(0),
            read_only: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            left_over: AtomicBool::new(false),
            state: Mutex::new(ConnectionState {
                queue: VecDeque::new(),
                queued_bytes: 0,
                expected_bytes: 0,
                longest_write: 0,
                outbox: Vec::new(),
                event_bytes: 0,
                roomy_bytes: 0,
                writing: Writing::default(),
                held: Held::nothing(held),
                ends_after_flush: false,
                identities,
                sasl: None,
            }),
            wake: Notify::new(),
        }
    }

    /// Its number towards the replica.
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket(self.id.0)
    }

    /// The session, [`SessionId::NONE`] before the handshake is through.
    pub(crate) fn session(&self) -> SessionId {
        SessionId(self.session.load(Ordering::Acquire))
    }

    /// The negotiated timeout.
    pub(crate) fn timeout_ms(&self) -> i32 {
        self.timeout_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn set_session(&self, session: SessionId, timeout_ms: i32) {
        self.timeout_ms.store(timeout_ms, Ordering::Relaxed);
        self.session.store(session.0, Ordering::Release);
    }

    /// Whether nothing but reads is answered.
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Relaxed)
    }

    pub(crate) fn set_read_only(&self) {
        self.read_only.store(true, Ordering::Relaxed);
    }

    /// Whether the task has something to answer that stands in front of all writes.
    pub(crate) fn has_left_over(&self) -> bool {
        self.left_over.load(Ordering::Relaxed)
    }

    /// Says whether it has, after requests were queued or answered under this hold of the tree.
    /// `count` is how many connections there are with such a queue.
    pub(crate) fn note_left_over(&self, state: &ConnectionState, count: &AtomicUsize) {
        let is_left_over = state.next_for_task().is_some();
        if self.has_left_over() == is_left_over {
            return;
        }
        self.left_over.store(is_left_over, Ordering::Relaxed);
        if is_left_over {
            count.fetch_add(1, Ordering::Relaxed);
        } else {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Takes the state's lock; the tree's lock, if needed, must be held already.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock()
    }

    /// Ends the connection without sending what is in the outbox.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Tells the task that the outbox or the end flag changed.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Waits for [`Self::wake`] or [`Self::close`]; one made earlier counts.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Appends an already encoded event frame for a watch that fired.
    ///
    /// A client that does not read cannot make the server hold its events for ever: beyond
    /// [`limits::UNREAD_EVENT_BYTES_MAX`], or less if all connections together hold a lot, the
    /// connection is given up.
    pub(crate) fn push_event(&self, frame: &[u8]) {
        let mut state = self.lock();
        if self.is_closed() {
            return;
        }
        let unread = state.event_bytes + state.writing.event_bytes;
        let max = state.held.allowed(limits::UNREAD_EVENT_BYTES_MAX);
        // One event is taken whatever its length: a client that reads gets it.
        if unread > 0 && unread + frame.len() > max {
            drop(state);
            tracing::warn!(peer = %self.peer, session = %self.session(), unread, max, "client does not read its events, closing connection");
            self.close();
            return;
        }
        state.event_bytes += frame.len();
        state.outbox.extend_from_slice(frame);
        state.note_held();
        self.stats.packets_sent(1);
    }
}

impl ConnectionState {
    /// Takes what is to be written, once what was taken before is.
    pub(crate) fn take_outbox(&mut self) -> Vec<u8> {
        self.writing = Writing {
            bytes: self.outbox.len() - std::mem::take(&mut self.roomy_bytes),
            event_bytes: std::mem::take(&mut self.event_bytes),
        };
        let taken = std::mem::take(&mut self.outbox);
        self.note_held();
        taken
    }

    /// Has what the connection holds counted, after requests were queued or answered.
    pub(crate) fn note_held(&mut self) {
        let queued = self.queued_bytes + self.queue.len() * size_of::<Queued>();
        let unsent = self.outbox.len() - self.roomy_bytes + self.writing.bytes;
        self.held.set(queued + unsent);
    }

    /// Bytes that it may hold, as long as it is not more than `max`.
    pub(crate) fn allowed(&self, max: usize) -> usize {
        self.held.allowed(max)
    }

    /// The outbox begins with, or is, a reply for which there was other room than what all hold.
    pub(crate) fn note_roomy(&mut self, bytes: usize) {
        self.roomy_bytes = bytes.min(self.outbox.len());
        self.note_held();
    }

    /// Bytes that may be made ahead, as long as it is not more than `max`.
    pub(crate) fn allowed_ahead(&self, max: usize) -> usize {
        self.held.allowed_ahead(max)
    }

    /// Whether it has room of which others may be in want.
    pub(crate) fn has_frame_room(&self) -> bool {
        let has_room = |queued: &Queued| {
            let Work::Read { frame_room, .. } = &queued.work else {
                return false;
            };
            frame_room.is_some()
        };
        self.queue.iter().any(has_room)
    }

    /// Adds identities that are not there yet; false if they would be more than one connection may
    /// have.
    pub(crate) fn add_identities(&mut self, added: Vec<Id>) -> bool {
        let mut identities = self.identities.to_vec();
        for id in added {
            if !identities.contains(&id) {
                identities.push(id);
            }
        }
        let bytes = identities.iter().map(|id| id.scheme.len() + id.id.len());
        let may_be_held = identities.len() <= limits::IDENTITIES_MAX
            && bytes.sum::<usize>() <= limits::IDENTITY_BYTES_MAX;
        if may_be_held {
            self.identities = identities.into();
        }
        may_be_held
    }

    /// Queues a request behind all others.
    pub(crate) fn enqueue(&mut self, queued: Queued) {
        self.queued_bytes += queued.asked.frame_bytes;
        self.expected_bytes += queued.work.expected_bytes();
        if queued.work.waits_for_core() {
            self.longest_write = self.longest_write.max(queued.asked.frame_bytes);
        }
        self.queue.push_back(queued);
    }

    /// Bytes of the longest write since the queue was empty.
    pub(crate) fn longest_write(&self) -> usize {
        self.longest_write
    }

    /// Takes the oldest request, to answer it.
    pub(crate) fn dequeue(&mut self) -> Option<Queued> {
        let queued = self.queue.pop_front()?;
        self.queued_bytes -= queued.asked.frame_bytes;
        self.expected_bytes -= queued.work.expected_bytes();
        if self.queue.is_empty() {
            self.longest_write = 0;
        }
        Some(queued)
    }

    /// Puts back what was taken and cannot be answered yet.
    pub(crate) fn requeue(&mut self, queued: Queued) {
        self.queued_bytes += queued.asked.frame_bytes;
        self.expected_bytes += queued.work.expected_bytes();
        self.queue.push_front(queued);
    }

    /// Drops all requests: nobody is to be answered.
    pub(crate) fn clear_queue(&mut self) {
        self.queue.clear();
        (self.queued_bytes, self.expected_bytes) = (0, 0);
        self.note_held();
    }

    /// The oldest request if it waits for no transaction.
    pub(crate) fn next_for_task(&self) -> Option<&Queued> {
        let next = self.queue.front();
        next.filter(|queued| !queued.work.waits_for_core())
    }

    /// Whether so much is unanswered that nothing more should be read.
    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() >= limits::UNANSWERED_MAX
            || self.queued_bytes >= self.held.allowed(limits::UNANSWERED_BYTES_MAX)
    }

    /// Whether the replies to reads in the queue are so long that no write may come behind them yet.
    pub(crate) fn holds_up_writes(&self) -> bool {
        self.expected_bytes > limits::REPLIES_BEFORE_WRITE_BYTES
    }

    /// Whether the end of a local session waits for its turn: nothing comes behind it.
    pub(crate) fn is_closing_local(&self) -> bool {
        let newest = self.queue.back();
        newest.is_some_and(|queued| matches!(queued.work, Work::CloseLocal))
    }

    /// Appends the server's half of the handshake.
    pub(crate) fn push_connect_response(&mut self, response: &ConnectResponse) {
        let start = begin_frame(&mut self.outbox);
        jute::Encode::encode(response, &mut self.outbox);
        end_frame(&mut self.outbox, start);
    }
}

/// A handshake response with the read-only byte, its length included.
pub(crate) const CONNECT_RESPONSE_BYTES: usize = 41;

/// The handshake response for a session that is (or is not) there.
pub(crate) fn connect_response(
    session: Option<(SessionId, i32)>,
    new_style: bool,
    is_read_only: bool,
) -> ConnectResponse {
    let (session_id, timeout_ms) = session.unwrap_or((SessionId::NONE, 0));
    let password = match session {
        Some((id, _)) => Bytes::copy_from_slice(&session::password(id)),
        None => Bytes::from_static(&[0; 16]),
    };
    let read_only = new_style.then_some(is_read_only);
    ConnectResponse {
        protocol_version: 0,
        timeout_ms,
        session_id,
        password,
        read_only,
    }
}

/// Appends a frame of a reply header and what `body` appends to it.
pub(crate) fn push_frame(
    out: &mut Vec<u8>,
    xid: Xid,
    zxid: Zxid,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), ErrorCode>,
) -> ErrorCode {
    let start = begin_frame(out);
    let header_at = out.len();
    out.extend_from_slice(&[0; ReplyHeader::BYTES]);
    let mut err = body(out).err().unwrap_or(ErrorCode::Ok);
    if out.len() - header_at > limits::REPLY_BYTES_MAX {
        // No length could stand in front of it.
        out.truncate(header_at + ReplyHeader::BYTES);
        err = ErrorCode::MarshallingError;
    }
    let mut header = [0; ReplyHeader::BYTES];
    header[..4].copy_from_slice(&xid.0.to_be_bytes());
    header[4..12].copy_from_slice(&zxid.0.to_be_bytes());
    header[12..].copy_from_slice(&err.code().to_be_bytes());
    out[header_at..header_at + ReplyHeader::BYTES].copy_from_slice(&header);
    end_frame(out, start);
    err
}

fn begin_frame(out: &mut Vec<u8>) -> usize {
    if out.capacity() == 0 {
        out.reserve(limits::OUTBOX_BYTES_START);
    }
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    start
}

fn end_frame(out: &mut [u8], start: usize) {
    let len = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&len.to_be_bytes());
}
