//! Sessions that came to a learner from another server and wait for the leader's word.
//!
//! Source: Learner.validateSession.

use std::collections::HashMap;

use proto::SessionId;

use crate::input::Renewal;

/// Those that the leader was asked about.
#[derive(Debug, Default)]
pub(crate) struct Renewals {
    pending: HashMap<SessionId, Renewal>,
}

impl Renewals {
    /// Remembers one. A client that comes again before the answer has given up its older connection,
    /// which is given back.
    pub(crate) fn push(&mut self, renewal: Renewal) -> Option<Renewal> {
        self.pending.insert(renewal.session, renewal)
    }

    /// Takes the one that the leader has answered.
    pub(crate) fn take(&mut self, session: SessionId) -> Option<Renewal> {
        self.pending.remove(&session)
    }
}
