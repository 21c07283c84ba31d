//! Client connection, as the rest of the server sees it.
//!
//! `replica::connection` decides which requests wait, and in which order replies are sent. The
//! socket's task answers reads that do not follow a pending request. The core answers writes, and
//! answers each read that follows a write directly after that write. Both the task and the core
//! fill the outbox. The task writes all waiting output together, or the core writes the output for
//! a waiting task (see [`DirectWrites`]).
//!
//! [`host::SharedConnection`] describes the locks and their order.

mod direct_writes;
pub(crate) mod inbox;
pub(crate) mod open;
pub(crate) mod outgoing;
pub(crate) mod service;
pub(crate) mod socket;
pub(crate) mod waiting;

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use admission::{BufferReservation, BufferedBytes, ConnectionBudgets, MemoryReservation};
use executor::sync::{AtomicBool, AtomicUsize};
use host::{ConnectionStatus, SharedConnection};
use metrics::ConnectionStats;
use replica::connection::{ClientConnection, Identities, Queued, QueuedWork};
use tokio::sync::Notify;
use tree::WatcherId;

use crate::connection::direct_writes::DirectWrites;
use crate::connection::outgoing::{EventFrame, LongEvent, Outgoing, bytes_of};
use crate::login::Login;
use crate::{clock, limits};

/// All connections of a server.
pub type Registry = host::Registry<Connection>;

/// Client connection, shared by its socket task, the core thread and the registry.
pub struct Connection {
    /// Address of the client.
    pub peer: SocketAddr,
    pub(crate) stats: ConnectionStats,
    shared: host::Connection<ConnectionState>,
    /// Whether the task must answer the first request of the queue. Changed only while the tree is
    /// locked, and when the connection ends.
    deferred: AtomicBool,
    wake: Notify,
}

/// State that the connection's lock protects.
pub struct ConnectionState {
    /// Requests without a reply, and the frames for the socket. A waiting long read keeps the
    /// memory reservation for its frame here.
    pub client: ClientConnection<Option<MemoryReservation>>,
    /// Long events, with their offsets in the outbox.
    pub(crate) long_events: Vec<LongEvent>,
    /// Number of bytes of events in the outbox and of long events.
    pub(crate) event_bytes: usize,
    /// Number of bytes of a long reply in the outbox that has its own memory reservation.
    pub(crate) roomy_bytes: usize,
    /// Output that was taken from the outbox and is being written.
    pub(crate) writing: BytesInWrite,
    pub(crate) direct_writes: DirectWrites,
    buffered: BufferReservation,
    /// SASL login, once it has started. A connection has only one login, successful or not.
    pub(crate) sasl: Option<Box<Login>>,
    /// Budgets that apply. `None` until the first request, and if budgets are not configured.
    pub(crate) connection_budgets: Option<Box<ConnectionBudgets>>,
}

/// Numbers of bytes that are being written to the socket.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BytesInWrite {
    pub(crate) bytes: usize,
    /// Number of bytes of events in the output that is being written.
    pub(crate) event_bytes: usize,
}

impl Connection {
    pub(crate) fn new(
        id: WatcherId,
        peer: SocketAddr,
        identities: Identities,
        buffered: Arc<BufferedBytes>,
    ) -> Self {
        let state = ConnectionState {
            client: ClientConnection::new(identities),
            long_events: Vec::new(),
            event_bytes: 0,
            roomy_bytes: 0,
            writing: BytesInWrite::default(),
            direct_writes: DirectWrites::default(),
            buffered: BufferReservation::empty(buffered),
            sasl: None,
            connection_budgets: None,
        };
        Self {
            shared: host::Connection::new(id, state),
            peer,
            stats: ConnectionStats::new(clock::wall_ms()),
            deferred: AtomicBool::new(false),
            wake: Notify::new(),
        }
    }

    /// Returns whether the task must answer requests before the next write.
    pub(crate) fn has_deferred(&self) -> bool {
        self.deferred.load(Ordering::Relaxed)
    }

