//! Prefix agreement: what a server that serves delivers is what was committed, in this order,
//! without a hole.

use proto::{Sid, Zxid};
use zab::Record;

use super::Held;
use crate::history::History;

pub(crate) const NAME: &str = "prefix agreement";

/// A learner that serves delivers this; its tree ends at `last`.
pub(crate) fn delivers(sid: Sid, record: &Record, last: Zxid, history: &History) -> Held {
    let zxid = record.zxid;
    let Some(entry) = history.at(zxid) else {
        return Err(format!(
            "server {sid} delivers {zxid}, which was not committed"
        ));
    };
    if !history.may_have(sid, entry, &record.txn) {
        return Err(format!(
            "server {sid} delivers another {zxid} than was committed"
        ));
    }
    match history.after(last) {
        Some(next) if next.zxid == zxid => Ok(()),
        next => {
            let next = next.map_or("nothing".into(), |next| next.zxid.to_string());
            Err(format!(
                "server {sid} delivers {zxid} after {last}, but {next} was committed next"
            ))
        }
    }
}

/// A leader commits this; its tree ends at `last`.
pub(crate) fn commits(sid: Sid, record: &Record, last: Zxid, history: &History) -> Held {
    let (zxid, end) = (record.zxid, history.end());
    if last != end || zxid <= end {
        return Err(format!(
            "server {sid} commits {zxid} after {last}, but the last that was committed is {end}"
        ));
    }
    Ok(())
}

/// A server begins to serve with a tree that ends at `last`.
pub(crate) fn serves(sid: Sid, last: Zxid, history: &History) -> Held {
    if last == Zxid::ZERO || history.at(last).is_some() {
        return Ok(());
    }
    Err(format!(
        "server {sid} serves up to {last}, which was not committed"
    ))
}
