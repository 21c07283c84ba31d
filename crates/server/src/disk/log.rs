//! The thread that makes transactions durable.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use parking_lot::Mutex;
use proto::{Epoch, Zxid};
use recovery::{History, Reloaded};
use replica::{Input, MemberFile};
use storage::{RealDisk, StorageError};

use super::members::MembershipFiles;
use super::recovery::{database_load, log_recovered};
use super::snapshot::{SnapshotRequests, Synchronised};
use crate::error::exit_code;
use crate::failure::Failure;
use crate::inbox::InputSink;
use crate::metrics::{LogTimes, Metrics, ServerStats};
use crate::state::ServerState;
use crate::{clock, limits};

/// Encoded transactions on their way to the log.
#[derive(Default)]
pub(crate) struct LogGroup {
    pub(super) payloads: Vec<u8>,
    pub(super) records: Vec<(Zxid, Range<usize>)>,
    /// Since when it waits, monotonic ms.
    queued_ms: u64,
}

impl LogGroup {
    /// An empty group with about the room of `like`, so that it need not grow step by step. It becomes
    /// less from group to group that does not need it.
    pub(super) fn with_room_of(like: &Self) -> Self {
        let room = |len: usize, capacity: usize| len.max(capacity - capacity / 8);
        let bytes = room(like.payloads.len(), like.payloads.capacity());
        Self {
            payloads: Vec::with_capacity(bytes.min(limits::LOG_GROUP_BYTES_START_MAX)),
            records: Vec::with_capacity(room(like.records.len(), like.records.capacity())),
            queued_ms: 0,
        }
    }

    /// Empties it, to be filled again.
    pub(super) fn clear(&mut self) {
        self.payloads.clear();
        self.payloads.shrink_to(limits::LOG_GROUP_BYTES_START_MAX);
        self.records.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Adds a transaction that is encoded already.
    pub(super) fn push_bytes(&mut self, zxid: Zxid, payload: &[u8]) {
        let start = self.payloads.len();
        self.payloads.extend_from_slice(payload);
        self.end(zxid, start);
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.payloads.len()
    }

    /// Since when its first transaction waits, ms.
    pub(super) fn since_ms(&self) -> i64 {
        self.queued_ms.cast_signed()
    }

    /// Its last transaction.
    pub(super) fn last(&self) -> Option<Zxid> {
        self.records.last().map(|(zxid, _)| *zxid)
    }

    fn end(&mut self, zxid: Zxid, start: usize) {
        if self.records.is_empty() {
            self.queued_ms = clock::monotonic_ms();
        }
        self.records.push((zxid, start..self.payloads.len()));
    }
}

/// What the log thread is told.
pub(crate) enum ToLog {
    /// Append these, and sync.
    Group(LogGroup),
    /// Load the tree from disk again, and report it; first cut the log behind `keep`, if that is
    /// asked for.
    Reload {
        /// The last transaction to keep.
        keep: Option<Zxid>,
    },
    /// Make the promise durable, and report it.
    SaveAcceptedEpoch(Epoch),
    /// Make the epoch durable, and report it.
    SaveCurrentEpoch(Epoch),
    /// Make a member list durable.
    SaveMembers {
        /// Which.
        file: MemberFile,
        /// Whether the server must end if it cannot be written.
        is_required: bool,
    },
    /// The tree is a leader's, and becomes this server's history: remove from the log what lies
    /// behind `last`, which nobody else has, go on in a new file, and then have a snapshot written.
    TakeOver {
        /// The tree's last transaction.
        last: Zxid,
        /// Whose tree it is.
        of: Synchronised,
    },
}

/// Exit code of what nobody has foreseen. Source: ExitCode.UNEXPECTED_ERROR.
const EXIT_UNEXPECTED: u8 = 1;

/// When a group that is not full yet is synced all the same (`flushDelay`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupCommit {
    /// How long the first transaction of a group may wait for company; zero to sync at once.
    pub(crate) flush_delay: Duration,
    /// How long to wait for the next transaction (`maxWriteQueuePollTime`).
    pub(crate) poll_time: Duration,
    /// Transactions after which a group is synced (`maxBatchSize`).
    pub(crate) batch_max: usize,
}

impl GroupCommit {
    pub(crate) fn new(storage: &config::Storage) -> Self {
        Self {
            flush_delay: Duration::from_millis(storage.flush_delay_ms),
            poll_time: Duration::from_millis(storage.max_write_queue_poll_time_ms),
            batch_max: storage.max_batch_size as usize,
        }
    }
}

/// Appends groups, syncs them, tells the core.
pub(crate) struct LogThread {
    pub(crate) orders: Receiver<ToLog>,
    pub(crate) commit: GroupCommit,
    /// Shared with the core, which takes it only while this thread has nothing to do.
    pub(crate) file: Arc<Mutex<LogFile>>,
}

/// The log being written, and what goes with each write.
pub(crate) struct LogFile {
    pub(crate) state: Arc<ServerState>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) stats: Arc<ServerStats>,
    pub(crate) core: InputSink,
    pub(crate) history: History<RealDisk>,
    pub(crate) snapshots: SnapshotRequests,
    /// `None` if there is no ensemble.
    pub(crate) members: Option<MembershipFiles>,
    pub(crate) failure: Failure,
}

