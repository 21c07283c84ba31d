//! A client's connection as all that serve it see it.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering};

use proto::SessionId;
use replica::Ticket;
use replica::connection::ClientConnection;
use tree::WatcherId;

/// Whom a connection serves, and whether it still does: what is seen of it without its lock.
#[derive(Debug)]
pub struct Serving {
    /// Its number, which no other one ever has.
    pub id: WatcherId,
    session: AtomicI64,
    timeout_ms: AtomicI32,
    read_only: AtomicBool,
    closed: AtomicBool,
}

impl Serving {
    /// Of a connection that has no session yet.
    pub fn new(id: WatcherId) -> Self {
        Self {
            id,
            session: AtomicI64::new(0),
            timeout_ms: AtomicI32::new(0),
            read_only: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }
    }

    /// Its number towards the replica.
    pub fn ticket(&self) -> Ticket {
        Ticket(self.id.0)
    }

    /// The session, [`SessionId::NONE`] before the handshake is through.
    pub fn session(&self) -> SessionId {
        SessionId(self.session.load(Ordering::Acquire))
    }

    /// The negotiated timeout, ms.
    pub fn timeout_ms(&self) -> i32 {
        self.timeout_ms.load(Ordering::Relaxed)
    }

    pub(super) fn set_session(&self, session: SessionId, timeout_ms: i32) {
        self.timeout_ms.store(timeout_ms, Ordering::Relaxed);
        self.session.store(session.0, Ordering::Release);
    }

    /// Whether there was no leader at the handshake: nothing but reads is answered, and the connection
    /// ends when there is one.
    pub fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Relaxed)
    }

    pub(super) fn set_read_only(&self) {
        self.read_only.store(true, Ordering::Relaxed);
    }

    /// Whether nothing more is to be read or answered.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

/// A client's connection, shared by whoever moves its bytes and whoever answers it.
///
/// Locks are taken in this order: the tree, a connection's, then watches or sessions. Events and the
/// replies to writes are put into outboxes while the tree is held alone, and reads are answered while it
/// is held shared: an event is in the outbox before any reply that would reveal its change.
pub trait Connected {
    /// What the host keeps with each read that waits.
    type Note;

    /// What is seen without its lock.
    fn serving(&self) -> &Serving;

    /// Holds its lock for this.
    fn with_client<T>(&self, step: impl FnOnce(&mut ClientConnection<Self::Note>) -> T) -> T;

    /// Whoever moves its bytes is to look at it again.
    fn wake(&self);

    /// Ends it without sending what is in the outbox. Its host forgets it a little later.
    fn close(&self) {
        self.serving().closed.store(true, Ordering::Release);
        self.wake();
    }
}
