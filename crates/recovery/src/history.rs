//! The history on disk of a running server: what its log thread does to the files.
//!
//! Threads, groups and the order of the work are its host's. What is done to which file before which
//! other one is decided here, once for every host.

use std::sync::Arc;

use proto::mutant::{self, Mutant};
use proto::{Epoch, Zxid};
use storage::{
    Committed, DataDirs, Disk, Epochs, LogSettings, LogWriter, RecoverySettings, SnapTrigger,
    StorageError, Truncation,
};
use tree::TreeSettings;

use crate::log_end::LogEnd;
use crate::{RecoveredTree, forget_seams, recover_tree};

/// How files are written and read.
#[derive(Debug, Clone)]
pub struct HistorySettings {
    /// How the log is written.
    pub log: LogSettings,
    /// How the history is loaded again.
    pub recovery: RecoverySettings,
    /// The tree that it becomes.
    pub tree: Arc<TreeSettings>,
}

/// The log being written, and the files beside it.
#[derive(Debug)]
pub struct History<D: Disk> {
    disk: Arc<D>,
    dirs: DataDirs,
    settings: HistorySettings,
    writer: LogWriter<D>,
    trigger: SnapTrigger,
    /// The last transaction that was appended; it counts when it is durable.
    appended: Zxid,
    end: Arc<LogEnd>,
}

/// What came of loading the history again.
#[derive(Debug)]
pub enum Reloaded {
    /// The log cannot be cut as it was wanted; nothing is changed.
    NotCut(StorageError),
    /// The tree, and where its history ends.
    Loaded {
        /// What the files hold.
        found: Box<RecoveredTree>,
        /// Its last transaction.
        end: Zxid,
    },
}

impl<D: Disk> History<D> {
    /// Goes on behind what was recovered, which ends with `end`, in a new file.
    pub fn new(
        disk: Arc<D>,
        dirs: DataDirs,
        settings: HistorySettings,
        trigger: SnapTrigger,
        end: Zxid,
    ) -> Self {
        Self {
            appended: end,
            end: Arc::new(LogEnd::new(end)),
            writer: LogWriter::new(disk.clone(), &dirs, settings.log),
            disk,
            dirs,
            settings,
            trigger,
        }
    }

    /// Where it is.
    pub fn disk(&self) -> &Arc<D> {
        &self.disk
    }

    /// Where on the disk.
    pub fn dirs(&self) -> &DataDirs {
        &self.dirs
    }

    /// How far it is written, for whoever reads the log beside it.
    pub fn end(&self) -> &Arc<LogEnd> {
        &self.end
    }

    /// Appends a transaction to the group. `true`: a snapshot is due, and the log goes on in a new
    /// file; `seed` then chooses when the next one is.
    ///
    /// # Errors
    /// As [`LogWriter::append`] and [`LogWriter::roll`].
    pub fn append(
        &mut self,
        zxid: Zxid,
        payload: &[u8],
        seed: impl FnOnce() -> u64,
    ) -> Result<bool, StorageError> {
        self.writer.append(zxid, payload)?;
        self.appended = zxid;
        let is_due = self.trigger.is_due(self.writer.txns(), self.writer.bytes());
        if is_due {
            self.writer.roll()?;
            self.writer.reset_counters();
            self.trigger.redraw(seed());
        }
        Ok(is_due)
    }

    /// The last transaction appended, or the one that the history ended with.
    pub fn appended(&self) -> Zxid {
        self.appended
    }

    /// Makes the group durable: only then may it be acknowledged.
    ///
    /// # Errors
    /// As [`LogWriter::commit`]: then nobody knows what is on disk, and the process has to end.
    pub fn commit(&mut self) -> Result<Committed, StorageError> {
        let committed = self.writer.commit()?;
        self.end.set(self.appended);
        Ok(committed)
    }

    /// Makes a promise durable.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save_accepted_epoch(&self, epoch: Epoch) -> Result<(), StorageError> {
        match mutant::is(Mutant::AcceptedEpochNotSaved) {
            true => Ok(()),
            false => Epochs::store_accepted(&*self.disk, &self.dirs, epoch),
        }
    }

    /// Makes the epoch of the history durable.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save_current_epoch(&self, epoch: Epoch) -> Result<(), StorageError> {
        match mutant::is(Mutant::CurrentEpochNotSaved) {
            true => Ok(()),
            false => Epochs::store_current(&*self.disk, &self.dirs, epoch),
        }
    }

    /// Loads the tree again; first cuts the log behind `keep`, if that is asked for. No snapshot may
    /// get its name meanwhile.
    ///
    /// # Errors
    /// If what is there does not load, and if a cut was begun and not finished: then nobody knows what is
    /// on disk, and the process has to end. That the log cannot be cut is none.
    pub fn reload(&mut self, keep: Option<Zxid>) -> Result<Reloaded, StorageError> {
        self.renew_writer();
        let is_skipped = mutant::is(Mutant::SkipTruncate);
        if let Some(keep) = keep.filter(|_| !is_skipped) {
            let (disk, dirs, limits) = (&*self.disk, &self.dirs, self.settings.log.limits);
            match Truncation::plan(disk, dirs, keep, limits) {
                Ok(truncation) => drop(truncation.carry_out(disk, dirs)?),
                Err(error) => return Ok(Reloaded::NotCut(error)),
            }
        }
        let (recovery, tree) = (&self.settings.recovery, self.settings.tree.clone());
        let found = Box::new(recover_tree(&*self.disk, &self.dirs, recovery, tree)?);
        let end = found.tree.last_zxid();
        forget_seams(&*self.disk, &self.dirs, end);
        let end = keep.filter(|_| is_skipped).unwrap_or(end);
        self.appended = end;
        self.end.set(end);
        Ok(Reloaded::Loaded { found, end })
    }

    /// A leader's history takes the place of this one, and its snapshot is about to be written: what
    /// the log holds behind `last` goes, and the next record begins a new file. No snapshot may get
    /// its name meanwhile.
    ///
    /// # Errors
    /// If the log cannot be read or cut.
    pub fn cut_for_snapshot(&mut self, last: Zxid) -> Result<(), StorageError> {
        self.renew_writer();
        let (disk, dirs, limits) = (&*self.disk, &self.dirs, self.settings.log.limits);
        let end = storage::last_logged_zxid(disk, dirs, limits)?;
        self.appended = last;
        self.end.set(last);
        if end.is_none_or(|end| end <= last) {
            return Ok(());
        }
        match storage::truncate(disk, dirs, last, limits) {
            // Only snapshots beyond it load, until the leader's is written.
            Err(StorageError::Truncate { .. }) => {
                storage::cut_log(disk, dirs, last, limits).map(drop)
            }
            truncated => truncated.map(drop),
        }
    }

    /// The next record begins a new file.
    fn renew_writer(&mut self) {
        if !mutant::is(Mutant::OldLogWriterLives) {
            self.writer = LogWriter::new(self.disk.clone(), &self.dirs, self.settings.log);
        }
    }
}
