//! The log thread and the snapshot thread of a server, simulated as jobs that take time.

use host::{
    DiskCommand, DiskFailure, DiskQueue, LogGroup, SnapshotReason, SnapshotWork, carry_out,
    write_group,
};
use proto::Zxid;
use recovery::DurableLog;
use replica::{Input, MemberFile, State};
use storage::{StorageError, purge};
use testkit::SimDisk;

use super::SimHost;
use crate::checks::{OwnSnapshot, StepChecks};
use crate::configured::member_files;
use crate::configured::{SNAPSHOTS_KEPT, sid_of};
use crate::world::{DiskThread, HeldWork};

/// Files of a server, and the work of its disk.
pub struct DiskWork {
    /// Log of the server.
    pub history: DurableLog<SimDisk>,
    pub(super) queue: DiskQueue,
    pub(super) at_work: Option<DiskCommand>,
    /// Work of the snapshot thread.
    pub snapshots: SnapshotWork<SimDisk>,
    /// Last transaction of the tree at the last piece of the snapshot in progress.
    pub(super) covered: Zxid,
    /// Report of the last snapshot, which the core has not received yet.
    pub(super) report: Option<Input>,
}

impl DiskWork {
    /// Describes the work for the log that is not done yet, oldest first.
    pub fn pending(&self) -> impl Iterator<Item = String> {
        let name = |work: &DiskCommand| match work {
            DiskCommand::Group(group) => format!("{} records", group.len()),
            DiskCommand::Order(order) => format!("{order:?}"),
        };
        let group = format!("{} records", self.queue.group.len());
        let at_work = self.at_work.iter().map(name);
        at_work.chain(self.queue.waiting().map(name)).chain([group])
    }

    /// Returns the number of appended records that are not known to be on disk.
    pub fn unsynced(&self) -> usize {
        let at_work = self.at_work.iter().filter_map(DiskCommand::group);
        self.queue.groups().chain(at_work).map(LogGroup::len).sum()
    }
}

impl<C: StepChecks> SimHost<C> {
    /// Starts the next work for the log, unless other work for the log is in progress.
    pub(crate) fn start_order(&mut self) {
        if self.disk.at_work.is_some() {
            return;
        }
        self.disk.at_work = self.disk.queue.take_waiting().or_else(|| self.take_group());
        let Some(next) = &mut self.disk.at_work else {
            return;
        };
        if let DiskCommand::Group(group) = next {
            let is_due = write_group(&mut self.disk.history, group, || self.world.random.any());
            if self.or_exit(is_due) == Some(true) {
                self.request_snapshot(SnapshotReason::Due);
            }
        }
        self.core.disk_begun_at = self.world.now();
        let delay = self.disk_delay();
        self.world
            .start_on_disk(self.process, DiskThread::Log, delay, Self::continue_log);
    }

    /// Returns the value. After a failure, returns `None`, and the process ends without
    /// acknowledging data that may not be on disk.
    fn or_exit<T>(&mut self, done: Result<T, impl ToString>) -> Option<T> {
        let failure = done.as_ref().err().map(ToString::to_string);
        self.ended = self.ended.take().or(failure);
        done.ok()
    }

    pub(super) fn continue_log(&mut self) {
        let held = self.disk.at_work.as_ref().and_then(HeldWork::of);
        if held.is_some_and(|held| self.world.is_held(self.process, held)) {
            return self.world.start_on_disk(
                self.process,
                DiskThread::Log,
                1000,
                Self::continue_log,
            );
        }
        let done = self.carry_out();
        self.or_exit(done);
        self.start_order();
    }

    fn carry_out(&mut self) -> Result<(), DiskFailure> {
        let history = &mut self.disk.history;
        let disk = history.disk().clone();
        let write_members = |file: &MemberFile| member_files::write(&disk, file);
        let done = match self.disk.at_work.take() {
            None => return Ok(()),
            Some(DiskCommand::Group(group)) => self.sync_group(group.len())?,
            Some(DiskCommand::Order(order)) => {
                carry_out(history, order, &*self.state, write_members, |_| ())?
            }
        };
        self.inputs.extend(done.input);
        if let Some(wanted) = done.snapshot {
            self.request_snapshot(wanted);
        }
        Ok(())
    }

