//! A session is over when it is, and not before: a client that hears so has a session whose end was
//! proposed, or that no other server knew of; and a session without a client does not stay.

use std::collections::BTreeSet;

use proto::SessionId;
use proto::txn::{Txn, TxnRecord};

use super::Held;
use crate::history::History;

pub(crate) const NAME: &str = "sessions are over when they are";

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

/// All has been quiet for longer than any session lives; clients have these.
pub(crate) fn at_the_end(of_clients: &[SessionId], history: &History) -> Held {
    let mut left = history.sessions.iter();
    match left.find(|session| !of_clients.contains(session)) {
        Some(session) => Err(format!("session {session} lives, and nobody has it")),
        None => Ok(()),
    }
}
