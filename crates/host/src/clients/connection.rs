//! State of a client's connection.

use std::ops::Deref;

use parking_lot::{Mutex, MutexGuard};
use replica::connection::ClientConnection;
use tree::WatcherId;

use super::serving::{Connected, Serving};

/// Session of a connection, and the state guarded by its lock. A host that has more state, or a
/// task to wake, wraps it in its own type.
#[derive(Debug)]
pub struct Connection<S> {
    serving: Serving,
    state: Mutex<S>,
}

/// State guarded by a connection's lock.
pub trait Guarded {
    /// Data that the host keeps with a waiting read.
    type Note;

    /// Requests without a reply, and frames for the socket.
    fn client(&mut self) -> &mut ClientConnection<Self::Note>;
}

impl<S> Connection<S> {
    /// Creates a connection without a session.
    pub fn new(id: WatcherId, state: S) -> Self {
        Self {
            serving: Serving::new(id),
            state: Mutex::new(state),
        }
    }

    /// Locks the state. If the lock of the tree is also needed, it must already be held.
    pub fn lock(&self) -> MutexGuard<'_, S> {
        self.state.lock()
    }
}

/// Returns the part that is visible without the lock.
impl<S> Deref for Connection<S> {
    type Target = Serving;

    fn deref(&self) -> &Serving {
        &self.serving
    }
}

/// Does nothing. This suits a host that checks all connections after each event.
impl<S: Guarded> Connected for Connection<S> {
    type Note = S::Note;

    fn serving(&self) -> &Serving {
        self
    }

    fn with_client<T>(&self, step: impl FnOnce(&mut ClientConnection<S::Note>) -> T) -> T {
        step(self.lock().client())
    }

    fn wake(&self) {}
}
