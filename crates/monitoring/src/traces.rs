//! When some of the writes reached each stage of this member, for a collector of traces.
//!
//! Which writes depends on their zxids alone: all members pick the same ones, so that what each of them
//! has seen of a write makes one trace. All times are wall-clock nanoseconds since 1970.

use std::collections::VecDeque;
use std::mem;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use proto::txn::TxnHeader;
use proto::{OpCode, Xid, Zxid};

/// Writes on their way through this member that are looked at. The oldest are given up for newer ones:
/// some never come to their end, as the next leader may cut them off.
const OPEN_MAX: usize = 1024;

/// Traces that wait to be taken. What comes beyond is left out, and counted.
const FINISHED_MAX: usize = 4096;

/// The stages of a write on this member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteTrace {
    /// The transaction.
    pub header: TxnHeader,
    /// Who asked for it, if that was a client of this member.
    pub request: Option<TracedRequest>,
    /// The way through the log; `None` if this member did not log it.
    pub log: Option<LogTrace>,
    /// When it was known to be committed.
    pub committed_ns: u64,
    /// When it was applied, and its reply ready.
    pub applied_ns: u64,
}

/// The request of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedRequest {
    /// When it came in.
    pub received_ns: u64,
    /// What was asked for.
    pub op: OpCode,
    /// Which znode, of several the first; `None` if there is none, or the request failed.
    pub path: Option<String>,
    /// The client's end.
    pub peer: SocketAddr,
    /// The client's number of it.
    pub xid: Xid,
}

/// The way through the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogTrace {
    /// When it was handed to the log.
    pub appended_ns: u64,
    /// When the sync began that it shared.
    pub sync_begun_ns: u64,
    /// When it was on disk.
    pub synced_ns: u64,
}

/// Writes that are looked at.
#[derive(Debug)]
pub struct Traces {
    every: NonZeroU32,
    /// Open ones that are not on disk yet.
    unsynced: AtomicUsize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// In the order of their zxids.
    open: VecDeque<Open>,
    finished: Vec<WriteTrace>,
    left_out: u64,
}

/// One that is not finished.
#[derive(Debug)]
struct Open {
    zxid: Zxid,
    appended_ns: u64,
    /// When its sync began and ended.
    synced_ns: Option<(u64, u64)>,
    applied: Option<WriteTrace>,
}

impl Open {
    fn take_finished(&mut self) -> Option<WriteTrace> {
        let (sync_begun_ns, synced_ns) = self.synced_ns?;
        let mut trace = self.applied.take()?;
        trace.log = Some(LogTrace {
            appended_ns: self.appended_ns,
            sync_begun_ns,
            synced_ns,
        });
        Some(trace)
    }
}

impl Kept {
    fn finish(&mut self, trace: WriteTrace) {
        if self.finished.len() < FINISHED_MAX {
            self.finished.push(trace);
        } else {
            self.left_out += 1;
        }
    }

    /// How many are not on disk yet.
    fn unsynced(&self) -> usize {
        let unsynced = self.open.iter().filter(|open| open.synced_ns.is_none());
        unsynced.count()
    }

    fn take_finished_of_open(&mut self) {
        let mut finished: Vec<WriteTrace> = Vec::new();
        self.open.retain_mut(|open| match open.take_finished() {
            Some(trace) => {
                finished.push(trace);
                false
            }
            None => true,
        });
        finished.into_iter().for_each(|trace| self.finish(trace));
    }
}

impl Traces {
    /// Looks at one write of so many.
    pub fn new(every: NonZeroU32) -> Self {
        Self {
            every,
            unsynced: AtomicUsize::new(0),
            kept: Mutex::default(),
        }
    }

    /// Whether a write is looked at.
    pub fn picks(&self, zxid: Zxid) -> bool {
        zxid.counter().is_multiple_of(self.every.get())
    }

    /// A write that is looked at was handed to the log.
    pub fn appended(&self, zxid: Zxid, now_ns: u64) {
        let mut kept = self.kept.lock();
        if kept.open.len() == OPEN_MAX {
            kept.open.pop_front();
        }
        kept.open.push_back(Open {
            zxid,
            appended_ns: now_ns,
            synced_ns: None,
            applied: None,
        });
        self.unsynced.store(kept.unsynced(), Relaxed);
    }

