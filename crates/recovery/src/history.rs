//! The history on the disk of a running server, as written by its log thread.
//!
//! The host decides about threads, groups and the order of the work. This module decides, for all
//! hosts, in which order the files are changed.

use std::sync::Arc;

use proto::{Epoch, Zxid};
use storage::{
    Committed, DataDirs, Disk, Epochs, LogSettings, LogWriter, RecoverySettings, SnapTrigger,
    StorageError, Truncation,
};
use tree::TreeSettings;

use crate::log_end::LogEnd;
use crate::{RecoveredTree, forget_seams, recover_tree};

/// Settings for writing and reading files.
#[derive(Debug, Clone)]
pub struct DurableLogSettings {
    /// Settings of the log.
    pub log: LogSettings,
    /// Settings for reloading the history.
    pub recovery: RecoverySettings,
    /// Settings of the reloaded tree.
    pub tree: Arc<TreeSettings>,
}

/// Log that is being written, and the other files of the history.
#[derive(Debug)]
pub struct DurableLog<D: Disk> {
    disk: Arc<D>,
    dirs: DataDirs,
    settings: DurableLogSettings,
    writer: LogWriter<D>,
    trigger: SnapTrigger,
    /// Last appended transaction, which may not be durable yet.
    appended: Zxid,
    end: Arc<LogEnd>,
}

/// Result of reloading the history.
#[derive(Debug)]
pub enum Reloaded {
    /// The log cannot be truncated as requested. Nothing has been changed.
    NotCut(StorageError),
    /// The tree, and the end of its history.
    Loaded {
        /// Content of the files.
        found: Box<RecoveredTree>,
        /// Last transaction of the history.
        end: Zxid,
    },
}

impl<D: Disk> DurableLog<D> {
    /// Continues a recovered history, which ends with `end`, in a new file.
    pub fn new(
        disk: Arc<D>,
        dirs: DataDirs,
        settings: DurableLogSettings,
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

    /// Returns the disk that contains the files.
    pub fn disk(&self) -> &Arc<D> {
        &self.disk
    }

    /// Returns the directories that contain the files.
    pub fn dirs(&self) -> &DataDirs {
        &self.dirs
    }

    /// Returns the end of the written log, for concurrent readers.
    pub fn end(&self) -> &Arc<LogEnd> {
        &self.end
    }

    /// Appends a transaction to the group that the next [`commit`](Self::commit) makes durable.
    /// Returns whether a snapshot is due. If so, the log continues in a new file, and `seed`
    /// determines when the next snapshot is due.
    ///
    /// # Errors
    /// If [`LogWriter::append`] or [`LogWriter::roll`] fails.
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

    /// Returns the last appended transaction, or the last transaction of the recovered history.
    pub fn appended(&self) -> Zxid {
        self.appended
    }

    /// Makes the group durable. The group must not be acknowledged earlier.
    ///
    /// # Errors
    /// If [`LogWriter::commit`] fails. The content of the disk is then unknown, and the process
    /// must exit.
    pub fn commit(&mut self) -> Result<Committed, StorageError> {
        let committed = self.writer.commit()?;
        self.end.set(self.appended);
        Ok(committed)
    }

    /// Saves the accepted epoch durably. It is a promise not to follow leaders of lower epochs.
    ///
    /// # Errors
    /// If the epoch cannot be written.
    pub fn save_accepted_epoch(&self, epoch: Epoch) -> Result<(), StorageError> {
        Epochs::store_accepted(&*self.disk, &self.dirs, epoch)
    }

    /// Saves the current epoch, which is the epoch of the history, durably.
    ///
    /// # Errors
    /// If the epoch cannot be written.
    pub fn save_current_epoch(&self, epoch: Epoch) -> Result<(), StorageError> {
        Epochs::store_current(&*self.disk, &self.dirs, epoch)
    }

    /// Reloads the tree. If `keep` is set, first truncates the log after that transaction.
    /// Meanwhile, no snapshot may receive its final name.
    ///
    /// # Errors
    /// If the files cannot be loaded, or if a truncation was begun and not finished. The content of
    /// the disk is then unknown, and the process must exit. If a truncation cannot begin, the
    /// result is [`Reloaded::NotCut`] instead.
    pub fn reload(&mut self, keep: Option<Zxid>) -> Result<Reloaded, StorageError> {
        self.renew_writer();
        if let Some(keep) = keep {
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
        self.appended = end;
        self.end.set(end);
        Ok(Reloaded::Loaded { found, end })
    }

    /// Removes the log after `last`, and makes the next record begin a new file. Called before the
    /// snapshot of a leader's history, which replaces this history, is written. Meanwhile, no
    /// snapshot may receive its final name.
    ///
    /// # Errors
    /// If the log cannot be read or truncated.
    // Model: CutLog.
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
            // Snapshots after `last` may be the only ones that can be loaded, so they must stay
            // until the leader's snapshot is written.
            Err(StorageError::Truncate { .. }) => {
                storage::cut_log(disk, dirs, last, limits).map(drop)
            }
            truncated => truncated.map(drop),
        }
    }

    /// Makes the next record begin a new file.
    fn renew_writer(&mut self) {
        self.writer = LogWriter::new(self.disk.clone(), &self.dirs, self.settings.log);
    }
}
