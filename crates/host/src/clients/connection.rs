//! State of a client's connection.

use std::ops::Deref;

use executor::sync::{Mutex, MutexGuard};
use replica::connection::ClientConnection;
use tree::WatcherId;

use super::status::{ConnectionStatus, SharedConnection};

/// Session of a connection, and the state guarded by its lock. A host that has more state, or a
/// task to wake, wraps the connection in its own type.
#[derive(Debug)]
pub struct Connection<S> {
    status: ConnectionStatus,
    state: Mutex<S>,
}

/// State guarded by the lock of a connection that has no task of its own. `N` is the host's data
/// about a waiting read.
#[derive(Debug)]
pub struct LockedState<N, S> {
    /// Requests without a reply, and frames for the socket.
    pub client: ClientConnection<N>,
    /// Further state, defined by the host.
    pub own: S,
}

impl<S> Connection<S> {
    /// Creates a connection without a session.
    pub fn new(id: WatcherId, state: S) -> Self {
        Self {
            status: ConnectionStatus::new(id),
            state: Mutex::new(state),
        }
    }

    /// Locks the state. If the lock of the tree is also needed, it must already be held.
    pub fn lock(&self) -> MutexGuard<'_, S> {
        self.state.lock()
    }
}

/// Access to the part that is visible without the lock.
impl<S> Deref for Connection<S> {
    type Target = ConnectionStatus;

    fn deref(&self) -> &ConnectionStatus {
        &self.status
    }
}

/// `wake` does nothing, because the host checks all connections after each event.
impl<N, S> SharedConnection for Connection<LockedState<N, S>> {
    type Note = N;

    fn status(&self) -> &ConnectionStatus {
        self
    }

    fn with_client<T>(&self, step: impl FnOnce(&mut ClientConnection<N>) -> T) -> T {
        step(&mut self.lock().client)
    }

    fn wake(&self) {}
}
