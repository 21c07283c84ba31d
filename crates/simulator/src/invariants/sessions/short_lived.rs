//! Invariant: containers and TTL znodes are deleted when they are due, neither early nor much
//! later.

use proto::txn::{Txn, TxnRecord};
use proto::{SessionId, Zxid};

use crate::history::{History, Lifetime};
use crate::invariants::CheckResult;

pub(crate) const NAME: &str = "containers and TTL znodes are deleted in time";

/// Maximum time for which a deletion may be in flight. The deletion is executed even if the znode
/// at its path changes meanwhile, provided that the znode is a container or a TTL znode. Apache
/// ZooKeeper does the same (PrepRequestProcessor).
const IN_FLIGHT_MS: i64 = 3000;

/// Checks the last transaction of the history. A server may delete a znode on its own initiative
/// only if the znode is due.
pub(crate) fn committed(txn: &TxnRecord, history: &History) -> CheckResult {
    let header = &txn.header;
    let Txn::DeleteContainer { path } = &txn.txn else {
        return Ok(());
    };
    let before = Zxid(header.zxid.0 - 1);
    let Some(node) = history.get(path, before) else {
        return Err(format!(
            "{} deletes {path}, which does not exist",
            header.zxid
        ));
    };
    let has_children = !history.children(path, before).is_empty();
    let is_due = match node.lifetime {
        Lifetime::Unbounded => false,
        // Clients may delete an empty container at any time.
        _ if header.session != SessionId::NONE => true,
        Lifetime::Container => {
            let created = history.created_at(path).and_then(|zxid| history.at(zxid));
            let is_new =
                created.is_some_and(|made| header.time_ms - made.txn.header.time_ms < IN_FLIGHT_MS);
            is_new || had_children(path, history)
        }
        Lifetime::Ttl(ttl) => {
            history.was_unchanged(path, ttl, header.time_ms - IN_FLIGHT_MS, header.time_ms)
        }
    };
    if is_due && !has_children {
        return Ok(());
    }
    Err(format!(
        "{} deletes {path} ({:?}, children: {has_children}) too early",
        header.zxid, node.lifetime
    ))
}

/// Returns whether the znode has had a child since its creation.
fn had_children(path: &str, history: &History) -> bool {
    let since = history.created_at(path).unwrap_or(Zxid::ZERO);
    let last = history.last_child_change(path);
    last.is_some_and(|last| last > since)
}

/// Checks the tree after a quiet time. `now_ms` is the time, and `delay_ms` the maximum time after
/// which a due znode must be deleted.
pub(crate) fn at_the_end(now_ms: i64, delay_ms: i64, history: &History) -> CheckResult {
    for (path, node) in history.paths() {
        if !history.children(path, history.end()).is_empty() {
            continue;
        }
        let time_of = |zxid| history.at(zxid).map(|entry| entry.txn.header.time_ms);
        let due_ms = match node.lifetime {
            Lifetime::Unbounded => None,
            Lifetime::Container if had_children(path, history) => {
                history.last_child_change(path).and_then(time_of)
            }
            Lifetime::Container => None,
            Lifetime::Ttl(ttl) => {
                let emptied = history.last_child_change(path).and_then(time_of);
                Some(node.changed_ms.max(emptied.unwrap_or(0)) + ttl)
            }
        };
        if due_ms.is_some_and(|due_ms| now_ms > due_ms + delay_ms) {
            return Err(format!(
                "{path} ({:?}) still exists, although it expired {} ms ago",
                node.lifetime,
                now_ms - due_ms.unwrap_or(now_ms)
            ));
        }
    }
    Ok(())
}
