//! Part of a client's connection that all threads can read.

use std::sync::atomic::Ordering;

use executor::sync::AtomicBool;
use executor::{Atomic as _, Primitives, Threads};
use proto::SessionId;
use replica::Ticket;
use replica::connection::ClientConnection;
use tree::WatcherId;

/// Session and its timeout. A thread that finds the session also finds the timeout.
#[derive(Debug)]
pub struct SessionCell<P: Primitives = Threads> {
    session: P::Number,
    timeout_ms: P::Number,
}

impl<P: Primitives> Default for SessionCell<P> {
    fn default() -> Self {
        Self {
            session: P::Number::new(SessionId::NONE.0),
            timeout_ms: P::Number::new(0),
        }
    }
}

impl<P: Primitives> SessionCell<P> {
    /// Sets the session, and its timeout in ms.
    pub fn set(&self, session: SessionId, timeout_ms: i32) {
        self.timeout_ms.store(timeout_ms.into(), Ordering::Relaxed);
        self.session.store(session.0, Ordering::Release);
    }

    /// Returns the session, or [`SessionId::NONE`] before it is set.
    pub fn session(&self) -> SessionId {
        SessionId(self.session.load(Ordering::Acquire))
    }

    /// Returns the timeout, ms. It is 0 before the session is set.
    pub fn timeout_ms(&self) -> i32 {
        // The value was converted from an i32.
        i32::try_from(self.timeout_ms.load(Ordering::Relaxed)).unwrap_or(0)
    }
}

/// Session of a connection, and whether the connection is open. This part is visible without the
/// connection's lock.
#[derive(Debug)]
pub struct ConnectionStatus {
    /// Number of the connection, which is not reused.
    pub id: WatcherId,
    session: SessionCell,
    read_only: AtomicBool,
    closed: AtomicBool,
}

impl ConnectionStatus {
    /// Creates the state of a connection without a session.
    pub fn new(id: WatcherId) -> Self {
        Self {
            id,
            session: SessionCell::default(),
            read_only: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }
    }

    /// Returns the number of the connection in the replica.
    pub fn ticket(&self) -> Ticket {
        Ticket(self.id.0)
    }

    /// Returns the session, or [`SessionId::NONE`] before the end of the handshake.
    pub fn session(&self) -> SessionId {
        self.session.session()
    }

    /// Returns the negotiated timeout, ms.
    pub fn timeout_ms(&self) -> i32 {
        self.session.timeout_ms()
    }

    pub(super) fn set_session(&self, session: SessionId, timeout_ms: i32) {
        self.session.set(session, timeout_ms);
    }

    /// Returns whether the handshake took place without a leader. In that case only reads are
    /// answered, and the connection ends when a leader is elected.
    pub fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Relaxed)
    }

    pub(super) fn set_read_only(&self) {
        self.read_only.store(true, Ordering::Relaxed);
    }

    /// Returns whether the connection must no longer be read or answered.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

/// A client's connection, shared by the thread that moves its bytes and the threads that answer it.
/// The order of locks is: tree, connection, then watches or sessions. Events and replies to writes
/// are put into outboxes while the tree is held exclusively. Reads are answered while it is held
/// shared. An event is therefore in the outbox before any reply that would reveal its change.
pub trait SharedConnection {
    /// Data that the host keeps with a waiting read.
    type Note;

    /// Returns the part that is visible without the connection's lock.
    fn status(&self) -> &ConnectionStatus;

    /// Calls `step` while holding the connection's lock.
    fn with_client<T>(&self, step: impl FnOnce(&mut ClientConnection<Self::Note>) -> T) -> T;

    /// Wakes the task that moves the connection's bytes.
    fn wake(&self);

    /// Ends the connection without sending its outbox. Its host removes it a little later.
    fn close(&self) {
        self.status().closed.store(true, Ordering::Release);
        self.wake();
    }
}
