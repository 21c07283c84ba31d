//! A disk: a log with a synced part, a snapshot, two epoch files.

use proto::{Epoch, Zxid};
use zab::Record;

use crate::rng::Rng;

#[derive(Default, Clone)]
pub(crate) struct Disk {
    pub(crate) log: Vec<Record>,
    pub(crate) synced_len: usize,
    pub(crate) snapshot: Vec<Record>,
    pub(crate) accepted_epoch: Epoch,
    pub(crate) current_epoch: Epoch,
}

impl Disk {
    /// The whole history, as recovery reads it.
    pub(crate) fn load(&self) -> Vec<Record> {
        self.history(self.log.len())
    }

    /// What would be left if the power went out now, at worst.
    pub(crate) fn durable(&self) -> Vec<Record> {
        self.history(self.synced_len)
    }

    fn history(&self, log_len: usize) -> Vec<Record> {
        let mut history = self.snapshot.clone();
        for record in &self.log[..log_len] {
            if history.last().is_none_or(|last| last.zxid < record.zxid) {
                history.push(record.clone());
            }
        }
        history
    }

    pub(crate) fn crash(&mut self, rng: &mut Rng) {
        let unsynced = self.log.len() - self.synced_len;
        let kept = self.synced_len + rng.below(unsynced + 1);
        self.log.truncate(kept);
    }

    pub(crate) fn sync(&mut self) {
        self.synced_len = self.log.len();
    }

    /// Changes nothing if this cannot be done.
    pub(crate) fn truncate(&mut self, zxid: Zxid) {
        let is_held = self.load().iter().any(|record| record.zxid == zxid) || zxid == Zxid::ZERO;
        if !is_held || self.snapshot.last().is_some_and(|last| last.zxid > zxid) {
            return;
        }
        self.log.retain(|record| record.zxid <= zxid);
        self.sync();
    }
}
