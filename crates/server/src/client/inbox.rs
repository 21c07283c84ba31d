//! What connections tell the core.

use std::sync::Arc;

use replica::{ClientRequest, Renewal, SyncRequest, Ticket};

use super::connection::Connection;

/// A message of a connection.
pub(crate) enum ClientMessage {
    /// Order these requests of one connection, which came together.
    Submit {
        /// Who waits for the replies.
        connection: Arc<Connection>,
        /// When they came in, monotonic ms.
        received_ms: u64,
        /// Oldest first.
        requests: Vec<ClientRequest>,
    },
    /// A client's `sync`.
    Sync(Arc<Connection>, SyncRequest),
    /// A client came back with a session.
    Renew(Arc<Connection>, Renewal),
    /// A connection has ended: nobody waits for an answer there any more.
    Gone(Ticket),
}

/// The way to the core. Once that is gone messages are lost: the server is ending and nobody waits
/// for an answer.
pub(crate) trait CoreInbox: Send + Sync {
    /// Leaves a message for the core's own thread.
    fn send(&self, message: ClientMessage);

    /// Leaves a message; [`CoreInbox::run_inline`] must follow soon.
    fn put(&self, message: ClientMessage);

    /// Lets the core work on what waits, here if it is free. No lock may be held.
    fn run_inline(&self);
}
