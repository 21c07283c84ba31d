//! Log writer.
//!
//! ```text
//! append  frame into the group's buffer; a large group is written and synced in parts meanwhile
//! commit  a new file if need be | extend | write the group | fdatasync
//! roll    write the buffered records; the next file is created after this file has been synced
//! ```
//!
//! A new file is created under a temporary name. The file with its header is synced and renamed,
//! and the directory is synced, before the first record is written. A file named `log.*` therefore
//! begins with a header after a crash at any moment, and its name is durable before any of its
//! records is acknowledged. (Java writes in place and never syncs the directory.)
//!
//! After a failed write or sync the content of the disk is unknown: the kernel may have dropped the
//! dirty pages and may report success for the next sync. The writer is therefore unusable
//! afterwards.
//!
//! Source: FileTxnLog, SyncRequestProcessor.

use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proto::Zxid;

use super::format::{FRAME_BYTES, HEADER_BYTES, UNSYNCED_BYTES_MAX, file_header, put_record};
use super::padding::Padding;
use super::scan::{LogScanner, Scanned};
use crate::disk::{Disk, DiskFile};
use crate::error::{StorageError, io_error};
use crate::files::dirs::DataDirs;
use crate::files::names::{log_name, unfinished_name};

/// Log settings from the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSettings {
    /// Step in bytes by which files are extended (`preAllocSize`, in KiB); 0 disables
    /// preallocation.
    pub prealloc_bytes: u64,
    /// Whether a commit waits for the disk (`forceSync`).
    pub force_sync: bool,
    /// Duration above which a sync is logged (`fsync.warningthresholdms`).
    pub fsync_warning: Duration,
    /// Size of a file's records, in bytes, above which the file is closed after a commit
    /// (`txnLogSizeLimitInKb`); 0 for no limit. Java also counts preallocated space. With a limit
    /// below the preallocation, Java closes each file after one commit.
    pub log_bytes_max: u64,
    /// Limits for records and their fields that apply when a written log is read back.
    pub limits: jute::Limits,
}

impl LogSettings {
    /// Returns the default settings with these limits.
    pub fn new(limits: jute::Limits) -> Self {
        Self {
            prealloc_bytes: 64 << 20,
            force_sync: true,
            fsync_warning: Duration::from_secs(1),
            log_bytes_max: 0,
            limits,
        }
    }
}

/// Result of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Committed {
    /// Number of transactions in the group.
    pub txns: u32,
    /// Number of bytes written for the group, including frames.
    pub bytes: u64,
    /// Duration of the sync; zero if `force_sync` is off.
    pub sync_time: Duration,
    /// Whether the sync took longer than the warning threshold.
    pub is_slow: bool,
}

/// Minimum and maximum number of zeros written after a group. They allocate and initialise the
/// blocks of the following groups, so most syncs do not wait for the file-system journal. The sync
/// that includes the zeros takes longer, and its group waits for it. The number is therefore small.
/// It grows with the size of the group, so that the zeros suffice for several groups. A group
/// larger than the maximum already waits for its own bytes, so no zeros follow it.
const ZEROS_AHEAD_BYTES: RangeInclusive<u64> = 128 << 10..=512 << 10;
/// Number of groups of the current size for which the zeros should suffice.
const ZEROS_AHEAD_GROUPS: u64 = 4;
/// Capacity above which a group's buffer is freed after the write, bytes.
const BUFFER_KEPT_BYTES: usize = 4 << 20;

#[derive(Debug)]
struct OpenLog<F> {
    file: F,
    path: PathBuf,
    /// Number of bytes written: the header and the records.
    position: u64,
    /// Length to which the file was extended. A record may end beyond it.
    size: u64,
    /// Offset up to which the file contains records or zeros that were written, not only allocated.
    zeroed: u64,
    /// Whether anything was written since the last sync.
    is_dirty: bool,
}

/// Log writer. It appends transactions in groups.
///
/// Each process writes its own files. It never appends to an existing file, so a torn record
/// remains at the end of its file.
#[derive(Debug)]
pub struct LogWriter<D: Disk> {
    disk: Arc<D>,
    dir: PathBuf,
    settings: LogSettings,
    open: Option<OpenLog<D::File>>,
    /// Files that were closed by a roll and are not synced yet.
    closing: Vec<OpenLog<D::File>>,
    buffer: Vec<u8>,
    group_first: Option<Zxid>,
    group_txns: u32,
    /// Number of the group's bytes that are already written.
    written_bytes: u64,
    last_zxid: Option<Zxid>,
    txns: u64,
    bytes: u64,
    zeros: Vec<u8>,
    is_poisoned: bool,
}

