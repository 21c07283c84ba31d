//! Invariants: bounds on the data that members hold back and on the records that leaders propose.

use proto::Sid;
use simulation::checks::HeldBack;
use zab::Record;

use super::CheckResult;

pub(crate) const NAME: &str = "a member's memory is bounded";

/// Maximum number of unsynced records. A learner may receive a DIFF of this length, because with
/// recipes several thousand records are committed while a learner is disconnected.
const UNSYNCED_MAX: usize = 6000;
/// Maximum number of requests without a reply on one server. Requests of broken connections may add
/// to the requests that all clients together send before they wait.
const REQUESTS_MAX: usize = 64;

/// Checks the length of a proposal against the limit of the members.
pub(crate) fn proposes(sid: Sid, record: &Record, bytes_max: usize) -> CheckResult {
    let bytes = record.txn.len();
    if bytes <= bytes_max {
        return Ok(());
    }
    let zxid = record.zxid;
    Err(format!(
        "server {sid} proposes {zxid} of {bytes} bytes, but members read only {bytes_max}"
    ))
}

/// Checks the amounts that a server holds back between two turns.
pub(crate) fn holds_back(sid: Sid, held: HeldBack) -> CheckResult {
    // After a turn, no input waits for the replica.
    let is_idle = held.inputs == 0 && held.unflushed == 0;
    let is_bounded = held.unsynced <= UNSYNCED_MAX && held.requests <= REQUESTS_MAX;
    if is_bounded && is_idle {
        return Ok(());
    }
    Err(format!(
        "server {sid} exceeds a limit of waiting data: {held:?}"
    ))
}
