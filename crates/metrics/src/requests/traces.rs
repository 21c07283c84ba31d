//! Times at which sampled writes reached the stages of this member, for a trace collector.
//!
//! The zxid alone determines whether a write is sampled. All members therefore sample the same
//! writes, and their measurements of a write form one trace. All times are wall-clock nanoseconds
//! since 1970.

use std::collections::VecDeque;
use std::mem;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use proto::txn::TxnHeader;
use proto::{OpCode, Xid, Zxid};

/// Maximum number of sampled writes in progress on this member. Newer writes replace the oldest
/// writes. Some writes never complete, because the next leader may truncate them.
const OPEN_MAX: usize = 1024;

/// Maximum number of finished traces. Further traces are dropped and counted.
const FINISHED_MAX: usize = 4096;

/// Stages of a write on this member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteTrace {
    /// Header of the transaction.
    pub header: TxnHeader,
    /// Request of the write, if it came from a client of this member.
    pub request: Option<TracedRequest>,
    /// Times in the log; `None` if this member did not log the write.
    pub log: Option<LogTrace>,
    /// Time at which the commit was known.
    pub committed_ns: u64,
    /// Time at which the write was applied and its reply was ready.
    pub applied_ns: u64,
}

/// Request of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedRequest {
    /// Time of arrival.
    pub received_ns: u64,
    /// Requested operation.
    pub op: OpCode,
    /// Path of the first znode; `None` without a znode, or if the request failed.
    pub path: Option<String>,
    /// Address of the client.
    pub peer: SocketAddr,
    /// Xid of the request.
    pub xid: Xid,
}

/// Times of a write in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogTrace {
    /// Time at which the write was passed to the log.
    pub appended_ns: u64,
    /// Start of the sync that included the write.
    pub sync_begun_ns: u64,
    /// Time at which the write was on disk.
    pub synced_ns: u64,
}

/// Collection of sampled writes.
#[derive(Debug)]
pub struct Traces {
    every: NonZeroU32,
    /// Number of writes in progress that are not on disk yet.
    unsynced: AtomicUsize,
    open_traces: Mutex<OpenTraces>,
}

#[derive(Debug, Default)]
struct OpenTraces {
    /// Writes in progress, in zxid order.
    open: VecDeque<OpenTrace>,
    finished: Vec<WriteTrace>,
    left_out: u64,
}

/// A write in progress.
#[derive(Debug)]
struct OpenTrace {
    zxid: Zxid,
    appended_ns: u64,
    /// Start and end of the write's sync.
    synced_ns: Option<(u64, u64)>,
    applied: Option<WriteTrace>,
}

impl OpenTrace {
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

impl OpenTraces {
    fn finish(&mut self, trace: WriteTrace) {
        if self.finished.len() < FINISHED_MAX {
            self.finished.push(trace);
        } else {
            self.left_out += 1;
        }
    }

    /// Returns the number of writes that are not on disk yet.
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
    /// Creates a collection that samples one of `every` writes.
    pub fn new(every: NonZeroU32) -> Self {
        Self {
            every,
            unsynced: AtomicUsize::new(0),
            open_traces: Mutex::default(),
        }
    }

    /// Returns whether a write is sampled.
    pub fn is_sampled(&self, zxid: Zxid) -> bool {
        zxid.counter().is_multiple_of(self.every.get())
    }

    /// Records that a sampled write was passed to the log.
    pub fn appended(&self, zxid: Zxid, now_ns: u64) {
        let mut open_traces = self.open_traces.lock();
        if open_traces.open.len() == OPEN_MAX {
            open_traces.open.pop_front();
        }
        open_traces.open.push_back(OpenTrace {
            zxid,
            appended_ns: now_ns,
            synced_ns: None,
            applied: None,
        });
        self.unsynced.store(open_traces.unsynced(), Relaxed);
    }

    /// Returns whether a sampled write waits for its sync.
    pub fn awaits_sync(&self) -> bool {
        self.unsynced.load(Relaxed) > 0
    }

    /// Records that the log is on disk up to `upto`, with the start and end of the sync.
    pub fn synced(&self, upto: Zxid, begin_ns: u64, end_ns: u64) {
        let mut open_traces = self.open_traces.lock();
        for open in &mut open_traces.open {
            if open.zxid <= upto {
                open.synced_ns.get_or_insert((begin_ns, end_ns));
            }
        }
        open_traces.take_finished_of_open();
        self.unsynced.store(open_traces.unsynced(), Relaxed);
    }

    /// Records that a sampled write was applied. `trace` contains all data except the times in the
    /// log.
    pub fn applied(&self, trace: WriteTrace) {
        let mut open_traces = self.open_traces.lock();
        let zxid = trace.header.zxid;
        match open_traces.open.iter_mut().find(|open| open.zxid == zxid) {
            Some(open) => {
                open.applied = Some(trace);
                open_traces.take_finished_of_open();
            }
            // The write was not logged, or its entry was replaced by the entry of a newer write.
            None => open_traces.finish(trace),
        }
    }

    /// Returns the traces that were finished since the last call, and the number of traces dropped
    /// since then.
    pub fn take_finished(&self) -> (Vec<WriteTrace>, u64) {
        let mut open_traces = self.open_traces.lock();
        (
            mem::take(&mut open_traces.finished),
            mem::take(&mut open_traces.left_out),
        )
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
    fn members_sample_the_same_writes() {
        let traces = of_every(10);
        let picked = |zxid| traces.is_sampled(Zxid(zxid));
        assert!(picked(0x1_0000_000a) && picked(0x7_0000_0014));
        assert!(!picked(0x1_0000_000b));
        assert!(of_every(1).is_sampled(Zxid(0x1_0000_000b)));
    }

    #[test]
    fn a_trace_is_complete_when_applied_and_synced_in_either_order() {
        let traces = of_every(1);
        traces.appended(Zxid(1), 100);
        traces.appended(Zxid(2), 110);
        assert!(traces.awaits_sync());
        traces.applied(trace(1, 150));
        assert_eq!(traces.take_finished(), (vec![], 0));
        traces.synced(Zxid(2), 120, 160);
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
        // A later sync does not change the trace.
        traces.synced(Zxid(3), 170, 180);
        traces.applied(trace(2, 190));
        let second = with_log(trace(2, 190), log(110));
        assert_eq!(traces.take_finished(), (vec![second], 0));
    }

    #[test]
    fn a_trace_without_a_log_is_complete_when_applied() {
        let traces = of_every(1);
        traces.applied(trace(1, 50));
        assert_eq!(traces.take_finished(), (vec![trace(1, 50)], 0));
    }

    #[test]
    fn unread_and_unfinished_traces_are_bounded() {
        let traces = of_every(1);
        for zxid in (1..).take(2 * OPEN_MAX) {
            traces.appended(Zxid(zxid), 1);
        }
        assert_eq!(traces.open_traces.lock().open.len(), OPEN_MAX);
        for zxid in (10_000..).take(FINISHED_MAX + 3) {
            traces.applied(trace(zxid, 9));
        }
        let (finished, left_out) = traces.take_finished();
        assert_eq!((finished.len(), left_out), (FINISHED_MAX, 3));
        assert_eq!(traces.take_finished(), (vec![], 0));
    }
}
