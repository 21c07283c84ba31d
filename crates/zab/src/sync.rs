//! How a learner is brought to the leader's history: DIFF, TRUNC or SNAP.
//!
//! The learner has named the last transaction of its log, the *peer's* zxid. If that is one of the
//! leader's, the learner needs only what comes behind it (DIFF). If it is not, but stands in
//! an epoch whose end the leader knows, the learner has logged what was never committed and must
//! cut that off (TRUNC). Else only the whole state helps (SNAP).
//!
//! ```text
//!                  oldest file        min      committed log      max     last
//!   leader           |                 |                           |       |
//!   history    ------+-----------------+===========================+.......+
//!   peer at     SNAP | DIFF from files | DIFF, or TRUNC + the rest | TRUNC(max)
//! ```
//!
//! `last` may be ahead of `max`: a new epoch begins at counter 0, for which there is no
//! transaction.
//!
//! Source: LearnerHandler.syncFollower, queueCommittedProposals.

use proto::Zxid;
use proto::mutant::{self, Mutant};

use crate::{CommittedLog, Record};

/// The packet that begins a synchronisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// Continue from your history. The zxid is informative.
    Diff(Zxid),
    /// Cut your history here first.
    Trunc(Zxid),
    /// Replace your history by this snapshot.
    Snap,
}

/// How to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// With this packet, and then everything committed behind a zxid.
    Send {
        /// The packet.
        opening: Opening,
        /// Transactions behind it follow; meaningless for a snapshot.
        after: Zxid,
    },
    /// The files of the log decide.
    ReadLog,
}

impl Decision {
    const SNAP: Self = Self::Send {
        opening: Opening::Snap,
        after: Zxid::ZERO,
    };
}

/// What the leader has.
#[derive(Debug, Clone, Copy)]
pub struct History<'a> {
    /// Its last transaction, or its epoch with counter 0 if it is established and has none yet.
    pub last: Zxid,
    /// The newest committed transactions.
    pub log: &'a CommittedLog,
}

impl History<'_> {
    /// The oldest transaction in memory; of none, the end of the history.
    pub fn min(&self) -> Zxid {
        self.log.min().unwrap_or(self.last)
    }

    fn max(&self) -> Zxid {
        self.log.max().unwrap_or(self.last)
    }
}

/// Decides by what is in memory.
pub fn decide(peer: Zxid, history: History<'_>, force_snapshot: bool, use_disk: bool) -> Decision {
    let (min, max) = (history.min(), history.max());
    if force_snapshot {
        return Decision::SNAP;
    }
    if peer == history.last {
        return Decision::Send {
            opening: Opening::Diff(peer),
            after: peer,
        };
    }
    if peer > max && !is_epoch_start(peer) {
        // Nobody's log has the start of an epoch to be cut at. A history ends there that came as a
        // snapshot before the first transaction, or has none yet. Were it asked for, the learner
        // would refuse, and again in every later epoch.
        if is_epoch_start(max) && max != Zxid::ZERO {
            return Decision::SNAP;
        }
        let opening = match mutant::is(Mutant::TailNotTruncated) {
            true => Opening::Diff(max),
            false => Opening::Trunc(max),
        };
        return Decision::Send {
            opening,
            after: max,
        };
    }
    if (min..=max).contains(&peer) {
        let before = history.log.last_up_to(peer);
        let next = history.log.after(peer).next().map(|record| record.zxid);
        return open(peer, before, next, max);
    }
    // With nothing in memory and nothing proposed yet, the files' end is not known to be the end
    // of the history.
    if peer < min && use_disk && !is_epoch_start(min) {
        return Decision::ReadLog;
    }
    Decision::SNAP
}

/// Decides by the records of the log files around the peer's zxid: the first must be the last one
/// that is not behind it. `None`: the files do not reach back that far, or know another history;
/// only a snapshot helps.
pub fn decide_by_disk(
    peer: Zxid,
    records: &[Record],
    history: History<'_>,
) -> Option<(Opening, Zxid)> {
    let behind = records.partition_point(|record| record.zxid <= peer);
    let before = behind.checked_sub(1).and_then(|at| records.get(at));
    let before = before?.zxid;
    let next = records.get(behind).map(|record| record.zxid);
    match open(peer, Some(before), next, history.max()) {
        Decision::Send {
            opening: Opening::Snap,
            ..
        }
        | Decision::ReadLog => None,
        Decision::Send { opening, after } => Some((opening, after)),
    }
}

/// Begins inside a run of transactions of which `before` is the last that is not behind the peer's
/// zxid, and `next` the one after it.
fn open(peer: Zxid, before: Option<Zxid>, next: Option<Zxid>, max: Zxid) -> Decision {
    if before == Some(peer) || is_epoch_start(peer) {
        return Decision::Send {
            opening: Opening::Diff(max),
            after: peer,
        };
    }
    match (before, next) {
        // Across epochs nobody knows where the histories part.
        (Some(before), Some(next)) if next.epoch() == peer.epoch() => Decision::Send {
            opening: Opening::Trunc(before),
            after: before,
        },
        _ => Decision::SNAP,
    }
}

/// Counter 0 is no transaction: a leader's last zxid is reported so by whoever took a snapshot
/// before its first one.
fn is_epoch_start(zxid: Zxid) -> bool {
    zxid.counter() == 0
}

#[cfg(test)]
mod tests;
