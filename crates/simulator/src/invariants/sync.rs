//! What `sync` promises: whoever has its answer reads from a tree that has every write of which any
//! client had heard when the `sync` was sent.
//!
//! The leader answers without asking a quorum, as Apache ZooKeeper's does (Leader.processSync). One
//! that was deposed and does not know it promises only what it knows itself: its answers are told
//! apart by their epoch, and are not judged.

use std::collections::BTreeMap;

use proto::{Epoch, SessionId, Sid, Zxid};

use super::Held;

/// Every sync that was asked for.
#[derive(Debug, Default)]
pub(crate) struct Syncs(BTreeMap<(SessionId, i32), Asked>);

#[derive(Debug)]
struct Asked {
    /// The newest epoch when it was sent.
    epoch: Epoch,
    /// The last write of which anybody had heard by then.
    acknowledged: Zxid,
    is_current: bool,
}

impl Syncs {
    pub(crate) const NAME: &str = "a sync shows what was acknowledged before";

    /// A client sends one.
    pub(crate) fn asks(&mut self, by: (SessionId, i32), epoch: Epoch, acknowledged: Zxid) {
        let asked = Asked {
            epoch,
            acknowledged,
            is_current: false,
        };
        self.0.insert(by, asked);
    }

    /// A server that is in sync with the leader of `epoch`, and whose tree ends at `last`, answers.
    pub(crate) fn answers(
        &mut self,
        sid: Sid,
        by: (SessionId, i32),
        epoch: Epoch,
        last: Zxid,
    ) -> Held {
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
            by.1, by.0, asked.acknowledged
        ))
    }

    /// Whether it was answered by the newest leader of its time.
    pub(crate) fn is_current(&self, by: (SessionId, i32)) -> bool {
        self.0.get(&by).is_some_and(|asked| asked.is_current)
    }
}
