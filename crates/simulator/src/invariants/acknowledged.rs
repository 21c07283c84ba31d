//! Nothing acknowledged is lost. A write that timed out is neither: it may have happened or not.

use std::collections::BTreeMap;

use proto::{SessionId, Sid, Zxid};

use super::Held;
use crate::history::History;

/// Writes that clients were told to be done.
#[derive(Debug, Default)]
pub(crate) struct Acknowledged(BTreeMap<Zxid, (SessionId, i32)>);

impl Acknowledged {
    pub(crate) const NAME: &str = "nothing acknowledged is lost";

    /// A client was told that its request is done as `zxid`.
    pub(crate) fn acknowledge(
        &mut self,
        zxid: Zxid,
        session: SessionId,
        cxid: i32,
        history: &History,
    ) -> Held {
        self.0.insert(zxid, (session, cxid));
        let header = history.at(zxid).map(|entry| entry.txn.header);
        if header.is_some_and(|header| (header.session, header.cxid) == (session, cxid)) {
            return Ok(());
        }
        Err(format!(
            "request {cxid} of session {session} is acknowledged as {zxid}, which it is not"
        ))
    }

    /// A server has established its history, which ends at `last`; what was committed in earlier
    /// epochs ends at `end`.
    pub(crate) fn leads(&self, sid: Sid, last: Zxid, end: Zxid) -> Held {
        if last >= end {
            return Ok(());
        }
        let lost = self.0.range(last.next()..).next();
        let lost = lost.map_or("nothing acknowledged".into(), |(zxid, (session, cxid))| {
            format!("{zxid}, request {cxid} of session {session}, acknowledged")
        });
        Err(format!(
            "server {sid} leads with history up to {last}, committed is {end}; lost: {lost}"
        ))
    }

    /// The last write of which anybody has heard.
    pub(crate) fn newest(&self) -> Zxid {
        self.0
            .last_key_value()
            .map_or(Zxid::ZERO, |(zxid, _)| *zxid)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
