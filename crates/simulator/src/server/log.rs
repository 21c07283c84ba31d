//! The log thread of a server: appends in groups, syncs, reports.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use proto::Zxid;
use storage::{DataDirs, LogSettings, LogWriter};
use zab::Record;

use super::{Job, Role, Server};
use crate::Mutant;
use crate::disk::SimDisk;
use crate::world::World;

#[derive(Debug)]
pub(super) struct LogRoom {
    pub(super) writer: LogWriter<SimDisk>,
    /// Not handed to the writer yet.
    waiting: VecDeque<Record>,
    is_busy: bool,
}

impl LogRoom {
    pub(super) fn new(disk: &Arc<SimDisk>, dirs: &DataDirs) -> Self {
        let settings = LogSettings {
            prealloc_bytes: 2048,
            fsync_warning: Duration::MAX,
            ..LogSettings::default()
        };
        Self {
            writer: LogWriter::new(Arc::clone(disk), dirs, settings),
            waiting: VecDeque::new(),
            is_busy: false,
        }
    }

    fn hand_over(&mut self) -> Result<Option<Zxid>, storage::StorageError> {
        let mut last = None;
        for record in self.waiting.drain(..) {
            self.writer.append(record.zxid, &record.txn)?;
            last = Some(record.zxid);
        }
        Ok(last)
    }
}

impl Server {
    /// Takes a record for the log. The core hears of it when it is on disk.
    pub(super) fn append(&mut self, record: Record, world: &mut World) {
        let zxid = record.zxid;
        self.undelivered.push_back(record.clone());
        if world.is(Mutant::HistoryLoggedAfterAck) && self.keeps_for_later(&record) {
            return self.report_synced(zxid, world);
        }
        self.log.waiting.push_back(record);
        if world.is(Mutant::AckBeforeSync)
            || (world.is(Mutant::HistoryAckedBeforeSync) && self.is_synchronising())
        {
            self.report_synced(zxid, world);
        }
        self.start_sync(world);
    }

    /// Whether a learner is on its way to UPTODATE.
    pub(super) fn is_synchronising(&self) -> bool {
        matches!(&self.role, Role::Learning(learning) if !learning.serves)
    }

    fn keeps_for_later(&mut self, record: &Record) -> bool {
        let is_synchronising = self.is_synchronising();
        if let Role::Learning(learning) = &mut self.role
            && is_synchronising
        {
            learning.kept.push(record.clone());
            return true;
        }
        false
    }

    /// What was kept back goes to the log after all.
    pub(super) fn append_kept(&mut self, world: &mut World) {
        if let Role::Learning(learning) = &mut self.role {
            let kept = std::mem::take(&mut learning.kept);
            self.log.waiting.extend(kept);
            self.start_sync(world);
        }
    }

    fn start_sync(&mut self, world: &mut World) {
        if self.log.is_busy || self.log.waiting.is_empty() {
            return;
        }
        match self.log.hand_over() {
            Ok(Some(upto)) => {
                self.log.is_busy = true;
                let delay = self.sync_delay(world);
                self.start_job(Job::Sync(upto), delay, world);
            }
            Ok(None) => {}
            Err(error) => self.exit(error.to_string()),
        }
    }

    pub(super) fn finish_sync(&mut self, upto: Zxid, world: &mut World) {
        self.log.is_busy = false;
        match self.log.writer.commit() {
            Ok(_) => {}
            Err(_) if world.is(Mutant::FailedSyncIgnored) => {
                self.log = LogRoom {
                    waiting: std::mem::take(&mut self.log.waiting),
                    ..LogRoom::new(&self.disk, &self.dirs)
                };
            }
            Err(error) => return self.exit(error.to_string()),
        }
        world.say(self.sid, || format!("log is on disk up to {upto}"));
        self.report_synced(upto, world);
        self.start_snapshot_if_due(world);
        self.start_sync(world);
    }

    fn report_synced(&mut self, upto: Zxid, world: &mut World) {
        match &mut self.role {
            Role::Learning(_) => self.learn(world, |core, _, out| core.handle_synced(upto, out)),
            Role::Leading(_) => self.lead(world, |core, _, out| core.handle_synced(upto, out)),
            _ => {}
        }
    }

    /// Writes and syncs everything now: the next role begins with it.
    pub(super) fn settle_log(&mut self, world: &World) {
        self.log.is_busy = false;
        if world.is(Mutant::OldLogWriterLives) {
            return;
        }
        let settled = self.log.hand_over().and_then(|_| self.log.writer.commit());
        if let Err(error) = settled {
            self.exit(error.to_string());
        }
    }

    /// The log files have changed under the writer.
    pub(super) fn reopen_log(&mut self, world: &mut World) {
        if world.is(Mutant::OldLogWriterLives) {
            return self.start_sync(world);
        }
        self.log = LogRoom::new(&self.disk, &self.dirs);
    }
}
