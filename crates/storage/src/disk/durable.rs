//! Rewrite of data that an earlier process may not have synced.
//!
//! An earlier process may have died before a sync, or because a sync failed. A server that recovers
//! a log relies on everything that it reads there, so the log must be on the disk first.
//!
//! A sync alone is not enough. After a failed sync, Linux marks the pages clean: reads return the
//! written data, although the disk lacks it, and the next sync succeeds without writing anything.
//! Asking the kernel to drop such pages is only a hint, and not every file system supports reads
//! that bypass the page cache (O_DIRECT). Writing always works: a write makes the page dirty, and
//! the next sync writes it to the disk or fails. So the part of the log that may never have been
//! synced is written once more with its current bytes. Bytes that are already on the disk are
//! overwritten with identical ones. A power failure during that write does not change them, because
//! a disk writes whole sectors.
//!
//! The rewritten part is short: [`LogWriter`](crate::LogWriter) never has more than
//! [`UNSYNCED_BYTES_MAX`] unsynced, or one record if that is longer, always at the end of the
//! newest file. (Groups of Apache ZooKeeper may be longer. Apache ZooKeeper also relies on the next
//! sync.) The length of that file may also be unsynced, because a leader may have had it truncated.
//! Snapshots and epoch files need not be rewritten, because they receive their names only after a
//! successful sync, and a process exits after a failed sync.

use std::path::Path;

use crate::disk::{Disk, DiskFile, read_full_at};
use crate::error::{StorageError, io_error};
use crate::files::dirs::DataDirs;
use crate::files::names::list_logs;
use crate::log::format::UNSYNCED_BYTES_MAX;
use crate::log::judge::last_nonzero_of;
use crate::log::scan::read_at;
use crate::recovery::recover::Recovered;

/// Number of bytes per read and write.
const PIECE_BYTES: usize = 1 << 20;

/// Makes the recovered data durable: the end of the newest log and the names of all files. Only
/// then may a server vote or acknowledge anything.
///
/// # Errors
/// If data cannot be read, written or synced. The content of the disk is then unknown.
pub fn make_durable<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    recovered: &Recovered,
) -> Result<(), StorageError> {
    if let Some(newest) = list_logs(disk, &dirs.log)?.pop() {
        let last_record = recovered.last_record.as_ref();
        let last_record = last_record.filter(|(path, _)| *path == newest.path);
        // A file without an intact record contains at most one group.
        let begins_at = last_record.map_or(0, |(_, offset)| *offset);
        write_again(disk, &newest.path, begins_at)?;
    }
    for dir in [&dirs.snap, &dirs.log] {
        disk.sync_dir(dir).map_err(io_error("sync", dir))?;
    }
    Ok(())
}

/// Rewrites the bytes from `begins_at` on, or from an earlier offset if more bytes may be unsynced.
/// Then sets the file's length again, and syncs.
fn write_again<D: Disk>(disk: &D, path: &Path, begins_at: u64) -> Result<(), StorageError> {
    let failed = || io_error("rewrite", path);
    let file = disk.open_for_change(path).map_err(failed())?;
    let len = file.len().map_err(failed())?;
    let last = last_nonzero_of(0..len, |at, len| read_at(&file, path, at, len))?;
    let end = last.map_or(0, |last| last + 1);
    let mut at = begins_at.min(end.saturating_sub(UNSYNCED_BYTES_MAX as u64));
    let mut piece = vec![0; PIECE_BYTES];
    while at < end {
        let wanted = usize::try_from(end - at).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
        piece.truncate(wanted);
        let read = read_full_at(&file, at, &mut piece).map_err(failed())?;
        let bytes = piece.get(..read).filter(|bytes| !bytes.is_empty());
        let Some(bytes) = bytes else {
            break;
        };
        file.write_all_at(at, bytes).map_err(failed())?;
        at += read as u64;
    }
    // A truncation whose sync failed may be visible here and be lost in a power failure. Setting
    // the length to its current value may not write anything, so the length is changed twice.
    file.set_len(len + 1)
        .and_then(|()| file.set_len(len))
        .map_err(failed())?;
    file.sync_data().map_err(io_error("sync", path))
}
