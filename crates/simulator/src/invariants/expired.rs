//! Sessions expire in time, and not early. If a client learns that its session is over, the end of
//! the session was proposed, or no other server knew the session. A session without a client does
//! not remain.

use std::collections::BTreeSet;

use proto::SessionId;
use proto::txn::{Txn, TxnRecord};

use super::CheckResult;
use crate::history::History;

pub(crate) const NAME: &str = "expired sessions have ended";

/// Sessions whose end was proposed. From then on a leader refuses them, as Apache ZooKeeper's
/// leader does (SessionTrackerImpl.setSessionClosing). Another check covers the commit of the end.
#[derive(Debug, Default)]
pub(crate) struct Ends(BTreeSet<SessionId>);

impl Ends {
    /// Records a proposal of a leader.
    pub(crate) fn proposes(&mut self, txn: &TxnRecord) {
        if matches!(txn.txn, Txn::CloseSession { .. }) {
            self.0.insert(txn.header.session);
        }
    }

    /// Checks that a session is over when its client learns this from a server.
    pub(crate) fn told_over(&self, session: SessionId, history: &History) -> CheckResult {
        // A session without a committed transaction was local, or was created without a leader.
        if self.0.contains(&session) || !history.sessions.contains(&session) {
            return Ok(());
        }
        Err(format!(
            "session {session} was reported as expired, but no leader proposed its end"
        ))
    }
}

/// Checks the remaining sessions after a quiet time longer than every session timeout. The sessions
/// `of_clients` have clients and may remain.
pub(crate) fn at_the_end(of_clients: &[SessionId], history: &History) -> CheckResult {
    let mut left = history.sessions.iter();
    match left.find(|session| !of_clients.contains(session)) {
        Some(session) => Err(format!(
            "session {session} still exists after its timeout, without a client"
        )),
        None => Ok(()),
    }
}
