//! A hard quota holds: what was in flight when it was reached may go beyond it, and no more.

use proto::txn::{Txn, TxnRecord};

use super::Held;
use crate::history::{History, has_failed};

pub(crate) const NAME: &str = "a hard quota holds";

/// The znode that gets a quota, and where it stands.
const ROOT: &str = "/b";
const LIMITS: &str = "/zookeeper/quota/b/zookeeper_limits";
const STATS: &str = "/zookeeper/quota/b/zookeeper_stats";

/// The last transaction of the history is this. `in_flight`: znodes that may be made at once.
pub(crate) fn committed(txn: &TxnRecord, history: &History, in_flight: usize) -> Held {
    let parts = match &txn.txn {
        Txn::Multi(txns) if !has_failed(&txn.txn) => &txns[..],
        txn => std::slice::from_ref(txn),
    };
    let is_below = |path: &str| {
        path.strip_prefix(ROOT)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    let makes_one = |txn: &Txn| match txn {
        Txn::Create(create) | Txn::Create2(create) => is_below(&create.path),
        _ => false,
    };
    let (before, now) = (proto::Zxid(txn.header.zxid.0 - 1), txn.header.zxid);
    let limit = history
        .get(LIMITS, before)
        .and_then(|node| hard_count(node.data.as_deref()?));
    let (Some(limit), true) = (limit, parts.iter().any(makes_one)) else {
        return Ok(());
    };
    // Without a count there is nothing to compare with.
    if history.get(STATS, before).is_none() {
        return Ok(());
    }
    let count = 1 + history.descendants(ROOT, now).count();
    // What was there when the quota came is not taken away.
    let since = history.created_at(LIMITS).unwrap_or(now);
    let at_first = 1 + history.descendants(ROOT, since).count();
    if count <= limit.max(at_first) + in_flight {
        return Ok(());
    }
    Err(format!(
        "{ROOT} has {count} znodes at {now}, the hard limit is {limit}, and {at_first} were there \
         before it"
    ))
}

fn hard_count(data: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(data).ok()?;
    let count = text.split("countHardLimit=").nth(1)?;
    count.split([',', ';', '=']).next()?.parse().ok()
}
