//! Invariant: there is at most one leader per epoch.

use std::collections::BTreeMap;

use proto::{Epoch, Sid};

use crate::invariants::CheckResult;

/// Leader of each epoch.
#[derive(Debug, Default)]
pub(crate) struct OneLeader(BTreeMap<Epoch, Sid>);

impl OneLeader {
    pub(crate) const NAME: &str = "one leader per epoch";

    /// Checks a server that has established an epoch.
    pub(crate) fn leads(&mut self, sid: Sid, epoch: Epoch) -> CheckResult {
        match self.0.insert(epoch, sid) {
            Some(other) => Err(format!("servers {other} and {sid} lead in epoch {epoch}")),
            None => Ok(()),
        }
    }

    /// Returns the newest epoch that had a leader.
    pub(crate) fn newest(&self) -> Epoch {
        self.0
            .last_key_value()
            .map_or(Epoch(0), |(epoch, _)| *epoch)
    }

    /// Returns the number of epochs that had a leader.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
