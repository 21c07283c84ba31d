//! Invariant: no session has two owners. After a request from the newer connection of a session is
//! committed, no request from an older connection is committed.

use std::collections::BTreeMap;

use proto::SessionId;
use proto::txn::TxnRecord;

use crate::history::{has_failed, needs_no_session};
use crate::invariants::CheckResult;

/// Number of the connection within its session, for each request.
#[derive(Debug, Default)]
pub(crate) struct SessionOwner {
    asked: BTreeMap<(SessionId, i32), u64>,
    newest: BTreeMap<SessionId, u64>,
}

impl SessionOwner {
    pub(crate) const NAME: &str = "a session has one owner";

    /// Records a request. `connection` is the number of its connection within the session.
    pub(crate) fn asks(&mut self, session: SessionId, cxid: i32, connection: u64) {
        self.asked.insert((session, cxid), connection);
    }

    pub(crate) fn committed(&mut self, txn: &TxnRecord) -> CheckResult {
        let (session, cxid) = (txn.header.session, txn.header.cxid);
        if has_failed(&txn.txn) || needs_no_session(&txn.txn) {
            return Ok(());
        }
        let Some(connection) = self.asked.get(&(session, cxid)).copied() else {
            return Ok(());
        };
        let newest = self.newest.entry(session).or_insert(connection);
        if connection < *newest {
            return Err(format!(
                "request {cxid} of session {session} arrived over connection {connection}, but a request of connection {newest} was committed before it"
            ));
        }
        *newest = connection;
        Ok(())
    }
}
