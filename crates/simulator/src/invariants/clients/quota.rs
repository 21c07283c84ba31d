//! Invariant: a hard quota limits the usage that was applied when a transaction was prepared. It
//! does not count pending transactions.
//!
//! As in Apache ZooKeeper (ZooKeeperServer.checkQuota), each znode that a transaction creates is
//! checked against the usage in the tree of the leader that prepares the transaction. Proposals
//! that the leader has not applied do not count. Earlier operations of the same multi do not count
//! either. Therefore, all znodes that are pending simultaneously can exceed a quota together. The
//! usage then stays above the quota, and no further znode can be added.

use std::collections::BTreeMap;

use proto::Zxid;
use proto::txn::{Txn, TxnRecord};

use crate::history::{History, has_failed};
use crate::invariants::CheckResult;

/// Znode that has the quota, and the znodes that contain its limits and its usage.
const ROOT: &str = "/b";
const LIMITS: &str = "/zookeeper/quota/b/zookeeper_limits";
const STATS: &str = "/zookeeper/quota/b/zookeeper_stats";

/// End of the leader's tree when it proposed each transaction that creates a znode below the root
/// of the quota.
#[derive(Debug, Default)]
pub(crate) struct Quota(BTreeMap<Zxid, Zxid>);

impl Quota {
    pub(crate) const NAME: &str = "a hard quota holds";

    /// Records a proposal by a leader whose tree ends at `applied`.
    pub(crate) fn proposes(&mut self, txn: &TxnRecord, applied: Zxid) {
        if creates_below(txn) {
            self.0.insert(txn.header.zxid, applied);
        }
    }

    /// Checks the last transaction of the history.
    pub(crate) fn committed(&mut self, txn: &TxnRecord, history: &History) -> CheckResult {
        let zxid = txn.header.zxid;
        let Some(applied) = self.0.remove(&zxid) else {
            return Ok(());
        };
        let limits = history.get(LIMITS, applied);
        let limit = limits.and_then(|node| hard_count(node.data.as_deref()?));
        // If no usage is stored, there is no value to compare.
        let (Some(limit), Some(_)) = (limit, history.get(STATS, applied)) else {
            return Ok(());
        };
        let root = usize::from(history.get(ROOT, applied).is_some());
        let count = root + history.descendants(ROOT, applied).count();
        if count < limit {
            return Ok(());
        }
        Err(format!(
            "{ROOT} had {count} znodes at {applied}, and {zxid}, which was prepared later, creates more; the hard limit is {limit}"
        ))
    }
}

fn creates_below(txn: &TxnRecord) -> bool {
    let parts = match &txn.txn {
        Txn::Multi(txns) if !has_failed(&txn.txn) => &txns[..],
        txn => std::slice::from_ref(txn),
    };
    let is_below = |path: &str| {
        path.strip_prefix(ROOT)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    parts.iter().any(|txn| match txn {
        Txn::Create(create) | Txn::Create2(create) => is_below(&create.path),
        _ => false,
    })
}

fn hard_count(data: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(data).ok()?;
    let count = text.split("countHardLimit=").nth(1)?;
    count.split([',', ';', '=']).next()?.parse().ok()
}
