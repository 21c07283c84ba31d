//! Per-session FIFO: requests take effect in the order in which they were sent, each at most once;
//! replies come in that order, and what a session has seen never goes back.

use std::collections::BTreeMap;

use proto::txn::TxnRecord;
use proto::{SessionId, Zxid};

use super::Held;
use crate::history::{has_failed, needs_no_session};

/// The newest request of each session that took effect.
#[derive(Debug, Default)]
pub(crate) struct Fifo(BTreeMap<SessionId, i32>);

impl Fifo {
    pub(crate) const NAME: &str = "per-session FIFO";

    pub(crate) fn committed(&mut self, txn: &TxnRecord) -> Held {
        let (session, cxid) = (txn.header.session, txn.header.cxid);
        // Such a request may have been long on its way.
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

/// A reply to `cxid` comes where `expected` is the oldest that is not answered.
pub(crate) fn replies(session: SessionId, cxid: i32, expected: Option<i32>) -> Held {
    if expected == Some(cxid) {
        return Ok(());
    }
    Err(format!(
        "session {session} is answered {cxid} where {expected:?} is next"
    ))
}

/// A reply shows a server that is at `zxid`; the session has seen `seen`.
pub(crate) fn sees(session: SessionId, zxid: Zxid, seen: Zxid) -> Held {
    if zxid >= seen {
        return Ok(());
    }
    Err(format!(
        "session {session} has seen {seen} and is answered as of {zxid}"
    ))
}