impl LogThread {
    /// Runs until the core is gone, or until the log cannot be written.
    pub(crate) fn run(self) {
        let mut next = None;
        while let Some(order) = next.take().or_else(|| self.orders.recv().ok()) {
            let mut file = self.file.lock();
            let carried_out = match order {
                ToLog::Group(group) => self.group(&mut file, &group).map(|after| next = after),
                other => file.carry_out(other),
            };
            if let Err(error) = carried_out {
                file.tell(Input::DiskFailed);
                file.fail(&error);
                return;
            }
        }
        tracing::debug!("log thread ends");
    }

    /// Appends groups until one is full or nothing more waits, and syncs them. Returns what comes
    /// next if that was taken and is no group.
    fn group(&self, file: &mut LogFile, first: &LogGroup) -> Result<Option<ToLog>, StorageError> {
        let started = Instant::now();
        let mut times = LogTimes::default();
        let mut appended = file.append(first, &mut times)?;
        let mut last = first.last();
        let mut after = None;
        while appended < self.commit.batch_max {
            match self.next_of_group(started) {
                Some(ToLog::Group(next)) => {
                    appended += file.append(&next, &mut times)?;
                    last = next.last().or(last);
                }
                Some(other) => {
                    after = Some(other);
                    break;
                }
                None => break,
            }
        }
        file.sync(times)?;
        if let Some(zxid) = last {
            file.tell(Input::Synced(zxid));
        }
        Ok(after)
    }

    /// What else belongs to the group that was started at `started`.
    fn next_of_group(&self, started: Instant) -> Option<ToLog> {
        let left = self.commit.flush_delay.saturating_sub(started.elapsed());
        if left.is_zero() {
            return self.orders.try_recv().ok();
        }
        self.orders
            .recv_timeout(left.min(self.commit.poll_time))
            .ok()
    }
}

impl LogFile {
    /// Makes a group durable at once.
    pub(super) fn write(&mut self, group: &LogGroup) -> Result<(), StorageError> {
        let mut times = LogTimes::default();
        self.append(group, &mut times)?;
        self.sync(times)
    }

    fn tell(&self, input: Input) {
        (self.core)(input);
    }

    fn carry_out(&mut self, order: ToLog) -> Result<(), StorageError> {
        match order {
            // A group gathers others and is the thread's own.
            ToLog::Group(group) => self.write(&group)?,
            ToLog::Reload { keep } => self.reload(keep)?,
            ToLog::TakeOver { last, of } => {
                let files = self.snapshots.hold_files();
                self.history.cut_for_snapshot(last)?;
                drop(files);
                self.snapshots.request_for_core(of);
            }
            ToLog::SaveAcceptedEpoch(epoch) => {
                self.history.save_accepted_epoch(epoch)?;
                self.tell(Input::AcceptedEpochSaved(epoch));
            }
            ToLog::SaveCurrentEpoch(epoch) => {
                self.history.save_current_epoch(epoch)?;
                self.tell(Input::CurrentEpochSaved(epoch));
            }
            ToLog::SaveMembers { file, is_required } => self.save_members(&file, is_required),
        }
        Ok(())
    }

    fn save_members(&mut self, file: &MemberFile, is_required: bool) {
        let Some(members) = &mut self.members else {
            return;
        };
        let Err(error) = members.write(file) else {
            return;
        };
        tracing::error!(err = %error, "a member list cannot be written");
        if is_required {
            self.tell(Input::DiskFailed);
            self.failure.report(EXIT_UNEXPECTED);
        }
    }

    /// Nothing of the group is acknowledged: whether its bytes are on disk is unknown.
    pub(super) fn fail(&self, error: &StorageError) {
        tracing::error!(err = %error, "cannot write the transaction log, stopping");
        self.failure.report(exit_code(error));
    }

    /// Loads the tree from disk, after a cut if one is asked for. A cut that cannot be made leaves
    /// all as it is.
    fn reload(&mut self, keep: Option<Zxid>) -> Result<(), StorageError> {
        let begun = Instant::now();
        let _files = self.snapshots.hold_files();
        let (tree, end) = match self.history.reload(keep)? {
            Reloaded::NotCut(error) => {
                tracing::error!(zxid = ?keep, err = %error, "the log cannot be cut as the leader wants it");
                (None, self.state.tree.read().last_zxid())
            }
            Reloaded::Loaded { found, end } => {
                log_recovered(&found, begun);
                self.metrics.loaded(&database_load(&found.recovered));
                (Some(Box::new(found.tree)), end)
            }
        };
        self.tell(Input::Reloaded { tree, end });
        Ok(())
    }

    fn append(&mut self, group: &LogGroup, times: &mut LogTimes) -> Result<usize, StorageError> {
        let begun_ms = clock::monotonic_ms();
        for (zxid, range) in &group.records {
            let payload = group.payloads.get(range.clone()).unwrap_or_default();
            if self.history.append(*zxid, payload, clock::seed)? {
                self.snapshots.request();
            }
        }
        let appended = group.records.len();
        let marks_ms = [group.queued_ms, begun_ms, clock::monotonic_ms()];
        times.appended(&self.metrics, appended, marks_ms);
        Ok(appended)
    }

    fn sync(&mut self, times: LogTimes) -> Result<(), StorageError> {
        let begun_ms = clock::monotonic_ms();
        let committed = self.history.commit()?;
        times.synced(&self.metrics, [begun_ms, clock::monotonic_ms()]);
        let elapsed_ms = u64::try_from(committed.sync_time.as_millis()).unwrap_or(u64::MAX);
        self.metrics.fsynctime.record(elapsed_ms);
        self.metrics
            .sync_processor_batch_size
            .record(committed.txns.into());
        if committed.is_slow {
            self.stats.slow_fsync();
        }
        Ok(())
    }
}
