//! Truncation of the log at a zxid, as ordered by a leader if a learner has later transactions.

use std::collections::BTreeSet;
use std::io;

use jute::Limits;
use proto::Zxid;

use crate::disk::{Disk, DiskFile};
use crate::error::{StorageError, described, io_error};
use crate::files::dirs::DataDirs;
use crate::files::names::{LogFile, SnapshotFile, list_logs, list_snapshots};
use crate::log::chain::{LoggedTxns, zxid_of};
use crate::log::judge::{Verdict, judge, judge_mismatch};
use crate::log::scan::{LogScanner, Scanned};
use crate::snapshot::valid::is_valid;

/// Result of [`truncate`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncated {
    /// Last transaction in the log; `None` if the log is now empty and only the snapshot remains.
    /// It is lower than the target if the target itself was not logged.
    pub last_zxid: Option<Zxid>,
}

/// End of a log after truncation.
#[derive(Debug)]
struct LogCut {
    len: u64,
    last: Option<Zxid>,
}

/// Keeps the transactions with zxid <= `target`, and removes logs and snapshots after it.
///
/// No [`LogWriter`](crate::LogWriter) may be open. Reload the database afterwards. A crash at any
/// moment leaves a log without gaps: snapshots above the target are removed first, then logs from
/// the newest down, and the file with the target is truncated last.
///
/// Java keeps the first record *above* a target that is not logged, and snapshots above it.
///
/// # Errors
/// If the log does not reach the target, or no snapshot at or below the target remains to start
/// from. Nothing is then changed, and the exit code is 13. Other errors are returned as by
/// [`Truncation::plan`] and [`Truncation::carry_out`]. Source: FileTxnLog.truncate.
pub fn truncate<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    target: Zxid,
    limits: Limits,
) -> Result<Truncated, StorageError> {
    Truncation::plan(disk, dirs, target, limits)?.carry_out(disk, dirs)
}

/// A planned truncation.
#[derive(Debug)]
pub struct Truncation {
    beyond: Vec<SnapshotFile>,
    plan: TruncationPlan,
}

impl Truncation {
    /// Finds the files to remove or truncate. Changes nothing.
    ///
    /// # Errors
    /// If [`truncate`] refuses the target, or if files are corrupted or cannot be read.
    pub fn plan<D: Disk>(
        disk: &D,
        dirs: &DataDirs,
        target: Zxid,
        limits: Limits,
    ) -> Result<Self, StorageError> {
        let beyond = beyond(disk, dirs, target, limits)?;
        let plan = TruncationPlan::new(disk, list_logs(disk, &dirs.log)?, target, limits)?;
        Ok(Self { beyond, plan })
    }

    /// Removes and truncates the files.
    ///
    /// # Errors
    /// If a file cannot be changed or synced. The content of the disk is then unknown, because data
    /// truncated in the page cache may reappear when the machine restarts. The process must
    /// therefore exit, and [`make_durable`](crate::make_durable) makes the files durable at the
    /// next start.
    pub fn carry_out<D: Disk>(self, disk: &D, dirs: &DataDirs) -> Result<Truncated, StorageError> {
        for snapshot in &self.beyond {
            remove(disk, &snapshot.path)?;
        }
        sync_dir(disk, &dirs.snap)?;
        self.plan.carry_out(disk, dirs)
    }
}

/// Returns the snapshots above the target. Returns an error if the remaining snapshots and the log
/// would not suffice to load the data up to the target.
fn beyond<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    target: Zxid,
    limits: Limits,
) -> Result<Vec<SnapshotFile>, StorageError> {
    let refused = |reason: &str| StorageError::Truncate {
        dir: dirs.log.clone(),
        target,
        reason: reason.into(),
    };
    let last = crate::log::chain::last_logged_zxid(disk, dirs, limits)?;
    let Some(last) = last else {
        return Err(refused("no log exists"));
    };
    if last < target {
        return Err(refused(&format!("the log ends at {last}")));
    }
    let (beyond, kept): (Vec<_>, Vec<_>) = list_snapshots(disk, &dirs.snap)?
        .into_iter()
        .partition(|snapshot| snapshot.zxid > target);
    if !beyond.is_empty() && !is_reloadable(disk, dirs, &kept, target, limits)? {
        return Err(refused(
            "the log does not reach that zxid from any intact snapshot",
        ));
    }
    Ok(beyond)
}

/// Keeps the transactions with zxid <= `target` in the log, and does not change the snapshots.
///
/// Used by a learner that is about to write its leader's snapshot of `target` and to remove its own
/// snapshots ([`remove_other_snapshots`](crate::remove_other_snapshots)). Until both steps are
/// complete, the learner's own snapshots remain, so that a start still finds a history to load.
///
/// # Errors
/// If the log up to the target is corrupted (nothing is then changed), or if a file cannot be
/// written.
pub fn cut_log<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    target: Zxid,
    limits: Limits,
) -> Result<Truncated, StorageError> {
    let logs = list_logs(disk, &dirs.log)?;
    TruncationPlan::new(disk, logs, target, limits)?.carry_out(disk, dirs)
}

