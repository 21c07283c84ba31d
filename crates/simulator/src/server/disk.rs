//! The log thread and the snapshot thread of a server, with the storage calls of the real ones in
//! the same order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use jute::Limits;
use proto::{Epoch, Zxid};
use recovery::recover_tree;
use replica::{Input, State};
use storage::{
    Compression, DataDirs, Epochs, LogSettings, LogWriter, RecoverySettings, SnapTrigger,
    SnapshotTrailer, SnapshotWriter, StorageError, purge,
};
use testkit::SimDisk;
use tree::{SnapshotCursor, Tree};
use zab::Record;

use super::boot::tree_settings;
use super::host::SimHost;
use super::state::SimState;
use super::{Held, Job};
use crate::Mutant;
use crate::queue::Micros;
use crate::world::World;

/// Snapshots kept by a purge.
const KEPT: usize = 3;

/// What the log thread is told.
#[derive(Debug)]
pub(super) enum Order {
    Group(Vec<Record>),
    SaveAccepted(Epoch),
    SaveCurrent(Epoch),
    Reload(Option<Zxid>),
    TakeOver(Zxid, TakenOver),
}

/// A leader's history that takes the place of this server's own.
#[derive(Debug, Clone, Copy)]
pub(super) struct TakenOver {
    attempt: u64,
    generation: u64,
}

/// The disk of a server, and what it was asked for.
pub(super) struct DiskWork {
    pub(super) disk: Arc<SimDisk>,
    pub(super) dirs: DataDirs,
    recovery: RecoverySettings,
    writer: LogWriter<SimDisk>,
    trigger: SnapTrigger,
    /// Appended since the last order.
    group: Vec<Record>,
    orders: VecDeque<Order>,
    at_work: Option<Order>,
    /// Snapshots to be written; those without a reason are due.
    snapshots: VecDeque<Option<TakenOver>>,
    snapshot: Option<Snapshot>,
    /// Whether one that is due is asked for or under way.
    pub(super) is_due: bool,
    /// What a mutant logs too late.
    kept: Vec<Record>,
}

/// A snapshot that is being written while changes go on.
struct Snapshot {
    of: Option<TakenOver>,
    generation: u64,
    cursor: SnapshotCursor,
    writer: Option<SnapshotWriter<SimDisk>>,
    /// All of it, for a mutant that names it last.
    bytes: Vec<u8>,
}

impl DiskWork {
    pub(super) fn new(
        disk: Arc<SimDisk>,
        dirs: DataDirs,
        recovery: RecoverySettings,
        world: &mut World,
    ) -> Self {
        Self {
            writer: new_writer(&disk, &dirs),
            disk,
            dirs,
            recovery,
            trigger: SnapTrigger::new(world.plan.snap_count, 0, world.random.any()),
            group: Vec::new(),
            orders: VecDeque::new(),
            at_work: None,
            snapshots: VecDeque::new(),
            snapshot: None,
            is_due: false,
            kept: Vec::new(),
        }
    }

    /// A log without a snapshot does not recover: the first one must be there before it.
    pub(super) fn write_first_snapshot(&self, state: &SimState) -> Result<(), StorageError> {
        let mut snapshot = self.begin_snapshot(None, state, false)?;
        let mut chunk = Vec::new();
        let tree = state.tree();
        while tree.snapshot_chunk(&mut snapshot.cursor, 1 << 20, &mut chunk) {}
        snapshot.write(&chunk)?;
        self.finish_snapshot(snapshot, &tree).map(drop)
    }

    fn begin_snapshot(
        &self,
        of: Option<TakenOver>,
        state: &SimState,
        is_named_late: bool,
    ) -> Result<Snapshot, StorageError> {
        let cursor = state.tree().start_snapshot();
        let writer = match is_named_late {
            true => None,
            false => Some(self.snapshot_writer(cursor.zxid())?),
        };
        Ok(Snapshot {
            of,
            generation: state.generation(),
            cursor,
            writer,
            bytes: Vec::new(),
        })
    }

    fn snapshot_writer(&self, zxid: Zxid) -> Result<SnapshotWriter<SimDisk>, StorageError> {
        let disk = Arc::clone(&self.disk);
        SnapshotWriter::new(disk, &self.dirs, zxid, Compression::None, true)
    }

