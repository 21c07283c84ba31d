//! The epoch files of an ensemble member.
//!
//! The files `currentEpoch` and `acceptedEpoch` are in the snapshot directory and contain a decimal
//! number without a newline. They are replaced through `<name>.tmp`, a sync and a rename, so a
//! crash leaves the old or the new number. A member that forgot which epoch it accepted could
//! support two leaders in the same epoch, so this module never guesses.
//!
//! Source: QuorumPeer.loadDataBase, AtomicFileOutputStream.

use std::path::{Path, PathBuf};

use proto::{Epoch, Zxid};

use super::dirs::DataDirs;
use crate::disk::{Disk, DiskFile};
use crate::error::{StorageError, io_error};

/// Maximum length of an epoch file that is read, bytes.
const FILE_BYTES_MAX: usize = 64 << 10;
pub(crate) const CURRENT: &str = "currentEpoch";
const ACCEPTED: &str = "acceptedEpoch";

/// The two epochs of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epochs {
    /// Epoch of the leader with which the member last synchronised.
    pub current: Epoch,
    /// Newest epoch that the member has promised to a leader.
    pub accepted: Epoch,
}

impl Epochs {
    /// Reads both files, writes missing ones, and checks the epochs against `last_zxid`, the last
    /// transaction recovered, and each other. A missing `currentEpoch` receives the epoch of that
    /// transaction, and a missing `acceptedEpoch` receives the current epoch.
    ///
    /// A `currentEpoch` that is too low is repaired from `currentEpoch.tmp` if the number in that
    /// file is high enough, because a crash occurred between the two steps of
    /// [`store_current`](Self::store_current). Java uses the temporary file without this check.
    /// Otherwise a low `currentEpoch` is kept if the epoch of the data was promised, because a
    /// crash occurred while the learner was synchronised. Java then refuses to start.
    ///
    /// A `currentEpoch` without a number is rewritten if the epoch is certain, which is the case if
    /// the last transaction belongs to the accepted epoch. The member then has the beginning of
    /// that epoch's history and has not promised a later one. Java then refuses to start.
    ///
    /// # Errors
    /// If a file cannot be read or written, does not contain a number although the epoch is not
    /// certain, or contradicts the data or the other file. Nothing is written in the last two
    /// cases.
    pub fn load<D: Disk>(disk: &D, dirs: &DataDirs, last_zxid: Zxid) -> Result<Self, StorageError> {
        let written = EpochFiles::read(disk, dirs, epoch_of(last_zxid))?;
        let epochs = Self::inspect(disk, dirs, last_zxid)?;
        if let Some(error) = &written.repaired {
            tracing::warn!(epoch = %epochs.current, err = %error, "currentEpoch does not contain a number; rewriting it with the epoch of the last transaction, which acceptedEpoch confirms");
        }
        if written.current != Some(epochs.current) {
            Self::store_current(disk, dirs, epochs.current)?;
        }
        if written.accepted != Some(epochs.accepted) {
            Self::store_accepted(disk, dirs, epochs.accepted)?;
        }
        Ok(epochs)
    }

    /// Returns the epochs that [`load`](Self::load) would return, without writing anything.
    ///
    /// # Errors
    /// If [`load`](Self::load) would fail, except for errors while writing.
    pub fn inspect<D: Disk>(
        disk: &D,
        dirs: &DataDirs,
        last_zxid: Zxid,
    ) -> Result<Self, StorageError> {
        let of_data = epoch_of(last_zxid);
        let accepted_path = dirs.snap.join(ACCEPTED);
        let written = EpochFiles::read(disk, dirs, of_data)?;
        let (current, promised) = (written.current, written.accepted);
        let current = match current {
            Some(current) if current < of_data => {
                Self::repair(disk, dirs, current, promised, of_data, last_zxid)?
            }
            Some(current) => current,
            None => of_data,
        };
        // Java writes the epoch of the data even if the current epoch is higher, and then refuses
        // the file that it wrote.
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

    /// Returns the error for a `currentEpoch` that does not contain a number; `None` if the file
    /// contains a number or is missing.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn unreadable_current<D: Disk>(
        disk: &D,
        dirs: &DataDirs,
    ) -> Result<Option<StorageError>, StorageError> {
        match read(disk, &dirs.snap.join(CURRENT)) {
            Err(error @ StorageError::EpochFile { .. }) => Ok(Some(error)),
            other => other.map(|_| None),
        }
    }

