//! A hard quota holds: of what was applied when a transaction was prepared, not of what was under way.
//!
//! As in Apache ZooKeeper (ZooKeeperServer.checkQuota) each znode of a transaction is judged by the
//! usage in the tree of the leader that prepares it. What that leader has proposed and not applied
//! does not count, nor does what stands before it in its multi. So a quota can be exceeded by as many
//! znodes as are under way at once, and stays exceeded; nothing is added to it then.

use std::collections::BTreeMap;

use proto::Zxid;
use proto::txn::{Txn, TxnRecord};

use super::Held;
use crate::history::{History, has_failed};

/// The znode that gets a quota, and where it stands.
const ROOT: &str = "/b";
const LIMITS: &str = "/zookeeper/quota/b/zookeeper_limits";
const STATS: &str = "/zookeeper/quota/b/zookeeper_stats";

/// Where the tree of its leader ended when each transaction was proposed that creates something below
/// the root.
#[derive(Debug, Default)]
pub(crate) struct Quota(BTreeMap<Zxid, Zxid>);

impl Quota {
    pub(crate) const NAME: &str = "a hard quota holds";

    /// A leader proposes this, with a tree up to `applied`.
    pub(crate) fn proposes(&mut self, txn: &TxnRecord, applied: Zxid) {
        if creates_below(txn) {
            self.0.insert(txn.header.zxid, applied);
        }
    }

    /// The last transaction of the history is this.
    pub(crate) fn committed(&mut self, txn: &TxnRecord, history: &History) -> Held {
        let zxid = txn.header.zxid;
        let Some(applied) = self.0.remove(&zxid) else {
            return Ok(());
        };
        let limits = history.get(LIMITS, applied);
        let limit = limits.and_then(|node| hard_count(node.data.as_deref()?));
        // Without a count there is nothing to compare with.
        let (Some(limit), Some(_)) = (limit, history.get(STATS, applied)) else {
            return Ok(());
        };
        let root = usize::from(history.get(ROOT, applied).is_some());
        let count = root + history.descendants(ROOT, applied).count();
        if count < limit {
            return Ok(());
        }
        Err(format!(
            "{ROOT} had {count} znodes at {applied}, and {zxid} was prepared after that and adds to them; the hard limit is {limit}"
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