    fn finish_snapshot(&self, snapshot: Snapshot, tree: &Tree) -> Result<Zxid, StorageError> {
        let (digest_zxid, digest) = tree.last_applied_digest().unwrap_or((Zxid::ZERO, 0));
        let trailer = SnapshotTrailer {
            digest: Some((digest_zxid, digest.cast_signed())),
            last_zxid: Some(tree.last_zxid()),
        };
        let zxid = snapshot.cursor.zxid();
        let writer = match snapshot.writer {
            Some(writer) => writer,
            None => {
                let mut writer = self.snapshot_writer(tree.last_zxid())?;
                writer.write(&snapshot.bytes)?;
                writer
            }
        };
        writer.finish(trailer)?;
        if snapshot.of.is_some() {
            storage::remove_other_snapshots(&*self.disk, &self.dirs, zxid)?;
        }
        Ok(zxid)
    }

    fn cut_after(&self, last: Zxid) -> Result<(), StorageError> {
        let limits = Limits::default();
        let end = storage::last_logged_zxid(&*self.disk, &self.dirs, limits)?;
        if end.is_some_and(|end| end > last) {
            match storage::truncate(&*self.disk, &self.dirs, last, limits) {
                // Only snapshots beyond it load, until the leader's is written.
                Err(StorageError::Truncate { .. }) => {
                    storage::cut_log(&*self.disk, &self.dirs, last, limits)?;
                }
                truncated => drop(truncated?),
            }
        }
        Ok(())
    }

    /// The kind of what the log thread does, for scripts.
    fn held(&self) -> Option<Held> {
        match self.at_work {
            Some(Order::Group(_)) => Some(Held::Sync),
            Some(Order::SaveCurrent(_)) => Some(Held::SaveCurrent),
            _ => None,
        }
    }
}

impl Snapshot {
    fn write(&mut self, chunk: &[u8]) -> Result<(), StorageError> {
        match &mut self.writer {
            Some(writer) => writer.write(chunk),
            None => {
                self.bytes.extend_from_slice(chunk);
                Ok(())
            }
        }
    }
}

fn new_writer(disk: &Arc<SimDisk>, dirs: &DataDirs) -> LogWriter<SimDisk> {
    let settings = LogSettings {
        prealloc_bytes: 2048,
        fsync_warning: Duration::MAX,
        ..LogSettings::default()
    };
    LogWriter::new(Arc::clone(disk), dirs, settings)
}

impl SimHost {
    /// How long the disk takes for a sync.
    fn sync_delay(&mut self) -> Micros {
        let longest = self.world.plan.sync;
        if !self.world.is_healed && self.world.random.percent(2) {
            return longest * self.world.random.range(5, 40);
        }
        self.world.random.range(100, longest + 101)
    }

    pub(super) fn append(&mut self, record: Record) {
        let zxid = record.zxid;
        let is_synchronising = !self.leads && !self.is_active;
        if self.world.is(Mutant::HistoryLoggedAfterAck) && is_synchronising {
            self.disk.kept.push(record);
            return self.inputs.push_back(Input::Synced(zxid));
        }
        if self.world.is(Mutant::AckBeforeSync)
            || (self.world.is(Mutant::HistoryAckedBeforeSync) && is_synchronising)
        {
            self.inputs.push_back(Input::Synced(zxid));
        }
        self.disk.group.push(record);
    }

    /// What mutants do when the epoch of a role is established.
    pub(super) fn epoch_is_active(&mut self) {
        let kept = std::mem::take(&mut self.disk.kept);
        self.disk.group.extend(kept);
        let newest = self.disk.group.last().map(|record| record.zxid);
        if let Some(zxid) = newest
            && self.world.is(Mutant::SyncProposalsAckedBeforeSync)
        {
            self.inputs.push_back(Input::Synced(zxid));
        }
    }

    /// Nothing more is appended for now.
    pub(super) fn flush_log(&mut self) {
        if !self.disk.group.is_empty() {
            let group = std::mem::take(&mut self.disk.group);
            self.disk.orders.push_back(Order::Group(group));
        }
        self.start_order();
    }

    /// An order for the log thread, behind all that was appended.
    pub(super) fn order(&mut self, order: Order) {
        if !self.disk.group.is_empty() {
            let group = std::mem::take(&mut self.disk.group);
            self.disk.orders.push_back(Order::Group(group));
        }
        match order {
            // As if another thread than the log's wrote it.
            Order::SaveCurrent(_) if self.world.is(Mutant::HistoryAckedBeforeSync) => {
                drop(self.carry_out(order));
            }
            order => self.disk.orders.push_back(order),
        }
        self.start_order();
    }

