//! Messages from connections to the core.

use std::sync::Arc;

use replica::{ClientRequest, Renewal, SyncRequest, Ticket};

use crate::connection::Connection;

/// A message of a connection.
pub enum ClientMessage {
    /// Orders these requests of one connection, which arrived together.
    Submit {
        /// The connection that waits for the replies.
        connection: Arc<Connection>,
        /// Arrival time, monotonic ms.
        received_ms: u64,
        /// Requests, oldest first.
        requests: Vec<ClientRequest>,
    },
    /// A client's `sync`.
    Sync(Arc<Connection>, SyncRequest),
    /// A client renews a session.
    Renew(Arc<Connection>, Renewal),
    /// A connection has ended and does not wait for an answer any more.
    Gone(Ticket),
}

/// Channel to the core. After the core has ended, messages are lost: the server is stopping, and
/// clients do not wait for answers.
pub trait CoreInbox: Send + Sync {
    /// Sends a message to the core's own thread.
    fn send(&self, message: ClientMessage);

    /// Enqueues a message; [`CoreInbox::run_inline`] must follow soon.
    fn put(&self, message: ClientMessage);

    /// Lets the core handle the waiting messages, on this thread if the core is free. Locks must
    /// not be held.
    fn run_inline(&self);
}
