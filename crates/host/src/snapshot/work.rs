//! The queue of snapshots, written one after the other.

use std::collections::VecDeque;
use std::sync::Arc;

use executor::sync::Mutex;
use recovery::{LogEnd, SnapshotSettings};
use replica::{State, Synchronised};
use storage::{DataDirs, Disk, StorageError};

use super::{SnapshotProgress, StateSnapshot, WrittenSnapshot};
use crate::ModelTrace;

/// Requested snapshots, and the one that is being written.
#[derive(Debug)]
pub struct SnapshotWork<D: Disk> {
    disk: Arc<D>,
    dirs: DataDirs,
    settings: SnapshotSettings,
    log: Arc<LogEnd>,
    due: Arc<Mutex<DueSnapshots>>,
    waiting: VecDeque<SnapshotReason>,
    snapshot: Option<(SnapshotReason, StateSnapshot<D>)>,
    trace: Option<Arc<ModelTrace>>,
}

/// Reason for a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotReason {
    /// The number of transactions logged since the last snapshot is large enough, according to
    /// [`DueSnapshots::begin`]. The snapshot is deferred while the tree is not established.
    Due,
    /// A starting server needs its first snapshot. The tree does not change before the snapshot is
    /// written.
    First,
    /// The tree was received from a leader or restored by an operator. The server cannot continue
    /// before the snapshot, which replaces the server's own log, is written.
    Synchronised(Synchronised),
    /// An operator requested the snapshot. It is refused while the tree is not established.
    Operator,
}

impl<D: Disk> SnapshotWork<D> {
    /// Creates an empty queue. `log` is the end of the log that belongs to the snapshots, and `due`
    /// is shared with the code that requests due snapshots.
    pub fn new(
        disk: Arc<D>,
        dirs: DataDirs,
        settings: SnapshotSettings,
        log: Arc<LogEnd>,
        due: Arc<Mutex<DueSnapshots>>,
    ) -> Self {
        Self {
            disk,
            dirs,
            settings,
            log,
            due,
            waiting: VecDeque::new(),
            snapshot: None,
            trace: None,
        }
    }

    /// Writes the begin and the end of each later snapshot to this trace.
    pub fn trace_to(&mut self, trace: Option<Arc<ModelTrace>>) {
        self.trace = trace;
    }

    /// Returns the state of the due snapshots.
    pub fn due(&self) -> &Arc<Mutex<DueSnapshots>> {
        &self.due
    }

    /// Queues a snapshot, which will contain the tree as it is when the snapshot begins.
    pub fn request_snapshot(&mut self, wanted: SnapshotReason) {
        self.waiting.push_back(wanted);
    }

    /// Returns the reason for the snapshot that is being written or is next; `None` if the queue is
    /// empty.
    pub fn next(&self) -> Option<SnapshotReason> {
        let writing = self.snapshot.as_ref().map(|(wanted, _)| *wanted);
        writing.or_else(|| self.waiting.front().copied())
    }

    /// Returns the snapshot that is being written.
    pub fn writing(&self) -> Option<&StateSnapshot<D>> {
        self.snapshot.as_ref().map(|(_, snapshot)| snapshot)
    }

    /// Returns whether the snapshot in progress is completely written, but must not get its name
    /// before the log on disk contains everything in the snapshot.
    pub fn waits_for_log(&self) -> bool {
        self.writing().is_some_and(StateSnapshot::is_whole)
    }

    /// Abandons all snapshots. The file of a snapshot in progress is removed.
    pub fn give_up(&mut self) {
        self.snapshot = None;
        self.waiting.clear();
        self.due.lock().end();
    }

    /// Writes a snapshot immediately. No other code may use the tree and the files.
    ///
    /// # Errors
    /// If the snapshot cannot be written.
    pub(crate) fn write_at_once(
        &mut self,
        state: &impl State,
        now_ms: impl Fn() -> i64,
    ) -> Result<Option<WrittenSnapshot>, StorageError> {
        let mut written = None;
        self.request_snapshot(SnapshotReason::First);
        while self.next().is_some() {
            written = self.step(state, BYTES_AT_ONCE, &now_ms, || ())?;
        }
        Ok(written)
    }

