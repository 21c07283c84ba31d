//! One client connection as the rest of the server sees it.
//!
//! What waits for what, and in which order replies leave, is `replica::connection`. The socket's task
//! answers reads with nothing in front of them; the core answers writes, and reads behind a write right
//! after it. Both fill the outbox, and the task writes all that waits by one syscall, or the core does, past
//! a task that waits (see [`AtOnce`]).
//!
//! Locks and their order are [`hosting::Connected`]'s.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hosting::{Connected, Serving};
use replica::connection::{ClientConnection, Identities, Queued, Work};
use tokio::sync::Notify;
use tree::WatcherId;

use super::at_once::AtOnce;
use super::budget_obeyed::Obeyed;
use super::held::{Held, HeldBytes};
use super::outgoing::{EventFrame, LongEvent, Outgoing, bytes_of};
use super::room::Room;
use super::sasl::Login;
use crate::metrics::ConnectionStats;
use crate::{clock, limits};

/// A client connection, shared by its socket task, the core thread and the registry.
pub(crate) struct Connection {
    pub(crate) peer: SocketAddr,
    pub(crate) stats: ConnectionStats,
    shared: hosting::Connection<ConnectionState>,
    /// Whether the queue begins with what its task has to answer. Changed under a hold of the tree.
    left_over: AtomicBool,
    wake: Notify,
}

/// What the lock of a connection guards.
pub(crate) struct ConnectionState {
    /// Requests without a reply, and the frames for the socket. Of a long read that waits, its frame's
    /// room.
    pub(crate) client: ClientConnection<Option<Room>>,
    /// Long events, with their places in the outbox.
    pub(super) long_events: Vec<LongEvent>,
    /// Bytes of events in the outbox and beside it.
    pub(super) event_bytes: usize,
    /// Bytes of a long reply among them, which has room of its own.
    pub(super) roomy_bytes: usize,
    /// What is taken from the outbox and is being written.
    pub(super) writing: Writing,
    pub(super) at_once: AtOnce,
    held: Held,
    /// The SASL login, once there is one: a connection has one, good or bad.
    pub(crate) sasl: Option<Box<Login>>,
    /// The budgets that it obeys; `None` until somebody asks for them.
    pub(super) obeyed: Option<Box<Obeyed>>,
}

/// Bytes on their way to the socket.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Writing {
    pub(super) bytes: usize,
    /// Of events among them.
    pub(super) event_bytes: usize,
}

impl Connection {
    pub(crate) fn new(
        id: WatcherId,
        peer: SocketAddr,
        identities: Identities,
        held: Arc<HeldBytes>,
    ) -> Self {
        let state = ConnectionState {
            client: ClientConnection::new(identities),
            long_events: Vec::new(),
            event_bytes: 0,
            roomy_bytes: 0,
            writing: Writing::default(),
            at_once: AtOnce::default(),
            held: Held::nothing(held),
            sasl: None,
            obeyed: None,
        };
        Self {
            shared: hosting::Connection::new(id, state),
            peer,
            stats: ConnectionStats::new(clock::wall_ms()),
            left_over: AtomicBool::new(false),
            wake: Notify::new(),
        }
    }

    /// Whether the task has something to answer that stands in front of all writes.
    pub(crate) fn has_left_over(&self) -> bool {
        self.left_over.load(Ordering::Relaxed)
    }

    /// Says whether it has, after requests were queued or answered under this hold of the tree.
    /// `count` is how many connections there are with such a queue.
    pub(crate) fn note_left_over(&self, state: &ConnectionState, count: &AtomicUsize) {
        let is_left_over = state.client.has_left_over();
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

    /// Waits for [`Connected::wake`] or [`Connected::close`]; one made earlier counts.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Appends an already encoded event for a watch that fired.
    ///
    /// A client that does not read cannot make the server hold its events for ever: beyond
    /// [`limits::UNREAD_EVENT_BYTES_MAX`], or less if all connections together hold a lot, the
    /// connection is given up.
    pub(crate) fn push_event(&self, frame: EventFrame<'_>) {
        let mut state = self.lock();
        if self.is_closed() {
            return;
        }
        let unread = state.event_bytes + state.writing.event_bytes;
        let max = state.held.allowed(limits::UNREAD_EVENT_BYTES_MAX);
        // One event is taken whatever its length: a client that reads gets it.
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
        state.note_held();
        self.stats.packets_sent(1);
        self.stats.bytes_sent(bytes as u64);
    }
}

impl Connected for Connection {
    type Note = Option<Room>;

    fn serving(&self) -> &Serving {
        self
    }

    fn with_client<T>(&self, step: impl FnOnce(&mut ClientConnection<Self::Note>) -> T) -> T {
        step(&mut self.lock().client)
    }

    fn wake(&self) {
        self.wake.notify_one();
    }
}

/// What every host has of it.
impl Deref for Connection {
    type Target = hosting::Connection<ConnectionState>;

    fn deref(&self) -> &hosting::Connection<ConnectionState> {
        &self.shared
    }
}

impl ConnectionState {
    /// Takes what is to be written, once what was taken before is.
    pub(crate) fn take_outbox(&mut self) -> Outgoing {
        let taken = Outgoing {
            frames: std::mem::take(&mut self.client.outbox),
            long_events: std::mem::take(&mut self.long_events),
        };
        let frame_bytes = taken.frames.len() - std::mem::take(&mut self.roomy_bytes);
        self.writing = Writing {
            bytes: frame_bytes + bytes_of(&taken.long_events),
            event_bytes: std::mem::take(&mut self.event_bytes),
        };
        self.note_held();
        taken
    }

    /// Has what the connection holds counted, after requests were queued or answered.
    pub(crate) fn note_held(&mut self) {
        let client = &self.client;
        let queued = client.queued_bytes() + client.waiting() * size_of::<Queued<Option<Room>>>();
        let unsent = client.outbox.len() - self.roomy_bytes + self.writing.bytes;
        // Whoever shares an event is counted with all of it: it may be the last who holds it.
        let long_events = bytes_of(&self.long_events);
        self.held.set(queued + unsent + long_events);
    }

    /// Bytes that it may hold, as long as it is not more than `max`.
    pub(crate) fn allowed(&self, max: usize) -> usize {
        self.held.allowed(max)
    }

    /// The outbox begins with, or is, a reply for which there was other room than what all hold.
    pub(crate) fn note_roomy(&mut self, bytes: usize) {
        self.roomy_bytes = bytes.min(self.client.outbox.len());
        self.note_held();
    }

    /// Bytes that may be made ahead, as long as it is not more than `max`.
    pub(crate) fn allowed_ahead(&self, max: usize) -> usize {
        self.held.allowed_ahead(max)
    }

    /// Whether it has room of which others may be in want.
    pub(crate) fn has_frame_room(&self) -> bool {
        let has_room = |queued: &Queued<Option<Room>>| {
            let Work::Read { note, .. } = &queued.work else {
                return false;
            };
            note.is_some()
        };
        self.client.requests().any(has_room)
    }

    /// Drops all requests: nobody is to be answered.
    pub(crate) fn drop_requests(&mut self) {
        self.client.drop_requests();
        self.note_held();
    }

    /// Whether so much is unanswered that nothing more should be read.
    pub(crate) fn is_full(&self) -> bool {
        self.client.waiting() >= limits::UNANSWERED_MAX
            || self.client.queued_bytes() >= self.held.allowed(limits::UNANSWERED_BYTES_MAX)
    }
}
