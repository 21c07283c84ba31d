//! Sessions that have moved to a learner from another server and wait for the leader's answer.
//!
//! Source: Learner.validateSession.

use std::collections::HashMap;

use proto::SessionId;

use crate::interface::input::Renewal;

/// Queries that the leader has not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Renewals {
    pending: HashMap<SessionId, Renewal>,
}

impl Renewals {
    /// Adds a query. Returns an older query of the same session, if there is one. A client that
    /// returns again before the answer has abandoned its older connection.
    pub(crate) fn push(&mut self, renewal: Renewal) -> Option<Renewal> {
        self.pending.insert(renewal.session, renewal)
    }

    /// Removes and returns the query that the leader has answered.
    pub(crate) fn take(&mut self, session: SessionId) -> Option<Renewal> {
        self.pending.remove(&session)
    }
}
