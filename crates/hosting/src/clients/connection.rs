//! What is kept of a client's connection.

use std::ops::Deref;

use parking_lot::{Mutex, MutexGuard};
use replica::connection::ClientConnection;
use tree::WatcherId;

use super::{Connected, Serving};

/// Whom a connection serves, and what its lock guards. A host that has more to say of a connection, or has
/// somebody to wake, puts this into a type of its own.
#[derive(Debug)]
pub struct Connection<S> {
    serving: Serving,
    state: Mutex<S>,
}

/// What the lock of a connection guards.
pub trait Guarded {
    /// What the host keeps with each read that waits.
    type Note;

    /// Requests without a reply, and frames for the socket.
    fn client(&mut self) -> &mut ClientConnection<Self::Note>;
}

impl<S> Connection<S> {
    /// One that has no session yet.
    pub fn new(id: WatcherId, state: S) -> Self {
        Self {
            serving: Serving::new(id),
            state: Mutex::new(state),
        }
    }

    /// Takes its lock; the tree's lock, if needed, must be held already.
    pub fn lock(&self) -> MutexGuard<'_, S> {
        self.state.lock()
    }
}

/// What is seen of it without its lock.
impl<S> Deref for Connection<S> {
    type Target = Serving;

    fn deref(&self) -> &Serving {
        &self.serving
    }
}

/// For a host that looks at all of them whenever something has happened.
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
