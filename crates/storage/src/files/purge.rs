//! Removal of snapshots and logs that recovery does not need.

use std::path::PathBuf;

use jute::Limits;
use proto::Zxid;

use super::dirs::DataDirs;
use super::names::{list_logs, list_snapshots};
use super::untrusted::restore_trust;
use crate::disk::Disk;
use crate::error::{StorageError, io_error};
use crate::snapshot::valid::newest_valid;

/// Minimum number of snapshots that are kept (`autopurge.snapRetainCount`).
pub(crate) const RETAIN_MIN: usize = 3;

/// Keeps the newest `retain` valid snapshots (at least three) and the logs from the oldest of them
/// on. Returns the removed files, in the order of removal.
///
/// The log that spans the oldest kept snapshot is kept. Newer corrupted snapshots are kept as well,
/// and so are files whose names only resemble logs or snapshots (Java removes such files, for
/// example `log.txt`). The rule is the same if there are fewer valid snapshots than `retain`.
/// Without a valid snapshot, nothing is removed.
///
/// Snapshots are removed before logs, and old files before new ones. The removal of the snapshots
/// is durable before a log is removed, so neither a crash nor a power failure leaves a snapshot
/// without its logs. If the log after such a snapshot began with the first transaction of an epoch,
/// the snapshot would be treated as the beginning of the history (Java does not sync here).
///
/// A purge is safe while a [`LogWriter`](crate::LogWriter) and a
/// [`SnapshotWriter`](crate::SnapshotWriter) of the same process are running.
///
/// # Errors
/// If a file cannot be read or removed. Source: PurgeTxnLog; ZOOKEEPER-1797, 2574, 3231.
pub fn purge<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    retain: usize,
    limits: Limits,
) -> Result<Vec<PathBuf>, StorageError> {
    let snapshots = list_snapshots(disk, &dirs.snap)?;
    let logs = list_logs(disk, &dirs.log)?;
    let retain = retain.max(RETAIN_MIN);
    let mut removed = Vec::new();
    if snapshots.len() <= retain && logs.len() <= 1 {
        return Ok(removed);
    }
    let valid = newest_valid(disk, &dirs.snap, retain, limits)?;
    let Some(oldest) = valid.last().map(|snapshot| snapshot.zxid) else {
        return Ok(removed);
    };
    let old_snapshots = snapshots
        .into_iter()
        .rev()
        .filter(|snapshot| snapshot.zxid < oldest)
        .map(|snapshot| snapshot.path);
    let spanning = logs.iter().rposition(|log| log.zxid <= oldest).unwrap_or(0);
    let mut remove = |path: PathBuf| {
        disk.remove(&path).map_err(io_error("remove", &path))?;
        tracing::info!(file = %path.display(), "purged");
        removed.push(path);
        Ok(())
    };
    old_snapshots.into_iter().try_for_each(&mut remove)?;
    if spanning > 0 {
        // Snapshots that an earlier process removed must be durably removed as well.
        let failed = io_error("sync", &dirs.snap);
        disk.sync_dir(&dirs.snap).map_err(failed)?;
    }
    let mut old_logs = logs.into_iter().take(spanning).map(|log| log.path);
    old_logs.try_for_each(remove)?;
    Ok(removed)
}

/// Removes all snapshots except the snapshot of `zxid`, which replaces the history in the other
/// snapshots. Returns the removed files.
///
/// Used by a learner after its leader's snapshot is on disk. If the learner's own history was set
/// aside ([`set_history_aside`](crate::set_history_aside)), the learner is trusted again. A
/// remaining snapshot after `zxid` would be loaded instead, with transactions that were never
/// committed. A remaining snapshot before `zxid` would be loaded if the leader's snapshot became
/// corrupted. If the log after that older snapshot began with a later epoch, the two would be
/// treated as the whole history, and no zxid would show the gap (ZOOKEEPER-2846).
///
/// # Errors
/// If a file cannot be removed.
pub fn remove_other_snapshots<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    zxid: Zxid,
) -> Result<Vec<PathBuf>, StorageError> {
    let mut removed = Vec::new();
    for snapshot in list_snapshots(disk, &dirs.snap)? {
        if snapshot.zxid != zxid {
            let path = snapshot.path;
            disk.remove(&path).map_err(io_error("remove", &path))?;
            tracing::info!(file = %path.display(), "removed a snapshot that the leader's snapshot replaces");
            removed.push(path);
        }
    }
    if !removed.is_empty() {
        // A snapshot that reappears after a power failure would be loaded.
        let failed = io_error("sync", &dirs.snap);
        disk.sync_dir(&dirs.snap).map_err(failed)?;
    }
    restore_trust(disk, dirs, zxid)?;
    Ok(removed)
}
