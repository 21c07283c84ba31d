//! Removing snapshots and logs that no recovery needs.

use std::path::PathBuf;

use jute::Limits;
use proto::Zxid;

use crate::dirs::DataDirs;
use crate::disk::Disk;
use crate::error::{StorageError, io_error};
use crate::names::{list_logs, list_snapshots};
use crate::snapshot::valid::newest_valid;
use crate::untrusted::trust_again;

/// Fewer snapshots are never kept (`autopurge.snapRetainCount`).
const RETAIN_MIN: usize = 3;

/// Keeps the newest `retain` valid snapshots and the logs from the oldest of them on; returns what
/// was removed, in that order.
///
/// The log that spans the oldest kept snapshot stays, as do damaged snapshots newer than it and
/// files that only look like ours (Java removes those, `log.txt` for one). With fewer valid
/// snapshots than asked for the rule is the same; with none nothing is removed. Snapshots go
/// before logs and old before new, and are gone for good before a log goes: neither a crash in between
/// nor a power failure leaves a snapshot without its logs. Such a one would pass for the beginning of
/// the history where the log behind it begins with an epoch (Java does not sync here).
///
/// Safe beside a running [`LogWriter`](crate::LogWriter) and
/// [`SnapshotWriter`](crate::SnapshotWriter) of the same process.
///
/// # Errors
/// If a file cannot be read or removed. Source: PurgeTxnLog;
/// ZOOKEEPER-1797, 2574, 3231.
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
        // Those that a process before this one removed count as well.
        let failed = io_error("sync", &dirs.snap);
        disk.sync_dir(&dirs.snap).map_err(failed)?;
    }
    let mut old_logs = logs.into_iter().take(spanning).map(|log| log.path);
    old_logs.try_for_each(remove)?;
    Ok(removed)
}

/// Removes all snapshots but the one of `zxid`, which is another history than theirs; returns
/// them.
///
/// For a learner that has taken over its leader's snapshot, which is on disk; if its own history was
/// set aside before ([`set_history_aside`](crate::set_history_aside)), it is trusted again. One beyond it would be loaded instead,
/// with what was never committed in it. One before it, were the leader's damaged one day, and the
/// log behind would pass for the whole history where the log begins with a later epoch, and no
/// number would show the hole (ZOOKEEPER-2846).
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
            tracing::info!(file = %path.display(), "removed, the leader's history takes its place");
            removed.push(path);
        }
    }
    if !removed.is_empty() {
        // What comes back after a power failure would be loaded.
        let failed = io_error("sync", &dirs.snap);
        disk.sync_dir(&dirs.snap).map_err(failed)?;
    }
    trust_again(disk, dirs, zxid)?;
    Ok(removed)
}
