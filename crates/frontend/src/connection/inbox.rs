//! Messages from connections to the core.

use std::sync::Arc;

use replica::{ClientRequest, Renewal, SyncRequest, Ticket};

use crate::connection::Connection;

/// Message from a connection to the core.
pub enum ClientMessage {
    /// Requests of one connection that arrived together and must be ordered.
    Submit {
        /// Connection that waits for the replies.
        connection: Arc<Connection>,
        /// Arrival time, in monotonic ms.
        received_ms: u64,
        /// Requests, oldest first.
        requests: Vec<ClientRequest>,
    },
    /// A client's `sync`.
    Sync(Arc<Connection>, SyncRequest),
    /// Renewal of a session by a client.
    Renew(Arc<Connection>, Renewal),
    /// A connection has ended, and no longer waits for answers.
    Gone(Ticket),
}

/// Channel to the core. After the core has ended, messages are dropped. The server is then
/// stopping, and no client waits for an answer.
pub trait CoreInbox: Send + Sync {
    /// Sends a message to the core's own thread.
    fn send(&self, message: ClientMessage);

    /// Enqueues a message. [`CoreInbox::run_inline`] must be called soon.
    fn put(&self, message: ClientMessage);

    /// Lets the core handle the waiting messages, on this thread if the core is free. No locks may
    /// be held.
    fn run_inline(&self);
}
