//! What must hold, whatever happens.

use std::collections::BTreeMap;

use proto::{Epoch, Sid, Zxid};
use zab::Record;

use crate::disk::Disk;

/// What the ensemble has promised so far.
#[derive(Default)]
pub(crate) struct Promises {
    /// Every committed transaction, in order.
    pub(crate) committed: Vec<Record>,
    leaders: BTreeMap<Epoch, Sid>,
}

impl Promises {
    /// At most one established leader an epoch, and it has everything that was ever committed.
    pub(crate) fn leads(&mut self, sid: Sid, epoch: Epoch, tree: &[Record]) -> Result<(), String> {
        if let Some(other) = self.leaders.insert(epoch, sid) {
            return Err(format!("{sid} and {other} lead in epoch {epoch}"));
        }
        if !tree.starts_with(&self.committed) {
            return Err(format!(
                "{sid} leads in epoch {epoch} with {}, committed is {}",
                show(tree),
                show(&self.committed)
            ));
        }
        self.committed = tree.to_vec();
        Ok(())
    }

    /// A leader has committed the last transaction of its tree.
    pub(crate) fn commits(&mut self, sid: Sid, tree: &[Record]) -> Result<(), String> {
        if let Some((last, before)) = tree.split_last()
            && before == self.committed
        {
            self.committed.push(last.clone());
            return Ok(());
        }
        let committed = show(&self.committed);
        Err(format!(
            "{sid} commits {}, committed is {committed}",
            show(tree)
        ))
    }

    /// A learner serves what is committed, and nothing else.
    pub(crate) fn serves(&self, sid: Sid, tree: &[Record]) -> Result<(), String> {
        if self.committed.starts_with(tree) {
            return Ok(());
        }
        let committed = show(&self.committed);
        Err(format!(
            "{sid} serves {}, committed is {committed}",
            show(tree)
        ))
    }

    /// What a learner acknowledges survives a crash that comes right now.
    pub(crate) fn acknowledges(
        sid: Sid,
        zxid: Zxid,
        tree: &[Record],
        disk: &Disk,
    ) -> Result<(), String> {
        let durable = disk.durable();
        let is_kept = if zxid.counter() == 0 {
            disk.current_epoch == zxid.epoch() && durable.starts_with(tree)
        } else {
            durable.iter().any(|record| record.zxid == zxid)
        };
        let durable = show(&durable);
        is_kept
            .then_some(())
            .ok_or_else(|| format!("{sid} acknowledges {zxid} with {durable} on disk"))
    }
}

fn show(records: &[Record]) -> String {
    let tail = records.len().saturating_sub(6);
    let zxids = records[tail..].iter().map(|record| record.zxid.to_string());
    format!(
        "[{} .. {}]",
        records.len(),
        zxids.collect::<Vec<_>>().join(" ")
    )
}