    /// Whether any that is looked at waits for its sync.
    pub fn awaits_sync(&self) -> bool {
        self.unsynced.load(Relaxed) > 0
    }

    /// The log is on disk up to here, after a sync that began and ended at these times.
    pub fn synced(&self, upto: Zxid, begun_and_ended_ns: (u64, u64)) {
        let mut kept = self.kept.lock();
        for open in &mut kept.open {
            if open.zxid <= upto {
                open.synced_ns.get_or_insert(begun_and_ended_ns);
            }
        }
        kept.take_finished_of_open();
        self.unsynced.store(kept.unsynced(), Relaxed);
    }

    /// A write that is looked at was applied. `trace` has all but its way through the log.
    pub fn applied(&self, trace: WriteTrace) {
        let mut kept = self.kept.lock();
        let zxid = trace.header.zxid;
        match kept.open.iter_mut().find(|open| open.zxid == zxid) {
            Some(open) => {
                open.applied = Some(trace);
                kept.take_finished_of_open();
            }
            // It goes to no log, or was given up.
            None => kept.finish(trace),
        }
    }

    /// Those that have come to their end since the last call, and how many were left out besides.
    pub fn take_finished(&self) -> (Vec<WriteTrace>, u64) {
        let mut kept = self.kept.lock();
        (mem::take(&mut kept.finished), mem::take(&mut kept.left_out))
    }
}

#[cfg(test)]
mod tests {
    use proto::SessionId;

    use super::*;

    fn trace(zxid: i64, applied_ns: u64) -> WriteTrace {
        WriteTrace {
            header: TxnHeader {
                session: SessionId(7),
                cxid: 3,
                zxid: Zxid(zxid),
                time_ms: 1,
                op: 5,
            },
            request: None,
            log: None,
            committed_ns: applied_ns - 1,
            applied_ns,
        }
    }

    fn of_every(every: u32) -> Traces {
        Traces::new(NonZeroU32::new(every).expect("above 0"))
    }

    #[test]
    fn members_pick_the_same_writes() {
        let traces = of_every(10);
        let picked = |zxid| traces.picks(Zxid(zxid));
        assert!(picked(0x1_0000_000a) && picked(0x7_0000_0014));
        assert!(!picked(0x1_0000_000b));
        assert!(of_every(1).picks(Zxid(0x1_0000_000b)));
    }

    #[test]
    fn one_is_whole_when_it_is_applied_and_on_disk_in_either_order() {
        let traces = of_every(1);
        traces.appended(Zxid(1), 100);
        traces.appended(Zxid(2), 110);
        assert!(traces.awaits_sync());
        traces.applied(trace(1, 150));
        assert_eq!(traces.take_finished(), (vec![], 0));
        traces.synced(Zxid(2), (120, 160));
        assert!(!traces.awaits_sync());
        let log = |appended_ns| {
            Some(LogTrace {
                appended_ns,
                sync_begun_ns: 120,
                synced_ns: 160,
            })
        };
        let with_log = |mut trace: WriteTrace, log| {
            trace.log = log;
            trace
        };
        let first = with_log(trace(1, 150), log(100));
        assert_eq!(traces.take_finished(), (vec![first], 0));
        // A later sync has nothing to do with it.
        traces.synced(Zxid(3), (170, 180));
        traces.applied(trace(2, 190));
        let second = with_log(trace(2, 190), log(110));
        assert_eq!(traces.take_finished(), (vec![second], 0));
    }

    #[test]
    fn one_that_goes_to_no_log_is_whole_when_it_is_applied() {
        let traces = of_every(1);
        traces.applied(trace(1, 50));
        assert_eq!(traces.take_finished(), (vec![trace(1, 50)], 0));
    }

    #[test]
    fn what_nobody_takes_and_what_never_ends_is_bounded() {
        let traces = of_every(1);
        for zxid in (1..).take(2 * OPEN_MAX) {
            traces.appended(Zxid(zxid), 1);
        }
        assert_eq!(traces.kept.lock().open.len(), OPEN_MAX);
        for zxid in (10_000..).take(FINISHED_MAX + 3) {
            traces.applied(trace(zxid, 9));
        }
        let (finished, left_out) = traces.take_finished();
        assert_eq!((finished.len(), left_out), (FINISHED_MAX, 3));
        assert_eq!(traces.take_finished(), (vec![], 0));
    }
}
