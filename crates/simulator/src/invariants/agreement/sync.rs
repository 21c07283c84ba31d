//! Invariant: after the reply to a `sync`, a client reads from a tree that contains every write
//! that had been acknowledged to any client when the `sync` was sent.
//!
//! The leader replies without a quorum, as Apache ZooKeeper's leader does (Leader.processSync). A
//! deposed leader that does not know about its successor can guarantee only the writes that it
//! knows. The check recognises the replies of such a leader by their epoch and ignores them.

use std::collections::BTreeMap;

use proto::{Epoch, Sid, Zxid};

use crate::invariants::{CheckResult, RequestId};

/// All syncs that clients have requested.
#[derive(Debug, Default)]
pub(crate) struct Syncs(BTreeMap<RequestId, SentSync>);

#[derive(Debug)]
struct SentSync {
    /// Newest epoch when the sync was sent.
    epoch: Epoch,
    /// Last write that had been acknowledged to any client by then.
    acknowledged: Zxid,
    is_current: bool,
}

impl Syncs {
    pub(crate) const NAME: &str = "a sync shows earlier acknowledged writes";

    /// Records a sync sent by a client.
    pub(crate) fn asks(&mut self, by: RequestId, epoch: Epoch, acknowledged: Zxid) {
        let asked = SentSync {
            epoch,
            acknowledged,
            is_current: false,
        };
        self.0.insert(by, asked);
    }

    /// Checks the reply from a server that is in sync with the leader of `epoch` and whose tree
    /// ends at `last`.
    pub(crate) fn answers(
        &mut self,
        sid: Sid,
        by: RequestId,
        epoch: Epoch,
        last: Zxid,
    ) -> CheckResult {
        let Some(asked) = self.0.get_mut(&by) else {
            return Ok(());
        };
        asked.is_current = epoch >= asked.epoch;
        if !asked.is_current || last >= asked.acknowledged {
            return Ok(());
        }
        Err(format!(
            "server {sid} answers sync {} of session {} at {last}, but {} was acknowledged before it \
             was sent",
            by.cxid, by.session, asked.acknowledged
        ))
    }

    /// Returns whether the sync was answered in the epoch that was the newest when the sync was
    /// sent, or in a later epoch.
    pub(crate) fn is_current(&self, by: RequestId) -> bool {
        self.0.get(&by).is_some_and(|asked| asked.is_current)
    }
}
