//! The epoch files of an ensemble member.
//!
//! `currentEpoch` and `acceptedEpoch` lie in the snapshot directory: a decimal, no newline. They
//! are replaced through `<name>.tmp`, a sync and a rename, so a crash leaves the old or the new
//! number. A member that forgot which epoch it accepted could help two leaders of the same epoch,
//! so nothing here guesses.
//!
//! Source: QuorumPeer.loadDataBase, AtomicFileOutputStream.

use std::path::{Path, PathBuf};

use proto::{Epoch, Zxid};

use crate::dirs::DataDirs;
use crate::disk::{Disk, DiskFile};
use crate::error::{StorageError, io_error};

/// Longest epoch file that is read.
const FILE_BYTES_MAX: usize = 64 << 10;
pub(crate) const CURRENT: &str = "currentEpoch";
const ACCEPTED: &str = "acceptedEpoch";

/// The two epochs of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epochs {
    /// The epoch of the last leader it synchronised with.
    pub current: Epoch,
    /// The newest epoch it promised a leader.
    pub accepted: Epoch,
}

impl Epochs {
    /// Reads both files, writes those that are missing (with the epoch of `last_zxid`, the last
    /// transaction recovered), and checks them against it and each other.
    ///
    /// A `currentEpoch` too low is repaired from `currentEpoch.tmp` if that is high enough: a crash
    /// between the two steps of [`store_current`](Self::store_current). Java takes it without
    /// looking. Without it a `currentEpoch` too low stands if the epoch of the data was promised:
    /// a crash while a learner was brought up to date. Java refuses to start then.
    ///
    /// A `currentEpoch` without a number is written again if the epoch is certain: the last transaction is of the
    /// accepted epoch. The member has then the beginning of that epoch's history, and promised no later one. Java
    /// refuses to start then.
    ///
    /// # Errors
    /// If a file holds no number, or a number that the data or the other file contradicts. Nothing is
    /// written then.
    pub fn load<D: Disk>(disk: &D, dirs: &DataDirs, last_zxid: Zxid) -> Result<Self, StorageError> {
        let written = Written::read(disk, dirs, epoch_of(last_zxid))?;
        let epochs = Self::look(disk, dirs, last_zxid)?;
        if let Some(error) = &written.repaired {
            tracing::warn!(epoch = %epochs.current, "{error}: the last transaction and acceptedEpoch determine the epoch, which is written again");
        }
        if written.current != Some(epochs.current) {
            Self::store_current(disk, dirs, epochs.current)?;
        }
        if written.accepted != Some(epochs.accepted) {
            Self::store_accepted(disk, dirs, epochs.accepted)?;
        }
        Ok(epochs)
    }

    /// What [`load`](Self::load) would give; nothing is written.
    ///
    /// # Errors
    /// As `load`.
    pub fn look<D: Disk>(disk: &D, dirs: &DataDirs, last_zxid: Zxid) -> Result<Self, StorageError> {
        let of_data = epoch_of(last_zxid);
        let accepted_path = dirs.snap.join(ACCEPTED);
        let written = Written::read(disk, dirs, of_data)?;
        let (current, promised) = (written.current, written.accepted);
        let current = match current {
            Some(current) if current < of_data => {
                Self::repair(disk, dirs, (current, promised), of_data, last_zxid)?
            }
            Some(current) => current,
            None => of_data,
        };
        // Java writes the epoch of the data even if the current epoch is higher, and then refuses its
        // own work.
        let accepted = promised.unwrap_or(current);
        if accepted < current {
            return Err(StorageError::EpochOrder {
                path: accepted_path,
                found: accepted,
                least: current,
                of: CURRENT.into(),
            });
        }
        Ok(Self { current, accepted })
    }

    /// What is wrong with a `currentEpoch` that holds no number, if nothing else is lost with it: it
    /// says whose history the files are, so without them it says nothing. A damaged `acceptedEpoch`
    /// is a promise that nobody knows any more, and no leader can tell. Nothing is lost if [`load`](Self::load) can
    /// write the number again; `last_zxid` is the last transaction, if the history is whole.
    ///
    /// # Errors
    /// If the files cannot be read.
    pub fn lost_current<D: Disk>(
        disk: &D,
        dirs: &DataDirs,
        last_zxid: Option<Zxid>,
    ) -> Result<Option<StorageError>, StorageError> {
        let Err(error @ StorageError::EpochFile { .. }) = read(disk, &dirs.snap.join(CURRENT))
        else {
            return read(disk, &dirs.snap.join(CURRENT)).map(|_| None);
        };
        let Ok(Some(promised)) = read(disk, &dirs.snap.join(ACCEPTED)) else {
            return Ok(None);
        };
        let is_certain = last_zxid.is_some_and(|last| is_certain(Some(promised), epoch_of(last)));
        Ok((!is_certain).then_some(error))
    }

