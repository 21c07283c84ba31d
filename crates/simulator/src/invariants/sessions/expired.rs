//! Invariant: sessions expire in time, and not early. If a client learns that its session is over,
//! the end of the session has been proposed, or the server could not know the session. A session
//! without a client does not remain.
//!
//! A leader that has lost its quorum without noticing it still answers. It does not know the
//! sessions of later epochs and reports them as expired, as Apache ZooKeeper's leader does
//! (LeaderZooKeeperServer.revalidateSession).

use std::collections::{BTreeMap, BTreeSet};

use proto::txn::{Txn, TxnRecord};
use proto::{Epoch, SessionId, Sid};

use crate::history::History;
use crate::invariants::CheckResult;

pub(crate) const NAME: &str = "expired sessions have ended";

#[derive(Debug, Default)]
pub(crate) struct Ends {
    /// Sessions whose end was proposed. From then on a leader refuses them, as Apache ZooKeeper's
    /// leader does (SessionTrackerImpl.setSessionClosing). [`at_the_end`] finds sessions whose end
    /// was never committed.
    proposed: BTreeSet<SessionId>,
    /// Epoch in which each server serves clients, or last served them.
    epochs: BTreeMap<Sid, Epoch>,
}

impl Ends {
    /// Records a proposal of a leader.
    pub(crate) fn proposes(&mut self, txn: &TxnRecord) {
        if matches!(txn.txn, Txn::CloseSession { .. }) {
            self.proposed.insert(txn.header.session);
        }
    }

    /// Records that a server begins to serve clients in an epoch.
    pub(crate) fn serves(&mut self, sid: Sid, epoch: Epoch) {
        self.epochs.insert(sid, epoch);
    }

    /// Returns whether a server must know a session, which is the case if the session is committed
    /// and was created in the server's epoch or earlier.
    pub(crate) fn must_know(&self, sid: Sid, session: SessionId, history: &History) -> bool {
        let created = history.sessions.get(&session);
        created.is_some_and(|created| self.epochs.get(&sid) >= Some(created))
    }

    /// Checks that the end of a session has been proposed when a server reports it to the client.
    pub(crate) fn told_over(&self, session: SessionId, history: &History) -> CheckResult {
        // A session without a committed transaction was local or was created without a leader.
        if self.proposed.contains(&session) || !history.sessions.contains_key(&session) {
            return Ok(());
        }
        Err(format!(
            "session {session} was reported as expired, but no leader proposed its end"
        ))
    }
}

/// Checks the remaining sessions after a quiet time longer than every session timeout. The sessions
/// in `of_clients` have clients and may remain.
pub(crate) fn at_the_end(of_clients: &[SessionId], history: &History) -> CheckResult {
    let mut left = history.sessions.keys();
    match left.find(|session| !of_clients.contains(session)) {
        Some(session) => Err(format!(
            "session {session} still exists after its timeout, without a client"
        )),
        None => Ok(()),
    }
}
