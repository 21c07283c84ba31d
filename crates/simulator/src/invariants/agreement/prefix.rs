//! Invariant (prefix agreement): a serving server delivers exactly the committed transactions, in
//! order and without a gap.

use proto::{Sid, Zxid};
use zab::Record;

use crate::history::History;
use crate::invariants::CheckResult;

pub(crate) const NAME: &str = "prefix agreement";

/// Checks a transaction that a learner receives from its leader as committed.
pub(crate) fn receives(sid: Sid, record: &Record, history: &History) -> CheckResult {
    let zxid = record.zxid;
    let Some(entry) = history.at(zxid) else {
        return Err(format!(
            "server {sid} delivers {zxid}, which was not committed"
        ));
    };
    if !history.may_have(sid, entry, &record.txn) {
        return Err(format!(
            "server {sid} delivers {zxid} with other content than was committed"
        ));
    }
    Ok(())
}

/// Checks a transaction that a serving learner delivers. The tree of the learner ended at `last`
/// before this transaction.
pub(crate) fn delivers(sid: Sid, record: &Record, last: Zxid, history: &History) -> CheckResult {
    receives(sid, record, history)?;
    let zxid = record.zxid;
    match history.after(last) {
        Some(next) if next.zxid == zxid => Ok(()),
        next => {
            let next = next.map_or("no transaction".into(), |next| next.zxid.to_string());
            Err(format!(
                "server {sid} delivers {zxid} after {last}, but {next} was committed next"
            ))
        }
    }
}

/// Checks a transaction that a leader commits. The tree of the leader ended at `last` before this
/// transaction.
pub(crate) fn commits(sid: Sid, record: &Record, last: Zxid, history: &History) -> CheckResult {
    let (zxid, end) = (record.zxid, history.end());
    if last != end || zxid <= end {
        return Err(format!(
            "server {sid} commits {zxid} after {last}, but the last committed transaction is {end}"
        ));
    }
    Ok(())
}

/// Checks a server that begins to serve with a tree that ends at `last`.
pub(crate) fn serves(sid: Sid, last: Zxid, history: &History) -> CheckResult {
    if last == Zxid::ZERO || history.at(last).is_some() {
        return Ok(());
    }
    Err(format!(
        "server {sid} serves up to {last}, which was not committed"
    ))
}
