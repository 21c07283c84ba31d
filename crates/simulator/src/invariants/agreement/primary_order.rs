//! Invariant (primary order): proposals of a leader are committed in the order in which they were
//! proposed. No proposal of an earlier leader is committed after proposals of a later leader.

use std::collections::BTreeMap;

use bytes::Bytes;
use proto::{Epoch, Sid, Zxid};
use zab::Record;

use crate::invariants::CheckResult;

/// Leader and proposals of each epoch.
#[derive(Debug, Default)]
pub(crate) struct PrimaryOrder(BTreeMap<Epoch, (Sid, Vec<Bytes>)>);

impl PrimaryOrder {
    pub(crate) const NAME: &str = "primary order";

    /// Checks a proposal of a leader.
    pub(crate) fn proposes(&mut self, sid: Sid, record: &Record) -> CheckResult {
        let epoch = record.zxid.epoch();
        let (leader, proposals) = self.0.entry(epoch).or_insert((sid, Vec::new()));
        if *leader != sid {
            return Err(format!(
                "servers {leader} and {sid} propose in epoch {epoch}"
            ));
        }
        proposals.push(record.txn.clone());
        let expected = Zxid::new(epoch, u32::try_from(proposals.len()).unwrap_or(u32::MAX));
        if record.zxid != expected {
            return Err(format!(
                "server {sid} proposes {} instead of {expected}",
                record.zxid
            ));
        }
        Ok(())
    }

    /// Returns the proposals after `end` in a history that ends at `last`. All of them are from the
    /// epoch of `last`, because proposals of earlier epochs were committed or dropped before its
    /// first proposal.
    pub(crate) fn between(&self, end: Zxid, last: Zxid) -> Vec<Record> {
        let epoch = last.epoch();
        let proposals = self
            .0
            .get(&epoch)
            .map_or(&[][..], |(_, proposals)| proposals);
        let numbered = (1..)
            .map(|counter| Zxid::new(epoch, counter))
            .zip(proposals);
        let between = numbered.filter(|(zxid, _)| *zxid > end && *zxid <= last);
        between
            .map(|(zxid, txn)| Record::new(zxid, txn.clone()))
            .collect()
    }

    /// Removes the proposals of a restarted standalone server after `last`, where its log ends. The
    /// server uses their zxids again.
    pub(crate) fn forget_after(&mut self, last: Zxid) {
        if let Some((_, proposals)) = self.0.get_mut(&last.epoch()) {
            proposals.truncate(usize::try_from(last.counter()).unwrap_or(usize::MAX));
        }
    }

    /// Checks that a record may be committed directly after `last`.
    pub(crate) fn commits(&self, record: &Record, last: Zxid) -> CheckResult {
        let zxid = record.zxid;
        let is_next = if zxid.epoch() == last.epoch() {
            zxid == last.next()
        } else {
            zxid.epoch() > last.epoch() && zxid.counter() == 1
        };
        if !is_next {
            return Err(format!("{zxid} is committed after {last}"));
        }
        let proposed = self.0.get(&zxid.epoch()).and_then(|(_, proposals)| {
            let at = usize::try_from(zxid.counter()).ok()?.checked_sub(1)?;
            proposals.get(at)
        });
        if proposed != Some(&record.txn) {
            return Err(format!(
                "{zxid} is committed with content that no leader proposed"
            ));
        }
        Ok(())
    }
}
