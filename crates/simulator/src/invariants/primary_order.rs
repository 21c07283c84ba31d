//! Primary order: what a leader proposes is committed in the order in which it was proposed, and
//! nothing of an earlier leader after it.

use std::collections::BTreeMap;

use bytes::Bytes;
use proto::{Epoch, Sid, Zxid};
use zab::Record;

use super::Held;

/// What was proposed in each epoch, and by whom.
#[derive(Debug, Default)]
pub(crate) struct PrimaryOrder(BTreeMap<Epoch, (Sid, Vec<Bytes>)>);

impl PrimaryOrder {
    pub(crate) const NAME: &str = "primary order";

    /// A leader proposes this.
    pub(crate) fn proposes(&mut self, sid: Sid, record: &Record) -> Held {
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
                "server {sid} proposes {} where {expected} is next",
                record.zxid
            ));
        }
        Ok(())
    }

    /// Proposals behind `end` of a history that ends at `last`. Whatever another epoch left behind
    /// was committed or dropped before the epoch of `last` had a proposal.
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

    /// A standalone server has started again, and its log ends at `last`. It uses the zxids after that again.
    pub(crate) fn forget_after(&mut self, last: Zxid) {
        if let Some((_, proposals)) = self.0.get_mut(&last.epoch()) {
            proposals.truncate(usize::try_from(last.counter()).unwrap_or(usize::MAX));
        }
    }

    /// This is committed behind `last`.
    pub(crate) fn commits(&self, record: &Record, last: Zxid) -> Held {
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
            return Err(format!("{zxid} is committed as nobody has proposed it"));
        }
        Ok(())
    }
}