    /// Returns whether `currentEpoch` exists but does not contain a number. The file must then be
    /// moved aside together with a corrupted history. Its number only states whose history the logs
    /// and snapshots contain, so it is not needed without them. A corrupted `acceptedEpoch` is a
    /// lost promise, which no leader can restore.
    ///
    /// # Errors
    /// If the files cannot be read, or if the promise is unknown.
    pub(crate) fn loses_current<D: Disk>(disk: &D, dirs: &DataDirs) -> Result<bool, StorageError> {
        let promised = read(disk, &dirs.snap.join(ACCEPTED))?;
        match Self::unreadable_current(disk, dirs)? {
            Some(error) if promised.is_none() => Err(error),
            lost => Ok(lost.is_some()),
        }
    }

    /// Writes a missing `acceptedEpoch` before the files with epoch `of_data` are moved aside.
    /// Without it, only these files would show a lower bound of the promised epoch.
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
        current: Epoch,
        promised: Option<Epoch>,
        of_data: Epoch,
        last_zxid: Zxid,
    ) -> Result<Epoch, StorageError> {
        let path = dirs.snap.join(CURRENT);
        let temporary = temporary(&path);
        let unfinished = match read(disk, &temporary) {
            // The process died while it wrote the temporary file.
            Err(StorageError::EpochFile { .. }) => None,
            other => other?,
        };
        match unfinished {
            Some(epoch) if epoch >= of_data => {
                tracing::warn!(%epoch, "finished an interrupted write of currentEpoch from its temporary file");
                Ok(epoch)
            }
            // The process died after it made its leader's history durable and before it saved the
            // epoch (ZOOKEEPER-4643). The epoch states whose history the member has completely, so
            // it is kept.
            _ if promised.is_some_and(|promised| promised >= of_data) => {
                tracing::info!(%current, %of_data, "the log ends in a later epoch than currentEpoch; keeping currentEpoch");
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

    /// Sets the current epoch durably.
    ///
    /// # Errors
    /// If the file cannot be written. The old number is then kept.
    pub fn store_current<D: Disk>(
        disk: &D,
        dirs: &DataDirs,
        epoch: Epoch,
    ) -> Result<(), StorageError> {
        store(disk, &dirs.snap, CURRENT, epoch)
    }

    /// Sets the accepted epoch durably. Only then may the member answer the leader.
    ///
    /// # Errors
    /// If the file cannot be written. The old number is then kept.
    pub fn store_accepted<D: Disk>(
        disk: &D,
        dirs: &DataDirs,
        epoch: Epoch,
    ) -> Result<(), StorageError> {
        store(disk, &dirs.snap, ACCEPTED, epoch)
    }
}

/// Content of the two files.
struct EpochFiles {
    /// Current epoch; `None` if the file is missing, or is unreadable and the epoch is certain
    /// without it.
    current: Option<Epoch>,
    accepted: Option<Epoch>,
    /// Error for an unreadable `currentEpoch` if the epoch is certain without it.
    repaired: Option<StorageError>,
}

impl EpochFiles {
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

/// Returns whether the current epoch is known without its file. A member logs transactions of an
/// epoch only after the whole history before it, and never follows an epoch later than the accepted
/// one.
fn is_certain(accepted: Option<Epoch>, of_data: Epoch) -> bool {
    of_data > Epoch(0) && accepted == Some(of_data)
}

fn temporary(path: &Path) -> PathBuf {
    path.with_extension("tmp")
}

/// Parses the first line like Java's `Long.parseLong`: a sign and leading zeros are accepted,
/// blanks are not.
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
