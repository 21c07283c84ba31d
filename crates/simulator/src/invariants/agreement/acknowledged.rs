//! Invariant: no acknowledged write is lost. A write that timed out may or may not have been
//! executed.

use std::collections::BTreeMap;

use proto::{SessionId, Sid, Zxid};

use crate::history::History;
use crate::invariants::CheckResult;

/// Writes that were acknowledged to clients.
#[derive(Debug, Default)]
pub(crate) struct Acknowledged(BTreeMap<Zxid, (SessionId, i32)>);

impl Acknowledged {
    pub(crate) const NAME: &str = "acknowledged writes are not lost";

    /// Records that a request was acknowledged to a client as `zxid`, and checks that the
    /// transaction belongs to this request.
    pub(crate) fn acknowledge(
        &mut self,
        zxid: Zxid,
        session: SessionId,
        cxid: i32,
        history: &History,
    ) -> CheckResult {
        self.0.insert(zxid, (session, cxid));
        let header = history.at(zxid).map(|entry| entry.txn.header);
        if header.is_some_and(|header| (header.session, header.cxid) == (session, cxid)) {
            return Ok(());
        }
        Err(format!(
            "request {cxid} of session {session} is acknowledged as {zxid}, which belongs to another request"
        ))
    }

    /// Checks the history of a server that has established its epoch. The history ends at `last`.
    /// The commits of earlier epochs end at `end`.
    pub(crate) fn leads(&self, sid: Sid, last: Zxid, end: Zxid) -> CheckResult {
        if last >= end {
            return Ok(());
        }
        let lost = self.0.range(last.next()..).next();
        let lost = lost.map_or("no acknowledged write".into(), |(zxid, (session, cxid))| {
            format!("{zxid}, the acknowledged request {cxid} of session {session}")
        });
        Err(format!(
            "server {sid} leads with a history up to {last} instead of {end}; lost: {lost}"
        ))
    }

    /// Returns the zxid of the last acknowledged write, or 0 before the first one.
    pub(crate) fn newest(&self) -> Zxid {
        self.0
            .last_key_value()
            .map_or(Zxid::ZERO, |(zxid, _)| *zxid)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