    pub(super) fn take_over(&mut self, attempt: u64, last: Zxid) {
        let generation = self.state.generation();
        let of = TakenOver {
            attempt,
            generation,
        };
        self.order(Order::TakeOver(last, of));
        if self.world.is(Mutant::NewLeaderBeforeSnapshot) {
            let zxid = last;
            self.inputs
                .push_back(Input::SnapshotWritten { attempt, zxid });
        }
    }

    /// The log thread begins with what comes next, if it has nothing to do.
    fn start_order(&mut self) {
        if self.disk.at_work.is_some() {
            return;
        }
        let Some(mut order) = self.disk.orders.pop_front() else {
            return;
        };
        if let Order::Group(group) = &mut order {
            while let Some(Order::Group(next)) = self.disk.orders.front_mut() {
                group.append(next);
                self.disk.orders.pop_front();
            }
            if let Err(error) = self.write_group(group) {
                return self.exit(error.to_string());
            }
        }
        self.disk.at_work = Some(order);
        let delay = self.sync_delay();
        self.start_job(Job::Log, delay);
    }

    fn write_group(&mut self, group: &[Record]) -> Result<(), StorageError> {
        for record in group {
            let writer = &mut self.disk.writer;
            writer.append(record.zxid, &record.txn)?;
            if self.disk.trigger.is_due(writer.txns(), writer.bytes()) {
                writer.roll()?;
                writer.reset_counters();
                self.disk.trigger.redraw(self.world.random.any());
                self.request_snapshot();
            }
        }
        Ok(())
    }

    pub(super) fn continue_log(&mut self) {
        let held = self.disk.held().map(|held| (self.index, held));
        if held.is_some_and(|held| self.world.held.contains(&held)) {
            return self.start_job(Job::Log, 1000);
        }
        let Some(order) = self.disk.at_work.take() else {
            return;
        };
        match self.carry_out(order) {
            Ok(()) => self.start_order(),
            // Nothing of it is acknowledged: whether its bytes are on disk is unknown.
            Err(error) => self.exit(error.to_string()),
        }
    }

    fn carry_out(&mut self, order: Order) -> Result<(), StorageError> {
        match order {
            Order::Group(group) => {
                match self.disk.writer.commit() {
                    Err(_) if self.world.is(Mutant::FailedSyncIgnored) => self.renew_writer(),
                    committed => drop(committed?),
                }
                if let Some(last) = group.last() {
                    self.inputs.push_back(Input::Synced(last.zxid));
                }
            }
            Order::SaveAccepted(epoch) => {
                if !self.world.is(Mutant::AcceptedEpochNotSaved) {
                    Epochs::store_accepted(&*self.disk.disk, &self.disk.dirs, epoch)?;
                }
                self.inputs.push_back(Input::AcceptedEpochSaved(epoch));
            }
            Order::SaveCurrent(epoch) => {
                if !self.world.is(Mutant::CurrentEpochNotSaved) {
                    self.save_current(epoch)?;
                }
                self.inputs.push_back(Input::CurrentEpochSaved(epoch));
            }
            Order::Reload(keep) => {
                let reloaded = self.reload(keep)?;
                self.inputs.push_back(reloaded);
            }
            Order::TakeOver(last, of) => {
                self.renew_writer();
                self.disk.cut_after(last)?;
                self.disk.snapshots.push_back(Some(of));
                let delay = self.sync_delay();
                self.start_job(Job::Snapshot, delay);
            }
        }
        Ok(())
    }

    /// The next record begins a new file.
    fn renew_writer(&mut self) {
        if !self.world.is(Mutant::OldLogWriterLives) {
            self.disk.writer = new_writer(&self.disk.disk, &self.disk.dirs);
        }
    }

    pub(super) fn save_current(&mut self, epoch: Epoch) -> Result<(), StorageError> {
        Epochs::store_current(&*self.disk.disk, &self.disk.dirs, epoch)
    }

    /// Loads the tree from disk, after a cut if one is asked for. A cut that cannot be made leaves
    /// all as it is.
    fn reload(&mut self, keep: Option<Zxid>) -> Result<Input, StorageError> {
        self.renew_writer();
        let disk = &self.disk;
        if let Some(keep) = keep
            && !self.world.is(Mutant::SkipTruncate)
            && let Err(error) = storage::truncate(&*disk.disk, &disk.dirs, keep, Limits::default())
        {
            self.world
                .say(self.sid, || format!("the log cannot be cut: {error}"));
            let end = self.state.tree().last_zxid();
            return Ok(Input::Reloaded { tree: None, end });
        }
        if let Some(end) = keep
            && self.world.is(Mutant::TruncateKeepsTree)
        {
            return Ok(Input::Reloaded { tree: None, end });
        }
        let found = recover_tree(&*disk.disk, &disk.dirs, &disk.recovery, tree_settings())?;
        let end = match keep {
            Some(keep) if self.world.is(Mutant::SkipTruncate) => keep,
            _ => found.tree.last_zxid(),
        };
        self.world
            .say(self.sid, || format!("has loaded its history up to {end}"));
        let tree = Some(Box::new(found.tree));
        Ok(Input::Reloaded { tree, end })
    }