    /// Begins the next snapshot if none is being written. Reads about `bytes` bytes of the tree
    /// during a short hold of its lock and writes them. Returns the snapshot once it is on disk.
    /// While the file receives its final name, the guard from `hold_files` prevents the files from
    /// being loaded or cut.
    ///
    /// # Errors
    /// If the snapshot cannot be written.
    pub fn step<G>(
        &mut self,
        state: &impl State,
        bytes: usize,
        now_ms: impl Fn() -> i64,
        hold_files: impl FnOnce() -> G,
    ) -> Result<Option<WrittenSnapshot>, StorageError> {
        let Some(wanted) = self.next() else {
            return Ok(None);
        };
        let begun = match self.snapshot.take() {
            None => {
                self.waiting.pop_front();
                let (disk, dirs) = (Arc::clone(&self.disk), self.dirs.clone());
                let (settings, trace) = (self.settings, self.trace.as_deref());
                StateSnapshot::begin(state, disk, dirs, settings, wanted, now_ms(), trace)?
            }
            Some((_, snapshot)) => Some(snapshot),
        };
        let written = match begun {
            None => None,
            Some(mut snapshot) => match snapshot.write_some(state, &self.log, bytes)? {
                SnapshotProgress::More | SnapshotProgress::NotLogged => {
                    self.snapshot = Some((wanted, snapshot));
                    return Ok(None);
                }
                SnapshotProgress::GivenUp => None,
                SnapshotProgress::Whole => {
                    let _files = hold_files();
                    snapshot.finish(state, &self.log, self.trace.as_deref())?
                }
            },
        };
        let mut due = self.due.lock();
        match (&written, wanted) {
            (Some(_), SnapshotReason::Due) => due.end(),
            (None, SnapshotReason::Due) => {
                due.defer();
                // The replica resumes a deferred snapshot after it has established the tree. If the
                // tree is established by now, that may have happened before this snapshot was
                // deferred.
                if state.generation().is_established() && due.resume(now_ms()) {
                    self.waiting.push_back(SnapshotReason::Due);
                }
            }
            _ => {}
        }
        if let Some(written) = &written {
            due.note_written(written.begun_ms, now_ms());
        }
        Ok(written)
    }
}

/// Size of a piece while the tree is not in use, bytes.
const BYTES_AT_ONCE: usize = 1 << 20;

/// Schedule of the snapshots that are due because of the number of logged transactions.
///
/// `snapCount` was designed for servers that log a few thousand transactions per second. At a
/// hundred thousand, a large tree would be written continually. This would take processor and disk
/// time from the clients and would not help, because after a crash a log is read faster than it was
/// written.
#[derive(Debug, Default)]
pub struct DueSnapshots {
    /// Whether a due snapshot waits or is being written.
    is_under_way: bool,
    /// Whether a snapshot was due while the tree was not established.
    is_deferred: bool,
    rests_until_ms: i64,
}

/// Duration below which a snapshot does not delay the next one, ms.
const SHORT_MS: i64 = 100;

/// Pause after a longer snapshot, as a multiple of its duration. Unless the pause reaches its
/// maximum, at most a quarter of the time is spent on snapshots.
const REST_FACTOR: i64 = 3;

/// Maximum pause, ms. It is limited because the transactions logged meanwhile must be read at the
/// next start.
const REST_MAX_MS: i64 = 60_000;

impl DueSnapshots {
    /// Returns whether a due snapshot may begin now, and records that it begins. If it may not, the
    /// next trigger checks again.
    pub fn begin(&mut self, now_ms: i64) -> bool {
        if now_ms < self.rests_until_ms {
            tracing::debug!("skipping a snapshot because the last snapshot is large and recent");
            return false;
        }
        if self.is_under_way {
            tracing::warn!("the previous snapshot is still being written, skipping a new one");
            return false;
        }
        self.is_under_way = true;
        true
    }

    /// Records that the snapshot that was begun has ended, whatever its result.
    pub fn end(&mut self) {
        self.is_under_way = false;
    }

    /// Defers the snapshot that was begun until the tree is established.
    pub fn defer(&mut self) {
        self.is_under_way = false;
        self.is_deferred = true;
    }

    /// Handles the establishment of the tree. Returns whether a deferred snapshot begins now.
    pub fn resume(&mut self, now_ms: i64) -> bool {
        std::mem::take(&mut self.is_deferred) && self.begin(now_ms)
    }

    /// Records that a snapshot, due or not, was written until `now_ms`.
    pub fn note_written(&mut self, begun_ms: i64, now_ms: i64) {
        // The written snapshot contains everything that a deferred snapshot would contain.
        self.is_deferred = false;
        let rest_ms = match now_ms.saturating_sub(begun_ms) {
            took_ms if took_ms < SHORT_MS => 0,
            took_ms => took_ms.saturating_mul(REST_FACTOR).min(REST_MAX_MS),
        };
        self.rests_until_ms = now_ms.saturating_add(rest_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_snapshots_take_at_most_a_quarter_of_the_time() {
        let mut due = DueSnapshots::default();
        let begins = |due: &mut DueSnapshots, now_ms| {
            let begins = due.begin(now_ms);
            due.end();
            begins
        };
        assert!(begins(&mut due, 0));
        due.note_written(5000 - (SHORT_MS - 1), 5000);
        assert!(begins(&mut due, 5000));
        due.note_written(5000, 7000);
        assert!(!begins(&mut due, 12_999));
        assert!(begins(&mut due, 13_000));
        due.note_written(0, 600_000);
        assert!(!begins(&mut due, 659_999));
        assert!(begins(&mut due, 660_000));
    }

    #[test]
    fn a_deferred_snapshot_begins_once_the_tree_is_established() {
        let mut due = DueSnapshots::default();
        assert!(!due.resume(0));
        assert!(due.begin(0));
        due.defer();
        assert!(due.resume(1));
        assert!(!due.resume(2) && !due.begin(2));
        due.defer();
        due.note_written(3, 3);
        assert!(!due.resume(4), "there is a newer one");
    }

    #[test]
    fn snapshots_do_not_overlap() {
        let mut due = DueSnapshots::default();
        assert!(due.begin(0));
        assert!(!due.begin(1));
        due.end();
        assert!(due.begin(2));
    }
}
