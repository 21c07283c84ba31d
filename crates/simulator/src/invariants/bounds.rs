//! What members hold back is bounded, and so is what they are sent.

use proto::Sid;
use zab::Record;

use super::Held;

pub(crate) const NAME: &str = "what a member holds is bounded";

/// What a server holds in memory for others, or for its disk.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HeldBack {
    /// Records that are not on its disk yet.
    pub(crate) unsynced: usize,
    /// Inputs of its replica that wait.
    pub(crate) inputs: usize,
    /// Packets and records that wait for a flush, although no flush is to come.
    pub(crate) unflushed: usize,
    /// Requests of its clients without an answer.
    pub(crate) requests: usize,
}

/// All that a learner may be sent as a DIFF: with recipes some thousand records are committed while
/// it is away.
const UNSYNCED_MAX: usize = 6000;
/// What each client sends before it waits, of all clients, once more for connections that are gone.
const REQUESTS_MAX: usize = 64;

/// A leader proposes this, and members read so much.
pub(crate) fn proposes(sid: Sid, record: &Record, bytes_max: usize) -> Held {
    let bytes = record.txn.len();
    if bytes <= bytes_max {
        return Ok(());
    }
    let zxid = record.zxid;
    Err(format!(
        "server {sid} proposes {zxid} of {bytes} bytes, members read {bytes_max}"
    ))
}

/// A server holds back so much between two turns.
pub(crate) fn holds_back(sid: Sid, held: HeldBack) -> Held {
    // Nothing waits for a replica behind a turn.
    let is_idle = held.inputs == 0 && held.unflushed == 0;
    let is_bounded = held.unsynced <= UNSYNCED_MAX && held.requests <= REQUESTS_MAX;
    if is_bounded && is_idle {
        return Ok(());
    }
    Err(format!("server {sid} holds back {held:?}"))
}
