//! Invariant (FIFO order per session): requests take effect in the order in which they were sent,
//! each at most once. Replies arrive in that order, and the zxid that a session has seen never
//! decreases.

use std::collections::BTreeMap;

use proto::txn::TxnRecord;
use proto::{SessionId, Zxid};

use crate::history::{has_failed, needs_no_session};
use crate::invariants::CheckResult;

/// Last request of each session that took effect.
#[derive(Debug, Default)]
pub(crate) struct Fifo(BTreeMap<SessionId, i32>);

impl Fifo {
    pub(crate) const NAME: &str = "per-session FIFO";

    pub(crate) fn committed(&mut self, txn: &TxnRecord) -> CheckResult {
        let (session, cxid) = (txn.header.session, txn.header.cxid);
        // The order does not apply to transactions without an ordinary request (`cxid <= 0`), to
        // failed transactions, or to those that any session may request at any time.
        if cxid <= 0 || has_failed(&txn.txn) || needs_no_session(&txn.txn) {
            return Ok(());
        }
        let newest = self.0.entry(session).or_insert(0);
        if cxid <= *newest {
            return Err(format!(
                "request {cxid} of session {session} is committed after {newest}"
            ));
        }
        *newest = cxid;
        Ok(())
    }
}

/// Checks that a reply to `cxid` answers the oldest pending request, `expected`.
pub(crate) fn replies(session: SessionId, cxid: i32, expected: Option<i32>) -> CheckResult {
    if expected == Some(cxid) {
        return Ok(());
    }
    Err(format!(
        "session {session} receives the reply to {cxid} instead of {expected:?}"
    ))
}

/// Checks that a reply as of `zxid` is not older than `seen`, which the session has already seen.
pub(crate) fn sees(session: SessionId, zxid: Zxid, seen: Zxid) -> CheckResult {
    if zxid >= seen {
        return Ok(());
    }
    Err(format!(
        "session {session} has seen {seen} and receives a reply with the older zxid {zxid}"
    ))
}
