//! The thread that makes transactions durable.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use host::{
    DiskCommand, DiskFailure, LogGroup, OrderResults, ServerState, SnapshotReason, Syncer,
    carry_out, sync, write_group,
};
use metrics::traces::Traces;
use metrics::{LogTimes, Metrics, ServerStats};
use parking_lot::Mutex;
use proto::Zxid;
use recovery::{DurableLog, RecoveredTree};
use replica::{DiskOrder, Input, MemberFile};
use storage::{Committed, Disk, StorageError};

use super::members::MembershipFiles;
use super::recovery::{database_load, log_recovered};
use super::snapshot::SnapshotRequests;
use crate::clock;
use crate::error::exit_code;
use crate::failure::Failure;
use crate::inbox::InputSink;

/// Report about a sync.
pub(crate) struct Synced {
    /// Thread that performed the sync.
    pub(crate) syncer: Syncer,
    /// Last transaction that is on disk.
    pub(crate) upto: Zxid,
    /// Number of transactions that were synced together.
    pub(crate) txns: usize,
    /// Duration of the sync.
    pub(crate) took: Duration,
}

/// Function that reports a sync to the core.
pub(crate) type SyncedSink = Arc<dyn Fn(Synced) + Send + Sync>;

/// Exit code for unexpected failures. Source: ExitCode.UNEXPECTED_ERROR.
const EXIT_UNEXPECTED: u8 = 1;

/// Conditions under which the log thread syncs a group (`flushDelay`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupCommit {
    /// Maximum time for which a group's first transaction waits for more transactions; zero to sync
    /// immediately.
    pub(crate) flush_delay: Duration,
    /// Maximum time to wait for the next transaction (`maxWriteQueuePollTime`).
    pub(crate) poll_time: Duration,
    /// Number of transactions after which a group is synced (`maxBatchSize`).
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

/// Clears a group and returns it to the core.
pub(super) fn recycle(spent: &Sender<LogGroup>, mut group: LogGroup) {
    group.clear();
    // Fails only if the core has enough groups or has ended.
    let _ = spent.try_send(group);
}

/// State of the log thread, which appends groups, syncs them, and reports to the core.
pub(crate) struct LogThread {
    pub(crate) orders: Receiver<DiskCommand>,
    /// Sender that returns empty groups. They are returned because memory that one thread allocates
    /// and another frees is not immediately reused.
    pub(crate) spent: Sender<LogGroup>,
    pub(crate) commit: GroupCommit,
    /// The log file. Threads that sync a group instead of this thread use the file, too, but only
    /// while this thread is idle.
    pub(crate) file: Arc<Mutex<LogFile>>,
    /// Number of orders that were sent to this thread and are not executed yet. Until they are
    /// executed, no other thread writes the log.
    pub(crate) orders_under_way: Arc<AtomicUsize>,
    /// Function that reports syncs. The core may then run on this thread and lock the file, so this
    /// thread must not hold the lock.
    pub(crate) synced: SyncedSink,
}

/// A log on any kind of disk. Each call concerns a whole group or order, so dynamic dispatch costs
/// little, and the core and the log thread need not be generic over the disk.
pub(crate) trait LogOnDisk: Send {
    /// Appends a group, and returns whether a snapshot is due.
    fn append(&mut self, group: &LogGroup) -> Result<bool, StorageError>;

    /// Makes all appended transactions durable.
    fn sync(&mut self) -> Result<Committed, StorageError>;

    /// Executes an order.
    fn carry_out(
        &mut self,
        order: DiskOrder,
        state: &ServerState,
        members: Option<&mut MembershipFiles>,
        metrics: &Metrics,
    ) -> Result<OrderResults, DiskFailure>;

    /// Returns the last appended transaction.
    fn appended(&self) -> Zxid;
}

impl<D: Disk> LogOnDisk for DurableLog<D> {
    fn append(&mut self, group: &LogGroup) -> Result<bool, StorageError> {
        write_group(self, group, clock::seed)
    }

    fn sync(&mut self) -> Result<Committed, StorageError> {
        sync(self).map(|(committed, _)| committed)
    }

    fn carry_out(
        &mut self,
        order: DiskOrder,
        state: &ServerState,
        members: Option<&mut MembershipFiles>,
        metrics: &Metrics,
    ) -> Result<OrderResults, DiskFailure> {
        let begun = Instant::now();
        let write_members = |file: &MemberFile| match members {
            Some(members) => members.write(file),
            None => Ok(()),
        };
        let loaded = |found: &RecoveredTree| {
            log_recovered(found, begun);
            metrics.loaded(&database_load(&found.recovered));
        };
        carry_out(self, order, state, write_members, loaded)
    }

    fn appended(&self) -> Zxid {
        Self::appended(self)
    }
}

/// Current log file, and the state that each write updates.
pub(crate) struct LogFile {
    pub(crate) state: Arc<ServerState>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) stats: Arc<ServerStats>,
    pub(crate) core: InputSink,
    pub(crate) history: Box<dyn LogOnDisk>,
    pub(crate) snapshots: SnapshotRequests,
    /// Files of the member lists; `None` without an ensemble.
    pub(crate) members: Option<MembershipFiles>,
    pub(crate) failure: Failure,
    /// Traces of writes; `None` without a collector.
    pub(crate) traces: Option<Arc<Traces>>,
}