    /// Updates `deferred`, and `count`, the number of connections whose `deferred` is set. Called
    /// after requests were queued, answered or dropped.
    pub(crate) fn count_deferred(&self, state: &ConnectionState, count: &AtomicUsize) {
        let has_deferred = state.client.has_deferred();
        if self.has_deferred() == has_deferred {
            return;
        }
        self.deferred.store(has_deferred, Ordering::Relaxed);
        if has_deferred {
            count.fetch_add(1, Ordering::Relaxed);
        } else {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Waits for [`SharedConnection::wake`] or [`SharedConnection::close`]. Returns immediately if
    /// either was called after the last wait.
    pub(crate) async fn wait_for_wake(&self) {
        self.wake.notified().await;
    }

    /// Appends an encoded event of a watch that fired.
    ///
    /// Events for a client that does not read must not occupy memory indefinitely. The connection
    /// is closed above [`limits::UNREAD_EVENT_BYTES_MAX`], or above a lower limit if all
    /// connections together hold many bytes.
    pub(crate) fn push_event(&self, frame: EventFrame<'_>) {
        let mut state = self.lock();
        if self.is_closed() {
            return;
        }
        let unread = state.event_bytes + state.writing.event_bytes;
        let max = state.buffered.allowed(limits::UNREAD_EVENT_BYTES_MAX);
        // A single event is accepted regardless of its length, so that a client that reads can
        // receive it.
        if unread > 0 && unread + frame.len() > max {
            drop(state);
            log_limiter::limited!(warn, peer = %self.peer, session = %self.session(), unread, max, "client does not read its events, closing connection");
            self.close();
            return;
        }
        let bytes = frame.len();
        state.event_bytes += bytes;
        match frame {
            EventFrame::Short(frame) => state.client.outbox.extend_from_slice(frame),
            EventFrame::Long(frame) => {
                let place = state.client.outbox.len();
                state.long_events.push((place, frame));
            }
        }
        state.update_buffered_bytes();
        self.stats.packets_sent(1);
        self.stats.bytes_sent(bytes as u64);
    }
}

impl SharedConnection for Connection {
    type Note = Option<MemoryReservation>;

    fn status(&self) -> &ConnectionStatus {
        self
    }

    fn with_client<T>(&self, step: impl FnOnce(&mut ClientConnection<Self::Note>) -> T) -> T {
        step(&mut self.lock().client)
    }

    fn wake(&self) {
        self.wake.notify_one();
    }
}

/// Gives access to the part of a connection that the simulator shares (crate `host`).
impl Deref for Connection {
    type Target = host::Connection<ConnectionState>;

    fn deref(&self) -> &host::Connection<ConnectionState> {
        &self.shared
    }
}

impl ConnectionState {
    /// Removes the output to write from the outbox. The previous output must already have been
    /// written.
    pub(crate) fn take_outbox(&mut self) -> Outgoing {
        let taken = Outgoing {
            frames: std::mem::take(&mut self.client.outbox),
            long_events: std::mem::take(&mut self.long_events),
        };
        let frame_bytes = taken.frames.len() - std::mem::take(&mut self.roomy_bytes);
        self.writing = BytesInWrite {
            bytes: frame_bytes + bytes_of(&taken.long_events),
            event_bytes: std::mem::take(&mut self.event_bytes),
        };
        self.update_buffered_bytes();
        taken
    }

    /// Recalculates the number of bytes that the connection holds. Called after the queue or the
    /// output has changed.
    pub(crate) fn update_buffered_bytes(&mut self) {
        let client = &self.client;
        let queued = client.queued_bytes()
            + client.waiting() * size_of::<Queued<Option<MemoryReservation>>>();
        let unsent = client.outbox.len() - self.roomy_bytes + self.writing.bytes;
        // A shared event counts in full for each connection, because any of them may be the last
        // one that holds it.
        let long_events = bytes_of(&self.long_events);
        self.buffered.set(queued + unsent + long_events);
    }

    /// Returns the number of bytes that the connection may hold, which is at most `max`.
    pub(crate) fn allowed(&self, max: usize) -> usize {
        self.buffered.allowed(max)
    }

    /// Records that the outbox begins with a reply of `bytes` that has its own memory reservation.
    pub(crate) fn note_reserved_reply(&mut self, bytes: usize) {
        self.roomy_bytes = bytes.min(self.client.outbox.len());
        self.update_buffered_bytes();
    }

    /// Returns the number of bytes that may be produced in advance, which is at most `max`.
    pub(crate) fn allowed_ahead(&self, max: usize) -> usize {
        self.buffered.allowed_ahead(max)
    }

    /// Returns whether a queued read holds a memory reservation, which other connections may need.
    pub(crate) fn has_frame_reservation(&self) -> bool {
        let has_reservation = |queued: &Queued<Option<MemoryReservation>>| {
            let QueuedWork::Read { note, .. } = &queued.work else {
                return false;
            };
            note.is_some()
        };
        self.client.requests().any(has_reservation)
    }

    /// Drops all requests without answering them.
    pub(crate) fn drop_requests(&mut self) {
        self.client.drop_requests();
        self.update_buffered_bytes();
    }

    /// Returns whether the connection has too many unanswered requests to read more.
    pub(crate) fn is_full(&self) -> bool {
        self.client.waiting() >= limits::UNANSWERED_MAX
            || self.client.queued_bytes() >= self.buffered.allowed(limits::UNANSWERED_BYTES_MAX)
    }
}
