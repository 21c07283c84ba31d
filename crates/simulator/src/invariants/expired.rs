//! No session is told to be over while it lives: a client that hears so has a session whose end was
//! proposed, or that no other server knew of.

use std::collections::BTreeSet;

use proto::SessionId;
use proto::txn::{Txn, TxnRecord};

use super::Held;
use crate::history::History;

pub(crate) const NAME: &str = "no session is told to be over while it lives";

/// Sessions whose end was proposed. A leader refuses them from then on, as Apache ZooKeeper's does
/// (SessionTrackerImpl.setSessionClosing); whether the end is committed is seen later.
#[derive(Debug, Default)]
pub(crate) struct Ends(BTreeSet<SessionId>);

impl Ends {
    /// A leader proposes this.
    pub(crate) fn proposes(&mut self, txn: &TxnRecord) {
        if matches!(txn.txn, Txn::CloseSession { .. }) {
            self.0.insert(txn.header.session);
        }
    }

    /// A client is told that its session is over.
    pub(crate) fn told_over(&self, session: SessionId, history: &History) -> Held {
        // What was never committed was local, or made while there was no leader.
        if self.0.contains(&session) || !history.sessions.contains(&session) {
            return Ok(());
        }
        Err(format!(
            "session {session} is told to be over, and nobody has proposed its end"
        ))
    }
}