impl<D: Disk> LogWriter<D> {
    /// Creates a writer for the log directory in `dirs`. Its first commit creates the file.
    pub fn new(disk: Arc<D>, dirs: &DataDirs, settings: LogSettings) -> Self {
        Self {
            disk,
            dir: dirs.log.clone(),
            settings,
            open: None,
            closing: Vec::new(),
            buffer: Vec::new(),
            group_first: None,
            group_txns: 0,
            written_bytes: 0,
            last_zxid: None,
            txns: 0,
            bytes: 0,
            zeros: Vec::new(),
            is_poisoned: false,
        }
    }

    /// Adds a transaction to the group. The transaction must not be acknowledged before
    /// [`commit`](Self::commit) returns.
    ///
    /// # Errors
    /// If the writer is unusable, or if a part of a large group cannot be written.
    pub fn append(&mut self, zxid: Zxid, payload: &[u8]) -> Result<(), StorageError> {
        self.ensure_usable()?;
        if self.last_zxid.is_some_and(|last| zxid <= last) {
            // Java logs such a transaction as well.
            tracing::warn!(%zxid, "a transaction was logged out of order");
        }
        if payload.len() > self.settings.limits.field_bytes_max {
            tracing::warn!(%zxid, len = payload.len(),
                "a transaction exceeds jute.maxbuffer, so Apache ZooKeeper cannot read this log");
        }
        let record_bytes = payload.len() + FRAME_BYTES;
        if !self.buffer.is_empty() && self.buffer.len() + record_bytes > UNSYNCED_BYTES_MAX {
            self.write_part()?;
        }
        self.last_zxid = Some(zxid);
        self.group_first.get_or_insert(zxid);
        put_record(payload, &mut self.buffer);
        self.group_txns += 1;
        self.txns += 1;
        self.bytes += record_bytes as u64;
        Ok(())
    }

    /// Writes the group with one write and waits until it is on disk. Only then may its
    /// transactions be acknowledged. Does nothing if no transaction was appended.
    ///
    /// # Errors
    /// If a step fails. No transaction in the group may then be acknowledged, and the writer is
    /// unusable.
    pub fn commit(&mut self) -> Result<Committed, StorageError> {
        self.ensure_usable()?;
        if self.group_txns == 0 && self.closing.is_empty() {
            return Ok(Committed::default());
        }
        let result = self.write_and_sync();
        self.is_poisoned |= result.is_err();
        result
    }

    /// Makes the next transaction begin a new file. Appended transactions are written to the old
    /// file.
    ///
    /// # Errors
    /// If [`commit`](Self::commit) would fail.
    pub fn roll(&mut self) -> Result<(), StorageError> {
        self.ensure_usable()?;
        let result = self.write_group();
        self.is_poisoned |= result.is_err();
        self.written_bytes += result?;
        self.closing
            .extend(self.open.take().filter(|log| log.is_dirty));
        Ok(())
    }

    /// Returns the number of transactions appended since [`reset_counters`](Self::reset_counters).
    pub fn txns(&self) -> u64 {
        self.txns
    }

    /// Returns the total size of the transactions counted by [`txns`](Self::txns), including
    /// frames, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Resets both counters. Called when a snapshot is due or has begun.
    pub fn reset_counters(&mut self) {
        (self.txns, self.bytes) = (0, 0);
    }

