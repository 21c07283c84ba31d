//! The log thread and the snapshot thread of a server, as jobs that take time.

use std::collections::VecDeque;
use std::sync::Arc;

use jute::Limits;
use proto::{Epoch, Zxid};
use recovery::{History, NewSnapshot, Reloaded, TreeReader};
use replica::{Input, MemberFile, State};
use storage::{DataDirs, LogPages, Payload, StorageError, Unusable, purge};
use testkit::SimDisk;
use zab::Record;

use super::host::SimHost;
use super::{Held, Job};
use crate::configured::SNAPSHOTS;
use crate::member_files;
use crate::queue::Micros;

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
    SaveMembers(MemberFile, bool),
}

/// For which attempt, and in which generation, a leader's history takes the place of this server's.
type TakenOver = (u64, u64);

/// The disk of a server, and what it was asked for.
pub(super) struct DiskWork {
    pub(super) disk: Arc<SimDisk>,
    dirs: DataDirs,
    history: History<SimDisk>,
    /// Appended since the last order.
    pub(super) group: Vec<Record>,
    orders: VecDeque<Order>,
    at_work: Option<Order>,
    /// Snapshots to be written; those without a reason are due.
    snapshots: VecDeque<Option<TakenOver>>,
    snapshot: Option<(Option<TakenOver>, NewSnapshot<SimDisk>)>,
}

impl DiskWork {
    pub(super) fn new(disk: Arc<SimDisk>, dirs: DataDirs, history: History<SimDisk>) -> Self {
        Self {
            disk,
            dirs,
            history,
            group: Vec::new(),
            orders: VecDeque::new(),
            at_work: None,
            snapshots: VecDeque::new(),
            snapshot: None,
        }
    }

    /// Records that are not on the disk yet.
    pub(super) fn unsynced(&self) -> usize {
        let orders = self.orders.iter().chain(&self.at_work);
        let in_orders = orders.map(|order| match order {
            Order::Group(group) => group.len(),
            _ => 0,
        });
        self.group.len() + in_orders.sum::<usize>()
    }

    /// Some of the log, for a learner.
    pub(super) fn log_page(
        &self,
        page_bytes: usize,
        from: Zxid,
        upto: Zxid,
    ) -> Result<Vec<Payload>, Unusable> {
        let pages = LogPages {
            disk: &*self.disk,
            dirs: self.dirs.clone(),
            limits: Limits::default(),
            size_factor: 0.0,
            page_bytes,
        };
        pages.page(&mut None, from, upto)
    }
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

    /// An order for the log thread, behind all that was appended.
    pub(super) fn order(&mut self, order: Order) {
        let group = std::mem::take(&mut self.disk.group);
        self.disk.orders.push_back(Order::Group(group));
        self.disk.orders.push_back(order);
        self.start_order();
    }

    /// The log thread begins with what comes next, if it has nothing to do.
    pub(super) fn start_order(&mut self) {
        if self.disk.at_work.is_some() {
            return;
        }
        let mut group = Vec::new();
        while let Some(Order::Group(next)) = self.disk.orders.front_mut() {
            group.append(next);
            self.disk.orders.pop_front();
        }
        if self.disk.orders.is_empty() {
            group.append(&mut self.disk.group);
        }
        self.disk.at_work = match group.is_empty() {
            true => self.disk.orders.pop_front(),
            false => Some(Order::Group(group)),
        };
        if self.disk.at_work.is_some() {
            let written = self.write_group();
            self.or_exit(written);
            let delay = self.sync_delay();
            self.start_job(Job::Log, delay);
        }
    }

    fn write_group(&mut self) -> Result<(), StorageError> {
        let Some(Order::Group(group)) = &self.disk.at_work else {
            return Ok(());
        };
        let (history, random) = (&mut self.disk.history, &mut self.world.random);
        let mut is_due = false;
        for record in group {
            is_due |= history.append(record.zxid, &record.txn, || random.any())?;
        }
        if is_due {
            self.request_snapshot(None);
        }
        Ok(())
    }

    /// Nothing of what failed is acknowledged: whether its bytes are on disk is unknown.
    fn or_exit(&mut self, done: Result<(), StorageError>) {
        if let Err(error) = done {
            self.exit(error.to_string());
        }
    }

    pub(super) fn continue_log(&mut self) {
        let held = match &self.disk.at_work {
            Some(Order::Group(_)) => Some(Held::Sync),
            Some(Order::SaveCurrent(_)) => Some(Held::SaveCurrent),
            _ => None,
        };
        if held.is_some_and(|held| self.world.held.contains(&(self.index, held))) {
            return self.start_job(Job::Log, 1000);
        }
        let done = self.carry_out();
        self.or_exit(done);
        self.start_order();
    }

