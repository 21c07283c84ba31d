//! Making durable what an earlier process may have left to chance.
//!
//! A process that died may have written what it did not sync, or have died because a sync failed.
//! Whoever recovers a log counts on all that it reads there, so it has to be on the disk first.
//!
//! A sync alone is not enough. After a failed one Linux marks the pages clean: they show what was
//! written, the disk does not have it, the next sync finds nothing to do and succeeds. Asking the
//! kernel to drop such pages is only a hint to it, and reading around the page cache (O_DIRECT) is
//! not there on every file system. Writing is: whatever a page held, a write makes it dirty, and
//! the sync behind it puts it on the disk or fails. So the part of the log that may never have been
//! synced is written once more, with the bytes that it holds. Bytes that are on the disk already
//! are overwritten with themselves; a power failure meanwhile changes none, because a disk writes
//! whole sectors.
//!
//! That part is short: [`LogWriter`](crate::LogWriter) never has more than [`UNSYNCED_BYTES_MAX`]
//! unsynced, or one record if that is longer, always at the end of the newest file. (Groups of
//! Apache ZooKeeper may be longer; it trusts the next sync as well.) The length of that file may be
//! new, too: a leader has had it cut. Snapshots and epoch files need no such care: they get their names only after a sync that succeeded, and no process goes on after
//! one that did not.

use proto::mutant::{self, Mutant};
use std::path::Path;

use crate::dirs::DataDirs;
use crate::disk::{Disk, DiskFile, read_full_at};
use crate::error::{StorageError, io_error};
use crate::log::UNSYNCED_BYTES_MAX;
use crate::log::judge::last_nonzero_of;
use crate::log::scan::read_at;
use crate::names::list_logs;
use crate::recover::Recovered;

/// Bytes read and written at once.
const PIECE_BYTES: usize = 1 << 20;

/// Makes durable what was recovered: the end of the newest log and the names of all files. Only
/// then may a server vote or acknowledge anything.
///
/// # Errors
/// If something cannot be read, written or synced: then nobody knows what the disk holds.
pub fn make_durable<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    recovered: &Recovered,
) -> Result<(), StorageError> {
    if mutant::is(Mutant::CacheTrusted) {
        return Ok(());
    }
    if let Some(newest) = list_logs(disk, &dirs.log)?.pop() {
        let last_record = recovered.last_record.as_ref();
        let last_record = last_record.filter(|(path, _)| *path == newest.path);
        // Without a good record it holds a single group, or none.
        let begins_at = last_record.map_or(0, |(_, offset)| *offset);
        write_again(disk, &newest.path, begins_at)?;
    }
    for dir in [&dirs.snap, &dirs.log] {
        disk.sync_dir(dir).map_err(io_error("sync", dir))?;
    }
    Ok(())
}

/// Writes the bytes from `begins_at`, or from further ahead, once more as they are, gives the file its
/// length once more, and syncs.
fn write_again<D: Disk>(disk: &D, path: &Path, begins_at: u64) -> Result<(), StorageError> {
    let failed = || io_error("write again", path);
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
    // The cut of a truncation whose sync failed may show here and be lost with the power. Giving a file
    // the length that it has may change nothing.
    file.set_len(len + 1)
        .and_then(|()| file.set_len(len))
        .map_err(failed())?;
    file.sync_data().map_err(io_error("sync", path))
}