    /// Asks for a snapshot, unless one that was due is being written.
    pub(super) fn request_snapshot(&mut self) {
        if !self.disk.is_due {
            self.disk.is_due = true;
            self.disk.snapshots.push_back(None);
            let delay = self.sync_delay();
            self.start_job(Job::Snapshot, delay);
        }
    }

    pub(super) fn continue_snapshot(&mut self) {
        let step = match self.disk.snapshot.take() {
            Some(snapshot) => self.step_snapshot(snapshot),
            None => self.next_snapshot(),
        };
        if let Err(error) = step {
            self.exit(error.to_string());
        }
    }

    fn next_snapshot(&mut self) -> Result<(), StorageError> {
        let Some(of) = self.disk.snapshots.pop_front() else {
            return Ok(());
        };
        if of.is_some_and(|of| of.generation != self.state.generation()) {
            // The role that asked for it is over.
            return Ok(());
        }
        let is_named_late = of.is_none() && self.world.is(Mutant::SnapshotNamedTooLate);
        let snapshot = self.disk.begin_snapshot(of, &self.state, is_named_late)?;
        self.step_snapshot(snapshot)
    }

    fn step_snapshot(&mut self, mut snapshot: Snapshot) -> Result<(), StorageError> {
        let held = (self.index, Held::AdoptSnapshot);
        if snapshot.of.is_some() && self.world.held.contains(&held) {
            self.disk.snapshot = Some(snapshot);
            self.start_job(Job::Snapshot, 1000);
            return Ok(());
        }
        let state = self.state.clone();
        let mut chunk = Vec::new();
        let more = snapshot.generation == state.generation() && {
            let (tree, bytes) = (state.tree(), self.world.plan.chunk_bytes);
            tree.snapshot_chunk(&mut snapshot.cursor, bytes, &mut chunk)
        };
        if more {
            snapshot.write(&chunk)?;
            let is_due = snapshot.of.is_none();
            self.disk.snapshot = Some(snapshot);
            // One that is due takes its time; for the other one a leader waits.
            let delay = match is_due {
                true => self.sync_delay(),
                false => self.world.random.range(20, 500),
            };
            self.start_job(Job::Snapshot, delay);
            return Ok(());
        }
        let of = snapshot.of;
        if of.is_none() {
            self.disk.is_due = false;
        }
        if snapshot.generation == state.generation() {
            snapshot.write(&chunk)?;
            let zxid = self.disk.finish_snapshot(snapshot, &state.tree())?;
            self.world
                .say(self.sid, || format!("has written snapshot {zxid}"));
            self.snapshot_is_written(of, zxid);
        }
        if !self.disk.snapshots.is_empty() {
            self.start_job(Job::Snapshot, 500);
        }
        Ok(())
    }

    fn snapshot_is_written(&mut self, of: Option<TakenOver>, zxid: Zxid) {
        if let Some(TakenOver { attempt, .. }) = of {
            let zxid = match self.world.is(Mutant::LogWithHoleServed) {
                true => Zxid::ZERO,
                false => zxid,
            };
            self.inputs
                .push_back(Input::SnapshotWritten { attempt, zxid });
        } else if self.world.random.percent(50)
            && let Err(error) = purge(&*self.disk.disk, &self.disk.dirs, KEPT, Limits::default())
        {
            // Damage of an old file is no reason to stop.
            self.world
                .say(self.sid, || format!("cannot purge: {error}"));
        }
    }

    /// The power is about to go while the disk does all this.
    pub(crate) fn finish_disk_jobs(&mut self) {
        if let Some(order) = self.disk.at_work.take() {
            drop(self.carry_out(order));
        }
        let state = self.state.clone();
        if let Some(mut snapshot) = self.disk.snapshot.take()
            && snapshot.generation == state.generation()
        {
            let (tree, mut chunk) = (state.tree(), Vec::new());
            while tree.snapshot_chunk(&mut snapshot.cursor, 1 << 20, &mut chunk) {}
            if snapshot.write(&chunk).is_ok() {
                drop(self.disk.finish_snapshot(snapshot, &tree));
            }
        }
    }
}