    fn carry_out(&mut self) -> Result<(), StorageError> {
        let history = &mut self.disk.history;
        let done = match self.disk.at_work.take() {
            None => return Ok(()),
            Some(Order::Group(group)) => {
                history.commit()?;
                group.last().map(|last| Input::Synced(last.zxid))
            }
            Some(Order::SaveAccepted(epoch)) => {
                history.save_accepted_epoch(epoch)?;
                Some(Input::AcceptedEpochSaved(epoch))
            }
            Some(Order::SaveCurrent(epoch)) => {
                history.save_current_epoch(epoch)?;
                Some(Input::CurrentEpochSaved(epoch))
            }
            Some(Order::Reload(keep)) => Some(match history.reload(keep)? {
                Reloaded::NotCut(error) => {
                    self.say(|| format!("the log cannot be cut: {error}"));
                    let end = self.state.tree().last_zxid();
                    Input::Reloaded { tree: None, end }
                }
                Reloaded::Loaded { found, end } => {
                    let tree = Some(Box::new(found.tree));
                    Input::Reloaded { tree, end }
                }
            }),
            Some(Order::SaveMembers(file, is_required)) => {
                match member_files::write(&self.disk.disk, &file) {
                    Err(error) if is_required => self.exit(error.to_string()),
                    _ => {}
                }
                None
            }
            Some(Order::TakeOver(last, of)) => {
                history.cut_for_snapshot(last)?;
                self.request_snapshot(Some(of));
                None
            }
        };
        self.inputs.extend(done);
        Ok(())
    }

    /// Asks for a snapshot; a further one that is only due is dropped.
    pub(super) fn request_snapshot(&mut self, of: Option<TakenOver>) {
        let disk = &mut self.disk;
        let is_idle = disk.snapshots.is_empty() && disk.snapshot.is_none();
        if is_idle || of.is_some() {
            disk.snapshots.push_back(of);
        }
        if is_idle {
            let delay = self.sync_delay();
            self.start_job(Job::Snapshot, delay);
        }
    }

    pub(super) fn continue_snapshot(&mut self) {
        let done = self.step_snapshot();
        self.or_exit(done);
    }

    fn step_snapshot(&mut self) -> Result<(), StorageError> {
        let (state, generation) = (self.state.clone(), self.state.generation());
        let (of, mut snapshot) = match self.disk.snapshot.take() {
            Some(begun) => begun,
            None => {
                let Some(of) = self.disk.snapshots.pop_front() else {
                    return Ok(());
                };
                // It may be of a role that is over.
                let generation = of.map_or(generation, |(_, generation)| generation);
                let reader = TreeReader::new(&state.tree(), generation);
                let (disk, dirs) = (self.disk.disk.clone(), self.disk.dirs.clone());
                (of, NewSnapshot::new(disk, dirs, SNAPSHOTS, reader)?)
            }
        };
        let is_held = self.world.held.contains(&(self.index, Held::AdoptSnapshot));
        let mut chunk = Vec::new();
        let bytes = self.world.plan.chunk_bytes;
        let read = match is_held && of.is_some() {
            true => Ok(true),
            false => snapshot.read(&state.tree(), generation, bytes, &mut chunk),
        };
        match read {
            Ok(true) => {
                snapshot.write(&chunk)?;
                self.disk.snapshot = Some((of, snapshot));
            }
            Ok(false) => {
                snapshot.write(&chunk)?;
                self.finish_snapshot(of, snapshot)?;
            }
            Err(_) => {}
        }
        if self.disk.snapshot.is_some() || !self.disk.snapshots.is_empty() {
            // One that is due takes its time; for the other one a leader waits.
            let delay = match of {
                None => self.sync_delay(),
                Some(_) => self.world.random.range(20, 500),
            };
            self.start_job(Job::Snapshot, delay);
        }
        Ok(())
    }

    fn finish_snapshot(
        &mut self,
        of: Option<TakenOver>,
        snapshot: NewSnapshot<SimDisk>,
    ) -> Result<(), StorageError> {
        let (zxid, generation) = (snapshot.zxid(), self.state.generation());
        let Ok(trailer) = snapshot.trailer(&self.state.tree(), generation) else {
            return Ok(());
        };
        snapshot.finish(trailer, of.is_some())?;
        self.say(|| format!("has written snapshot {zxid}"));
        if let Some((attempt, _)) = of {
            self.inputs
                .push_back(Input::SnapshotWritten { attempt, zxid });
        } else if self.world.random.percent(50) {
            // Damage of an old file is no reason to stop.
            drop(purge(
                &*self.disk.disk,
                &self.disk.dirs,
                KEPT,
                Limits::default(),
            ));
        }
        Ok(())
    }

    /// The power is about to go while the disk does all this.
    pub(crate) fn finish_disk_jobs(&mut self) {
        drop(self.carry_out());
        while self.disk.snapshot.is_some() && self.step_snapshot().is_ok() {}
    }
}
