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
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use proto::connect::{ConnectResponse, ReplyHeader};
use proto::request::ReadRequest;
use proto::{ErrorCode, Id, SessionId, Xid, Zxid};
use replica::Ticket;
use tokio::sync::Notify;
use tree::WatcherId;

use super::answer::Asked;
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
    state: Mutex<ConnectionState>,
    wake: Notify,
}

/// What the lock of a connection guards.
pub(crate) struct ConnectionState {
    /// Requests without a reply, oldest first. Starts with a write whenever it is not empty.
    pub(crate) queue: VecDeque<Queued>,
    /// Encoded frames for the socket.
    pub(crate) outbox: Vec<u8>,
    /// Whether the connection ends as soon as the outbox is written.
    pub(crate) ends_after_flush: bool,
    pub(crate) identities: Identities,
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
        request: ReadRequest,
        identities: Identities,
    },
    /// sync on a server that stands alone: only its place in the order matters.
    Sync { path: Option<jute::Str> },
    /// sync of an ensemble's member, answered by the core: when the leader has answered, or when this
    /// leader has applied what was proposed before.
    ForwardedSync { path: Option<jute::Str> },
    /// A request that could not be decoded.
    Refuse(ErrorCode),
}

impl Work {
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
    pub(crate) fn new(id: WatcherId, peer: SocketAddr, identities: Identities) -> Self {
        Self {
            id,
            peer,
            stats: ConnectionStats::new(clock::wall_ms()),
            session: AtomicI64::new(0),
            timeout_ms: AtomicI32::new(0),
            read_only: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            state: Mutex::new(ConnectionState {
                queue: VecDeque::new(),
                outbox: Vec::new(),
                ends_after_flush: false,
                identities,
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
    /// [`limits::OUTBOX_BYTES_MAX`] the connection is given up.
    pub(crate) fn push_event(&self, frame: &[u8]) {
        let mut state = self.lock();
        if state.outbox.len() + frame.len() > limits::OUTBOX_BYTES_MAX {
            drop(state);
            tracing::warn!(peer = %self.peer, session = %self.session(), "client does not read its events, closing");
            self.close();
            return;
        }
        state.outbox.extend_from_slice(frame);
        self.stats.packets_sent(1);
    }
}

impl ConnectionState {
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
    let err = body(out).err().unwrap_or(ErrorCode::Ok);
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
    let len = u32::try_from(out.len() - start - 4).expect("a reply is shorter than 4 GiB");
    out[start..start + 4].copy_from_slice(&len.to_be_bytes());
}
