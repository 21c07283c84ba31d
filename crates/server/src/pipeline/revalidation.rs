//! Sessions that came to a learner from another server and wait for the leader's word.
//!
//! Source: ensemble-protocol.md 15.3 (Learner.validateSession).

use std::collections::HashMap;
use std::sync::Arc;

use proto::SessionId;

use crate::net::connection::Connection;

/// A client that came back with a session.
pub(crate) struct Revalidation {
    pub(crate) connection: Arc<Connection>,
    pub(crate) session: SessionId,
    /// Negotiated on this connection.
    pub(crate) timeout_ms: i32,
    /// Whether the client sent the read-only byte and so expects it back.
    pub(crate) new_style: bool,
}

/// Those that the leader was asked about.
#[derive(Default)]
pub(super) struct Revalidations {
    pending: HashMap<SessionId, Revalidation>,
}

impl Revalidations {
    /// Remembers one. A client that comes again before the answer has given up its older
    /// connection.
    pub(super) fn push(&mut self, revalidation: Revalidation) {
        let older = self.pending.insert(revalidation.session, revalidation);
        if let Some(older) = older {
            older.connection.close();
        }
    }

    /// Takes the one that the leader has answered.
    pub(super) fn take(&mut self, session: SessionId) -> Option<Revalidation> {
        self.pending.remove(&session)
    }
}