/// Planned changes to the log files.
#[derive(Debug)]
struct TruncationPlan {
    /// Files to remove, newest first.
    dropped: Vec<LogFile>,
    cut: Option<(LogFile, LogCut)>,
}

impl TruncationPlan {
    fn new<D: Disk>(
        disk: &D,
        logs: Vec<LogFile>,
        target: Zxid,
        limits: Limits,
    ) -> Result<Self, StorageError> {
        let mut dropped = Vec::new();
        for log in logs.into_iter().rev() {
            let end = end_at(disk, &log, target, limits)?;
            if end.last.is_some() {
                let cut = Some((log, end));
                return Ok(Self { dropped, cut });
            }
            dropped.push(log);
        }
        Ok(Self { dropped, cut: None })
    }

    fn carry_out<D: Disk>(self, disk: &D, dirs: &DataDirs) -> Result<Truncated, StorageError> {
        for log in self.dropped {
            remove(disk, &log.path)?;
            // Each removal is synced separately, because removals in another order would leave a
            // gap after a crash.
            sync_dir(disk, &dirs.log)?;
        }
        let Some((log, end)) = self.cut else {
            return Ok(Truncated { last_zxid: None });
        };
        let failed = |error: io::Error| io_error("truncate", &log.path)(error);
        let file = disk.open_for_change(&log.path).map_err(failed)?;
        file.set_len(end.len)
            .and_then(|()| file.sync_data())
            .map_err(failed)?;
        Ok(Truncated {
            last_zxid: end.last,
        })
    }
}

/// Returns whether a snapshot in `kept` can be loaded and the log leads from it to the target
/// without a gap, including the transactions of newer snapshots that cannot be loaded.
fn is_reloadable<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    kept: &[SnapshotFile],
    target: Zxid,
    limits: Limits,
) -> Result<bool, StorageError> {
    let mut to_pass = BTreeSet::new();
    for snapshot in kept {
        if !is_valid(disk, snapshot, limits)? {
            to_pass.insert(snapshot.zxid);
            continue;
        }
        to_pass.remove(&snapshot.zxid);
        let holder = Some(described("snapshot", &snapshot.path));
        let mut txns = LoggedTxns::open(disk, dirs, snapshot.zxid.next(), holder, limits)?;
        let beyond = txns.find(|txn| match txn {
            Ok(txn) => {
                to_pass.remove(&txn.record.header.zxid);
                txn.record.header.zxid > target
            }
            Err(_) => true,
        });
        return match beyond {
            Some(Err(StorageError::Gap { .. })) => Ok(false),
            Some(Err(error)) => Err(error),
            _ => Ok(to_pass.is_empty()),
        };
    }
    Ok(false)
}

/// Finds the end of the last record with zxid <= `target`. Does not read the bytes after the record
/// of `target`, which may be corrupted.
fn end_at<D: Disk>(
    disk: &D,
    log: &LogFile,
    target: Zxid,
    limits: Limits,
) -> Result<LogCut, StorageError> {
    let mut cut = LogCut { len: 0, last: None };
    if log.len == Some(0) {
        return Ok(cut);
    }
    let mut scanner = LogScanner::open(disk, &log.path, limits)?;
    let mut last_read = Zxid(log.zxid.0.saturating_sub(1));
    loop {
        let (offset, verdict) = match scanner.next_record()? {
            Scanned::Record(record) if record.is_intact() => {
                let zxid = zxid_of(&record.payload).unwrap_or(last_read);
                if zxid > target {
                    return Ok(cut);
                }
                last_read = zxid;
                cut = LogCut {
                    len: record.end(),
                    last: Some(zxid),
                };
                if zxid == target {
                    return Ok(cut);
                }
                continue;
            }
            Scanned::Record(record) => {
                (record.offset, judge_mismatch(&scanner, &record, last_read)?)
            }
            Scanned::Stop(stop) => (scanner.position(), judge(&scanner, stop, last_read)?),
        };
        return match verdict {
            Verdict::Damaged(damage) => Err(StorageError::LogDamaged {
                path: log.path.clone(),
                offset,
                damage,
                last_good: last_read,
            }),
            _ => Ok(cut),
        };
    }
}

fn remove<D: Disk>(disk: &D, path: &std::path::Path) -> Result<(), StorageError> {
    disk.remove(path).map_err(io_error("remove", path))?;
    tracing::info!(file = %path.display(), "removed a file beyond the truncation point");
    Ok(())
}

fn sync_dir<D: Disk>(disk: &D, dir: &std::path::Path) -> Result<(), StorageError> {
    disk.sync_dir(dir).map_err(io_error("sync", dir))
}