    /// The files that tell `of_data` are about to go: without an `acceptedEpoch` they are what tells
    /// which epoch was promised at least.
    pub(crate) fn keep_promise<D: Disk>(
        disk: &D,
        dirs: &DataDirs,
        of_data: Epoch,
    ) -> Result<(), StorageError> {
        if read(disk, &dirs.snap.join(ACCEPTED))?.is_some() {
            return Ok(());
        }
        let current = read(disk, &dirs.snap.join(CURRENT))?;
        Self::store_accepted(disk, dirs, current.unwrap_or(of_data).max(of_data))
    }

    fn repair<D: Disk>(
        disk: &D,
        dirs: &DataDirs,
        (current, promised): (Epoch, Option<Epoch>),
        of_data: Epoch,
        last_zxid: Zxid,
    ) -> Result<Epoch, StorageError> {
        let path = dirs.snap.join(CURRENT);
        let temporary = temporary(&path);
        let unfinished = match read(disk, &temporary) {
            // It died in the middle of writing it.
            Err(StorageError::EpochFile { .. }) => None,
            other => other?,
        };
        match unfinished {
            Some(epoch) if epoch >= of_data => {
                tracing::warn!(%epoch, "currentEpoch finished from its temporary file");
                Ok(epoch)
            }
            // It died between its leader's history and its leader's epoch, which are made durable in
            // this order (ZOOKEEPER-4643). The epoch says whose history it has taken on as a whole,
            // so it stays as it is.
            _ if promised.is_some_and(|promised| promised >= of_data) => {
                tracing::info!(%current, %of_data, "the history ends in an epoch that was not taken on");
                Ok(current)
            }
            _ => Err(StorageError::EpochOrder {
                path,
                found: current,
                least: of_data,
                of: format!("the last transaction, zxid {last_zxid}"),
            }),
        }
    }

    /// Makes `epoch` the current one, durably.
    ///
    /// # Errors
    /// If it cannot be written; the old number stays.
    pub fn store_current<D: Disk>(
        disk: &D,
        dirs: &DataDirs,
        epoch: Epoch,
    ) -> Result<(), StorageError> {
        store(disk, &dirs.snap, CURRENT, epoch)
    }

    /// Makes `epoch` the accepted one, durably. Only then may the leader be answered.
    ///
    /// # Errors
    /// If it cannot be written; the old number stays.
    pub fn store_accepted<D: Disk>(
        disk: &D,
        dirs: &DataDirs,
        epoch: Epoch,
    ) -> Result<(), StorageError> {
        store(disk, &dirs.snap, ACCEPTED, epoch)
    }
}

/// Contents of the two files.
struct Written {
    /// `None` if the file is missing, or if the epoch is certain without it.
    current: Option<Epoch>,
    accepted: Option<Epoch>,
    /// What is wrong with a `currentEpoch` whose epoch is certain.
    repaired: Option<StorageError>,
}

impl Written {
    fn read<D: Disk>(disk: &D, dirs: &DataDirs, of_data: Epoch) -> Result<Self, StorageError> {
        let accepted = read(disk, &dirs.snap.join(ACCEPTED))?;
        let (current, repaired) = match read(disk, &dirs.snap.join(CURRENT)) {
            Err(error @ StorageError::EpochFile { .. }) if is_certain(accepted, of_data) => {
                (None, Some(error))
            }
            other => (other?, None),
        };
        Ok(Self {
            current,
            accepted,
            repaired,
        })
    }
}

fn epoch_of(last_zxid: Zxid) -> Epoch {
    Epoch(last_zxid.epoch().0.max(0))
}

/// Whether the current epoch is known without its file. A member logs transactions of an epoch only behind the whole
/// history before it, and it follows no epoch beyond the accepted one.
fn is_certain(accepted: Option<Epoch>, of_data: Epoch) -> bool {
    of_data > Epoch(0) && accepted == Some(of_data)
}

fn temporary(path: &Path) -> PathBuf {
    path.with_extension("tmp")
}

/// The first line as Java's `Long.parseLong` takes it: a sign, leading zeros, no blanks.
fn read<D: Disk>(disk: &D, path: &Path) -> Result<Option<Epoch>, StorageError> {
    let content = disk
        .read_small(path, FILE_BYTES_MAX)
        .map_err(io_error("read", path))?;
    let Some(content) = content else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&content);
    let line = text.split(['\n', '\r']).next().unwrap_or_default();
    match line.parse() {
        Ok(number) => Ok(Some(Epoch(number))),
        Err(_) => Err(StorageError::EpochFile {
            path: path.to_path_buf(),
            content: line.to_string(),
        }),
    }
}

fn store<D: Disk>(
    disk: &D,
    dir: &Path,
    name: &'static str,
    epoch: Epoch,
) -> Result<(), StorageError> {
    let path = dir.join(name);
    let temporary = temporary(&path);
    let write = || {
        let file = disk.create(&temporary)?;
        file.write_all_at(0, epoch.0.to_string().as_bytes())?;
        file.sync_data()?;
        disk.rename(&temporary, &path)?;
        disk.sync_dir(dir)
    };
    write().map_err(io_error("write", &path))
}
