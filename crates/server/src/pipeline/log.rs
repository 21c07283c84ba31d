//! The thread that makes transactions durable.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use proto::Zxid;
use storage::{LogWriter, RealDisk, SnapTrigger, StorageError};

use super::ToCore;
use super::snapshot::SnapshotRequests;
use crate::clock;
use crate::error::exit_code;
use crate::failure::Failure;
use crate::shared::Shared;

/// Encoded transactions on their way to the log.
#[derive(Default)]
pub(crate) struct LogGroup {
    pub(super) payloads: Vec<u8>,
    pub(super) records: Vec<(Zxid, Range<usize>)>,
}

impl LogGroup {
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}

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

/// Appends groups, syncs them, tells the core.
pub(crate) struct LogThread {
    pub(crate) shared: Arc<Shared>,
    pub(crate) groups: Receiver<LogGroup>,
    pub(crate) core: Sender<ToCore>,
    pub(crate) writer: LogWriter<RealDisk>,
    pub(crate) trigger: SnapTrigger,
    pub(crate) snapshots: SnapshotRequests,
    pub(crate) commit: GroupCommit,
    pub(crate) failure: Failure,
}

impl LogThread {
    /// Runs until the core is gone, or until the log cannot be written.
    pub(crate) fn run(mut self) {
        while let Ok(first) = self.groups.recv() {
            if let Err(error) = self.group(first) {
                // Nothing of this group is acknowledged: whether its bytes are on disk is unknown.
                tracing::error!(err = %error, "cannot write the transaction log, stopping");
                let _ = self.core.send(ToCore::LogFailed);
                self.failure.report(exit_code(&error));
                return;
            }
        }
        tracing::debug!("log thread ends");
    }

    fn group(&mut self, first: LogGroup) -> Result<(), StorageError> {
        let started = Instant::now();
        let mut appended = self.append(&first)?;
        let mut last = first.records.last().map(|(zxid, _)| *zxid);
        while appended < self.commit.batch_max {
            let Some(next) = self.next_of_group(started) else {
                break;
            };
            appended += self.append(&next)?;
            last = next.records.last().map(|(zxid, _)| *zxid).or(last);
        }
        self.sync()?;
        if let Some(zxid) = last {
            let _ = self.core.send(ToCore::Synced(zxid));
        }
        Ok(())
    }

    /// What else belongs to the group that was started at `started`.
    fn next_of_group(&self, started: Instant) -> Option<LogGroup> {
        let left = self.commit.flush_delay.saturating_sub(started.elapsed());
        if left.is_zero() {
            return self.groups.try_recv().ok();
        }
        self.groups
            .recv_timeout(left.min(self.commit.poll_time))
            .ok()
    }

    fn append(&mut self, group: &LogGroup) -> Result<usize, StorageError> {
        for (zxid, range) in &group.records {
            let payload = group.payloads.get(range.clone()).unwrap_or_default();
            self.writer.append(*zxid, payload)?;
            if self.trigger.is_due(self.writer.txns(), self.writer.bytes()) {
                self.writer.roll()?;
                self.writer.reset_counters();
                self.trigger.redraw(clock::seed());
                self.snapshots.request();
            }
        }
        Ok(group.records.len())
    }

    fn sync(&mut self) -> Result<(), StorageError> {
        let committed = self.writer.commit()?;
        let elapsed_ms = u64::try_from(committed.sync_time.as_millis()).unwrap_or(u64::MAX);
        self.shared.metrics.fsynctime.record(elapsed_ms);
        self.shared
            .metrics
            .sync_processor_batch_size
            .record(committed.txns.into());
        if committed.is_slow {
            self.shared.stats.slow_fsync();
        }
        Ok(())
    }
}