    /// Returns the length of the header and records in the current file, without preallocated
    /// space. Returns 0 if no file is open.
    pub fn file_bytes(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.position)
    }

    /// Returns whether an earlier failure made the writer unusable.
    pub fn is_poisoned(&self) -> bool {
        self.is_poisoned
    }

    fn ensure_usable(&self) -> Result<(), StorageError> {
        if self.is_poisoned {
            return Err(StorageError::LogPoisoned);
        }
        Ok(())
    }

    fn write_and_sync(&mut self) -> Result<Committed, StorageError> {
        let bytes = self.written_bytes + self.write_group()?;
        let started = Instant::now();
        self.sync(true)?;
        let sync_time = if self.settings.force_sync {
            started.elapsed()
        } else {
            Duration::ZERO
        };
        let is_slow = sync_time > self.settings.fsync_warning;
        if is_slow {
            let elapsed_ms = sync_time.as_millis();
            tracing::warn!(
                elapsed_ms,
                bytes,
                file_bytes = self.file_bytes(),
                "slow fsync of the log"
            );
        }
        let committed = Committed {
            txns: self.group_txns,
            bytes,
            sync_time,
            is_slow,
        };
        (self.group_txns, self.written_bytes) = (0, 0);
        if self.settings.log_bytes_max > 0 && self.file_bytes() > self.settings.log_bytes_max {
            // All its records are synced, so the file can be closed.
            self.open = None;
        }
        Ok(committed)
    }

    /// Writes and syncs the buffered part of the group, which limits the bytes that recovery has to
    /// judge.
    fn write_part(&mut self) -> Result<(), StorageError> {
        let written = self.write_group();
        let result = written.and_then(|bytes| {
            self.written_bytes += bytes;
            self.sync(true)
        });
        self.is_poisoned |= result.is_err();
        result
    }

    /// Syncs the files that were closed by a roll and then, if `with_open` is set, the current
    /// file.
    fn sync(&mut self, with_open: bool) -> Result<(), StorageError> {
        let open = self.open.iter_mut().filter(|_| with_open);
        for log in self.closing.iter_mut().chain(open) {
            if log.is_dirty && self.settings.force_sync {
                log.file.sync_data().map_err(write_error("sync", log))?;
            }
            log.is_dirty = false;
        }
        self.closing.clear();
        Ok(())
    }

    /// Writes the buffered records and returns their length in bytes.
    fn write_group(&mut self) -> Result<u64, StorageError> {
        let Some(first) = self.group_first else {
            return Ok(0);
        };
        if self.open.is_none() {
            // If the new file reached the disk before the end of the old one, a power failure could
            // leave a gap between them.
            self.sync(false)?;
            self.open = Some(self.create(first)?);
        }
        let Some(log) = &mut self.open else {
            return Ok(0);
        };
        log.extend(&self.settings, &mut self.zeros, self.buffer.len())
            .map_err(write_error("extend", log))?;
        log.file
            .write_all_at(log.position, &self.buffer)
            .map_err(write_error("write", log))?;
        let written = self.buffer.len() as u64;
        log.position += written;
        log.is_dirty = true;
        self.group_first = None;
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_KEPT_BYTES);
        Ok(written)
    }

    fn create(&self, first: Zxid) -> Result<OpenLog<D::File>, StorageError> {
        let name = log_name(first);
        let path = self.dir.join(&name);
        let temporary = self.dir.join(unfinished_name(&name));
        self.refuse_to_destroy(&path)?;
        let failed = |source| StorageError::LogWrite {
            action: "create",
            path: path.clone(),
            offset: 0,
            source,
        };
        let make = || -> io::Result<OpenLog<D::File>> {
            let file = self.disk.create(&temporary)?;
            file.write_all_at(0, &file_header())?;
            if self.settings.force_sync {
                file.sync_data()?;
            }
            self.disk.rename(&temporary, &path)?;
            if self.settings.force_sync {
                self.disk.sync_dir(&self.dir)?;
            }
            Ok(OpenLog {
                file,
                path: path.clone(),
                position: HEADER_BYTES,
                size: HEADER_BYTES,
                zeroed: HEADER_BYTES,
                is_dirty: false,
            })
        };
        make().map_err(failed)
    }

    /// Returns an error if the existing file `path` contains a complete record, because that record
    /// belongs to the history. Otherwise the file was left by a crash while its first record was
    /// being written. It contains nothing that was acknowledged, so it is replaced, as in Java.
    fn refuse_to_destroy(&self, path: &std::path::Path) -> Result<(), StorageError> {
        let holds_records = match LogScanner::open(&*self.disk, path, self.settings.limits) {
            Ok(mut scanner) => match scanner.next_record()? {
                Scanned::Record(record) => record.is_intact(),
                Scanned::Stop(_) => false,
            },
            Err(StorageError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                false
            }
            // The file does not begin with a complete header, so only an empty file is replaced.
            Err(StorageError::LogHeader { .. }) => {
                let entry = self.disk.open(path).and_then(|file| file.len());
                entry.map_err(io_error("read", path))? > 0
            }
            Err(error) => return Err(error),
        };
        if holds_records {
            return Err(StorageError::LogExists {
                path: path.to_path_buf(),
            });
        }
        Ok(())
    }
}

impl<F: DiskFile> OpenLog<F> {
    /// Extends the file for a group: sets the length as Java would, and writes zeros after the
    /// group.
    fn extend(
        &mut self,
        settings: &LogSettings,
        zeros: &mut Vec<u8>,
        group_bytes: usize,
    ) -> io::Result<()> {
        let padding = Padding::new(settings.prealloc_bytes);
        let size = padding.size_for(self.position, self.size);
        if size > self.size {
            self.file.write_all_at(size - 1, &[0])?;
            self.size = size;
        }
        let group_end = self.position + group_bytes as u64;
        if settings.force_sync && padding.is_enabled() && group_end > self.zeroed {
            let (least, most) = ZEROS_AHEAD_BYTES.into_inner();
            let ahead = match group_bytes as u64 {
                bytes if bytes > most => 0,
                bytes => (ZEROS_AHEAD_GROUPS * bytes).clamp(least, most),
            };
            let end = (group_end + ahead).min(self.size);
            if end > group_end {
                zeros.resize(usize::try_from(end - group_end).unwrap_or(0), 0);
                self.file.write_all_at(group_end, zeros)?;
            }
            self.zeroed = end.max(group_end);
        }
        Ok(())
    }
}

fn write_error<F: DiskFile>(
    action: &'static str,
    log: &OpenLog<F>,
) -> impl FnOnce(io::Error) -> StorageError + use<F> {
    let (path, offset) = (log.path.clone(), log.position);
    move |source| StorageError::LogWrite {
        action,
        path,
        offset,
        source,
    }
}
