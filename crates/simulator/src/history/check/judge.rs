//! Comparison of a history's contents with the committed transactions.

use bytes::Bytes;
use proto::{Sid, Zxid};

use super::Counts;
use super::store::{Era, Recorded};
use crate::history::History;
use crate::invariants::CheckResult;

/// Checks that each era has exactly the transactions after its snapshot, that the snapshot matches
/// the tree, and that a gap separates successive eras. Returns the numbers of transactions.
pub(super) fn judge(sid: Sid, recorded: &Recorded, committed: &History) -> Result<Counts, String> {
    let mut counts = Counts::default();
    let mut head = Zxid::ZERO;
    for (number, era) in recorded.eras.iter().enumerate() {
        let begin = era.at.zxid;
        if begin < head || (number > 0 && begin == head) {
            return Err(format!(
                "an era begins at {begin}, before {head}, the end of the previous era"
            ));
        }
        if number > 0 {
            counts.missed += committed.between(head, begin).len();
        }
        is_complete(sid, era, committed)?;
        is_the_tree(era, committed)?;
        counts.recorded += era.txns.len();
        head = era.last();
    }
    Ok(counts)
}

fn is_complete(sid: Sid, era: &Era, committed: &History) -> CheckResult {
    let wanted = committed.between(era.at.zxid, era.last());
    let mut found = era.txns.iter();
    for entry in wanted {
        match found.next() {
            Some(taken) if taken.header.zxid == entry.zxid => {
                if !committed.may_have(sid, entry, &taken.bytes) {
                    return Err(format!(
                        "transaction {} differs from the committed transaction",
                        entry.zxid
                    ));
                }
            }
            other => {
                let other = other.map(|taken| taken.header.zxid);
                return Err(format!(
                    "{} is missing: {other:?} directly follows the snapshot {}",
                    entry.zxid, era.at.zxid
                ));
            }
        }
    }
    match found.next() {
        None => Ok(()),
        Some(taken) => Err(format!("{} was never committed", taken.header.zxid)),
    }
}

/// Checks that the snapshot and the model agree on every znode that did not change while the
/// snapshot was taken.
fn is_the_tree(era: &Era, committed: &History) -> CheckResult {
    let at = era.at.zxid;
    let known_from = at
        .max(era.at.covers.unwrap_or_default())
        .max(era.base.last_seen);
    let is_still = |path: &str| committed.changes(path, at, known_from).next().is_none();
    let text_of = |data: &Option<Bytes>| data.as_ref().map(|data| data.escape_ascii().to_string());
    for (path, (data, version)) in &era.base.znodes {
        let is_system = path.is_empty() || path == "/" || path.starts_with("/zookeeper");
        if is_system || !is_still(path) {
            continue;
        }
        match committed.get(path, at) {
            Some(node) if node.data == *data && node.version == *version => {}
            node => {
                return Err(format!(
                    "the snapshot {at} contains {path} with version {version} and {:?} instead of {node:?}",
                    text_of(data)
                ));
            }
        }
    }
    let lost = committed
        .descendants("", at)
        .find(|path| is_still(path) && !era.base.znodes.contains_key(*path));
    match lost {
        Some(path) => Err(format!("the snapshot {at} lacks {path}")),
        None => Ok(()),
    }
}