    /// Requests a snapshot. Skips a due snapshot that may not begin now.
    pub fn request_snapshot(&mut self, wanted: SnapshotReason) {
        let now_ms = self.world.now_ms();
        if wanted != SnapshotReason::Due || self.disk.snapshots.due().lock().begin(now_ms) {
            self.begin_snapshot(wanted);
        }
    }

    /// Begins the due snapshot that was deferred until the tree was established, if there is one.
    pub(crate) fn resume_snapshot(&mut self) {
        let now_ms = self.world.now_ms();
        let resumes = self.disk.snapshots.due().lock().resume(now_ms);
        if resumes {
            self.begin_snapshot(SnapshotReason::Due);
        }
    }

    fn begin_snapshot(&mut self, wanted: SnapshotReason) {
        let snapshots = &mut self.disk.snapshots;
        let is_idle = snapshots.next().is_none() && self.disk.report.is_none();
        snapshots.request_snapshot(wanted);
        if is_idle {
            let delay = self.world.sync_delay();
            self.world.start_on_disk(
                self.process,
                DiskThread::Snapshot,
                delay,
                Self::continue_snapshot,
            );
        }
    }

    pub(super) fn continue_snapshot(&mut self) {
        let work = match self.disk.snapshots.next() {
            Some(SnapshotReason::Due | SnapshotReason::Operator) => HeldWork::DueSnapshot,
            _ => HeldWork::AdoptSnapshot,
        };
        if !self.world.is_held(self.process, work) {
            let done = self.step_snapshot();
            self.or_exit(done);
        }
        if !self.world.is_held(self.process, HeldWork::Report) {
            self.inputs.extend(self.disk.report.take());
        }
        let delay = match self.disk.snapshots.next() {
            None if self.disk.report.is_none() => return,
            // No role waits for these snapshots, so they take longer than the others.
            Some(SnapshotReason::Due | SnapshotReason::Operator) => self.world.sync_delay(),
            _ => self.world.random.range(20, 500),
        };
        self.world.start_on_disk(
            self.process,
            DiskThread::Snapshot,
            delay,
            Self::continue_snapshot,
        );
    }

    fn step_snapshot(&mut self) -> Result<(), StorageError> {
        let (disk, now_ms) = (&mut self.disk, self.world.now_ms());
        let bytes = self.world.settings.chunk_bytes;
        let (sid, last) = (sid_of(self.process.server), self.state.tree().last_zxid());
        let is_own = matches!(
            disk.snapshots.next(),
            Some(SnapshotReason::Due | SnapshotReason::Operator)
        );
        let begins = is_own && disk.snapshots.writing().is_none();
        if !disk.snapshots.waits_for_log() {
            disk.covered = last;
        }
        let stepped = disk.snapshots.step(&*self.state, bytes, || now_ms, || ())?;
        if begins && (stepped.is_some() || disk.snapshots.writing().is_some()) {
            self.world.checks.begins_snapshot(sid, last);
        }
        if let Some(written) = stepped {
            if written.input.is_none() {
                let written = OwnSnapshot {
                    zxid: written.zxid,
                    covers: disk.covered,
                    last,
                    logged: disk.history.end().get(),
                };
                self.world.checks.writes_snapshot(sid, written);
            }
            if written.input.is_none() && self.world.random.percent(50) {
                let (history, limits) = (&disk.history, testkit::LIMITS);
                let purged = purge(&**history.disk(), history.dirs(), SNAPSHOTS_KEPT, limits);
                // A corrupt old file is not a reason to stop.
                drop(purged);
            }
            disk.report = written.input.or(disk.report.take());
        }
        Ok(())
    }

    /// Completes the current work for the log and the snapshot in progress, as far as the disk
    /// still works. `is_log_first` states which of them comes first.
    pub(crate) fn finish_disk_jobs(&mut self, is_log_first: bool) {
        if is_log_first {
            drop(self.carry_out());
        }
        while self.disk.snapshots.writing().is_some()
            && self.step_snapshot().is_ok()
            && !self.disk.snapshots.waits_for_log()
        {}
        drop(self.carry_out());
    }
}