impl LogThread {
    /// Runs until the core has ended or the log cannot be written.
    pub(crate) fn run(self) {
        let mut next = None;
        while let Some(order) = next.take().or_else(|| self.orders.recv().ok()) {
            blocking::mark("wait for the log file");
            let mut file = self.file.lock();
            let carried_out = match order {
                DiskCommand::Group(group) => self.group(&mut file, group).map(|(after, synced)| {
                    next = after;
                    Some(synced)
                }),
                DiskCommand::Order(order) => {
                    let done = file.carry_out(order);
                    self.orders_under_way.fetch_sub(1, Ordering::Release);
                    done.map(|()| None)
                }
            };
            match carried_out {
                Ok(None) => {}
                Ok(Some(synced)) => {
                    drop(file);
                    (self.synced)(synced);
                }
                Err(error) => {
                    file.send_to_core(Input::DiskFailed);
                    file.fail(&error);
                    return;
                }
            }
        }
        tracing::debug!("log thread ended");
    }

    /// Appends this group and others that arrive in time, until `batch_max` is reached, then syncs
    /// them. Returns the next order, if one was received, and the report about the sync.
    fn group(
        &self,
        file: &mut LogFile,
        first: LogGroup,
    ) -> Result<(Option<DiskCommand>, Synced), DiskFailure> {
        let started = Instant::now();
        let mut times = LogTimes::default();
        let mut appended = file.append(&first, &mut times)?;
        self.recycle(first);
        let mut after = None;
        while appended < self.commit.batch_max {
            match self.next_of_group(started) {
                Some(DiskCommand::Group(next)) => {
                    appended += file.append(&next, &mut times)?;
                    self.recycle(next);
                }
                Some(other) => {
                    after = Some(other);
                    break;
                }
                None => break,
            }
        }
        Ok((after, file.sync(times, Syncer::LogThread)?))
    }

    fn recycle(&self, group: LogGroup) {
        recycle(&self.spent, group);
    }

    /// Returns the next order that arrives while the group that was started at `started` waits.
    fn next_of_group(&self, started: Instant) -> Option<DiskCommand> {
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
    /// Makes a group durable.
    pub(super) fn write(
        &mut self,
        group: &LogGroup,
        syncer: Syncer,
    ) -> Result<Synced, DiskFailure> {
        let mut times = LogTimes::default();
        self.append(group, &mut times)?;
        Ok(self.sync(times, syncer)?)
    }

    pub(super) fn send_to_core(&self, input: Input) {
        (self.core)(input);
    }

    fn carry_out(&mut self, order: DiskOrder) -> Result<(), DiskFailure> {
        let loads_or_cuts = matches!(order, DiskOrder::Reload { .. } | DiskOrder::TakeOver { .. });
        let files = loads_or_cuts.then(|| self.snapshots.lock_files());
        let members = self.members.as_mut();
        let done = self
            .history
            .carry_out(order, &self.state, members, &self.metrics)?;
        drop(files);
        if let Some(input) = done.input {
            self.send_to_core(input);
        }
        match done.snapshot {
            Some(SnapshotReason::Synchronised(of)) => self.snapshots.request_for_core(of),
            Some(SnapshotReason::Due | SnapshotReason::First | SnapshotReason::Operator) => {
                self.snapshots.request();
            }
            None => {}
        }
        Ok(())
    }

    /// Reports the failure. The group is not acknowledged, because it is unknown whether its bytes
    /// are on disk.
    pub(super) fn fail(&self, error: &DiskFailure) {
        self.failure.report(match error {
            DiskFailure::History(error) => {
                tracing::error!(err = %error, "cannot write the transaction log, stopping");
                exit_code(error)
            }
            DiskFailure::Members(_) => EXIT_UNEXPECTED,
        });
    }

    fn append(&mut self, group: &LogGroup, times: &mut LogTimes) -> Result<usize, StorageError> {
        let begun_ms = clock::monotonic_ms();
        if self.history.append(group)? {
            self.snapshots.request();
        }
        let appended = group.len();
        let marks_ms = [group.queued_ms(), begun_ms, clock::monotonic_ms()];
        times.appended(&self.metrics, appended, marks_ms);
        Ok(appended)
    }

    fn sync(&mut self, times: LogTimes, syncer: Syncer) -> Result<Synced, StorageError> {
        let begun_ms = clock::monotonic_ms();
        let traces = self.traces.as_ref().filter(|traces| traces.awaits_sync());
        let begun_ns = traces.map(|_| clock::wall_ns());
        let committed = self.history.sync()?;
        if let Some((traces, begun_ns)) = traces.zip(begun_ns) {
            traces.synced(self.history.appended(), begun_ns, clock::wall_ns());
        }
        times.synced(&self.metrics, [begun_ms, clock::monotonic_ms()]);
        let elapsed_ms = u64::try_from(committed.sync_time.as_millis()).unwrap_or(u64::MAX);
        self.metrics.fsynctime.record(elapsed_ms);
        self.metrics
            .sync_processor_batch_size
            .record(committed.txns.into());
        if committed.is_slow {
            self.stats.slow_fsync();
        }
        Ok(Synced {
            syncer,
            upto: self.history.appended(),
            txns: committed.txns as usize,
            took: committed.sync_time,
        })
    }
}
