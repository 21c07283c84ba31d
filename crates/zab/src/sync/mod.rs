//! The choice between DIFF, TRUNC and SNAP for a learner.
//!
//! The learner has sent the last zxid of its log, the *peer's* zxid. If the leader has that zxid,
//! the learner only needs the transactions after it (DIFF). If the leader lacks that zxid but knows
//! the last common transaction, the learner has logged uncommitted records and must cut them
//! (TRUNC). Otherwise, the learner needs the whole state (SNAP).
//!
//! ```text
//!                  oldest file        min      committed log      max     last
//!   leader           |                 |                           |       |
//!   history    ------+-----------------+===========================+.......+
//!   peer at     SNAP | DIFF from files | DIFF, or TRUNC + the rest | TRUNC(max)
//! ```
//!
//! `last` may be after `max`: a new epoch begins at counter 0, which does not belong to a
//! transaction.
//!
//! Source: LearnerHandler.syncFollower, queueCommittedProposals.

use proto::Zxid;

use crate::{CommittedLog, Record};

/// Packet that begins a synchronisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncOpening {
    /// Continue from the learner's log. The zxid is only informative.
    Diff(Zxid),
    /// First cut the learner's log after this zxid.
    Trunc(Zxid),
    /// Replace the learner's state by a snapshot.
    Snap,
}

/// Decision about the beginning of a synchronisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncPlan {
    /// Send this packet, then all transactions committed after a zxid.
    Send {
        /// Packet to send.
        opening: SyncOpening,
        /// Zxid after which transactions follow. Meaningless for a snapshot.
        after: Zxid,
    },
    /// Read the log files, and decide from their contents.
    ReadLog,
}

impl SyncPlan {
    const SNAP: Self = Self::Send {
        opening: SyncOpening::Snap,
        after: Zxid::ZERO,
    };
}

/// Transactions that the leader has.
#[derive(Debug, Clone, Copy)]
pub struct LeaderLog<'a> {
    /// Last transaction, or the established epoch with counter 0 if the epoch contains no
    /// transaction yet.
    pub last: Zxid,
    /// Newest committed transactions.
    pub log: &'a CommittedLog,
}

impl LeaderLog<'_> {
    /// Returns the zxid of the oldest transaction in memory, or `last` if there is none in memory.
    pub fn min(&self) -> Zxid {
        self.log.min().unwrap_or(self.last)
    }

    fn max(&self) -> Zxid {
        self.log.max().unwrap_or(self.last)
    }
}

/// Decides how to synchronise a learner whose log ends at `peer`, from the transactions in memory.
/// Returns [`SyncPlan::ReadLog`] only if `use_disk` is set.
pub fn decide(
    peer: Zxid,
    history: LeaderLog<'_>,
    force_snapshot: bool,
    use_disk: bool,
) -> SyncPlan {
    let (min, max) = (history.min(), history.max());
    if force_snapshot {
        return SyncPlan::SNAP;
    }
    if peer == history.last {
        return SyncPlan::Send {
            opening: SyncOpening::Diff(peer),
            after: peer,
        };
    }
    if peer > max && !is_epoch_start(peer) {
        // No log contains a record with counter 0, so the learner cannot cut its log at such a zxid
        // and would refuse the TRUNC in every later epoch, too. It receives a snapshot instead.
        // Zxid 0 is an exception, because it means an empty log.
        if is_epoch_start(max) && max != Zxid::ZERO {
            return SyncPlan::SNAP;
        }
        return SyncPlan::Send {
            opening: SyncOpening::Trunc(max),
            after: max,
        };
    }
    if (min..=max).contains(&peer) {
        let before = history.log.last_up_to(peer);
        let next = history.log.after(peer).next().map(|record| record.zxid);
        return open(peer, before, next, max);
    }
    // If no transaction is in memory and no proposal exists yet, the end of the files is not known
    // to be the end of the log.
    if peer < min && use_disk && !is_epoch_start(min) {
        return SyncPlan::ReadLog;
    }
    SyncPlan::SNAP
}

/// Decides from the records in the log files around the peer's zxid. The first record must be the
/// last one up to the peer's zxid. Returns the opening packet and the zxid after which transactions
/// follow; `None` if the files do not reach back so far or contain another history, so that the
/// learner needs a snapshot.
pub fn decide_by_disk(
    peer: Zxid,
    records: &[Record],
    history: LeaderLog<'_>,
) -> Option<(SyncOpening, Zxid)> {
    let behind = records.partition_point(|record| record.zxid <= peer);
    let before = behind.checked_sub(1).and_then(|at| records.get(at));
    let before = before?.zxid;
    let next = records.get(behind).map(|record| record.zxid);
    match open(peer, Some(before), next, history.max()) {
        SyncPlan::Send {
            opening: SyncOpening::Snap,
            ..
        }
        | SyncPlan::ReadLog => None,
        SyncPlan::Send { opening, after } => Some((opening, after)),
    }
}

/// Decides for a peer's zxid within a sequence of transactions. `before` is the last transaction up
/// to the peer's zxid, and `next` is the first transaction after that zxid.
fn open(peer: Zxid, before: Option<Zxid>, next: Option<Zxid>, max: Zxid) -> SyncPlan {
    if before == Some(peer) || is_epoch_start(peer) {
        return SyncPlan::Send {
            opening: SyncOpening::Diff(max),
            after: peer,
        };
    }
    match (before, next) {
        // If the epochs differ, the last common transaction is unknown.
        (Some(before), Some(next)) if next.epoch() == peer.epoch() => SyncPlan::Send {
            opening: SyncOpening::Trunc(before),
            after: before,
        },
        _ => SyncPlan::SNAP,
    }
}

/// Returns whether the counter is 0, which does not belong to a transaction. A server that received
/// a snapshot before the first transaction of an epoch reports such a zxid as its last one.
fn is_epoch_start(zxid: Zxid) -> bool {
    zxid.counter() == 0
}

#[cfg(test)]
mod tests;
