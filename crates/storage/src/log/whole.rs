//! Detection of breaks in the log between two transactions.

use std::collections::BTreeSet;

use jute::Limits;
use proto::Zxid;

use super::chain::read_txns_from;
use crate::disk::Disk;
use crate::error::StorageError;
use crate::files::dirs::DataDirs;
use crate::files::names::{list_logs, list_snapshots};
use crate::recovery::seam::{epoch_begins, seams};

/// Returns whether the log's transactions after `from`, up to and including `upto`, belong to one
/// history.
///
/// A learner that loads its leader's snapshot keeps its old log and continues it after the
/// snapshot. The log has a break at the snapshot, because the old transactions before it may never
/// have been committed. A break shows as a missing zxid, or as a snapshot whose last transaction is
/// not in the log. A leader's own snapshot from the begin of its epoch is not a break if
/// [`note_epoch_begin`](crate::note_epoch_begin) has recorded it. A recorded seam
/// ([`note_seam`](crate::note_seam)) is always a break.
///
/// `upto` must be the zxid of a committed transaction.
///
/// # Errors
/// If a file cannot be read, or is corrupted.
pub fn is_log_whole<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    from: Zxid,
    upto: Zxid,
    limits: Limits,
) -> Result<bool, StorageError> {
    let check = check_log(disk, dirs, from, upto, usize::MAX, limits)?;
    Ok(check == LogCheck::Whole)
}

/// Result of [`check_log`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogCheck {
    /// The transactions belong to one history.
    Whole,
    /// The transactions up to this one belong to one history. The next check can begin there.
    WholeUntil(Zxid),
    /// The log has a break.
    Broken,
}

/// Checks like [`is_log_whole`], but at most `txns_max` transactions.
///
/// # Errors
/// If a file cannot be read, or is corrupted.
pub fn check_log<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    from: Zxid,
    upto: Zxid,
    txns_max: usize,
    limits: Limits,
) -> Result<LogCheck, StorageError> {
    let is_between = |zxid: &Zxid| *zxid > from && *zxid <= upto;
    // The old transactions may reach the snapshot, and the snapshot may be purged.
    if seams(disk, dirs)?.iter().any(is_between) {
        return Ok(LogCheck::Broken);
    }
    let snapshots = list_snapshots(disk, &dirs.snap)?.into_iter();
    let mut awaited: BTreeSet<Zxid> = snapshots
        .map(|snapshot| snapshot.zxid)
        .filter(is_between)
        .collect();
    if !awaited.is_empty() {
        for begin in epoch_begins(disk, dirs)? {
            awaited.remove(&begin);
        }
    }
    let logs = list_logs(disk, &dirs.log)?;
    // A break is never inside a file. If several roles wrote to a file one after the other, each
    // continued the history of the previous role.
    if awaited.is_empty() && !logs.iter().any(|log| is_between(&log.zxid)) {
        return Ok(LogCheck::Whole);
    }
    let mut left = txns_max;
    for txn in read_txns_from(disk, dirs, from, limits)? {
        let zxid = match txn {
            Ok(txn) => txn.record.header.zxid,
            Err(StorageError::Gap { .. }) => return Ok(LogCheck::Broken),
            Err(other) => return Err(other),
        };
        awaited.remove(&zxid);
        // A record that is being written after `upto` may look like corruption.
        if zxid >= upto {
            break;
        }
        if zxid > from {
            left -= 1;
        }
        if left == 0 {
            return Ok(match awaited.first() {
                Some(first) if *first < zxid => LogCheck::Broken,
                _ => LogCheck::WholeUntil(zxid),
            });
        }
    }
    Ok(if awaited.is_empty() {
        LogCheck::Whole
    } else {
        LogCheck::Broken
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use jute::Encode;
    use proto::SessionId;
    use proto::txn::{Txn, TxnHeader, TxnRecord};

    use super::*;
    use crate::disk::real::RealDisk;
    use crate::files::dirs::OpenOptions;
    use crate::log::{LogSettings, LogWriter};
    use crate::recovery::seam::note_seam;

    fn open(dir: &Path) -> DataDirs {
        DataDirs::open(&RealDisk, dir, dir, OpenOptions::default()).unwrap()
    }

    /// Writes a log file with these transactions.
    fn write(dirs: &DataDirs, zxids: &[i64]) {
        let mut log = LogWriter::new(Arc::new(RealDisk), dirs, LogSettings::new(testkit::LIMITS));
        for zxid in zxids.iter().copied().map(Zxid) {
            let txn = Txn::CreateSession { timeout_ms: 1 };
            let header = TxnHeader {
                session: SessionId(1),
                cxid: 0,
                zxid,
                time_ms: 0,
                op: txn.op().number(),
            };
            let record = TxnRecord {
                header,
                txn,
                digest: None,
            };
            log.append(zxid, &record.to_bytes()).unwrap();
        }
        log.commit().unwrap();
    }

    fn is_whole(dirs: &DataDirs, from: i64, upto: i64) -> bool {
        let (from, upto) = (Zxid(from), Zxid(upto));
        is_log_whole(&RealDisk, dirs, from, upto, testkit::LIMITS).unwrap()
    }

    const EPOCH_2: i64 = 0x2_0000_0000;

    #[test]
    fn a_log_of_several_files_is_one_history() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = open(dir.path());
        write(&dirs, &[1, 2, 3]);
        write(&dirs, &[4, 5, EPOCH_2 + 1]);
        std::fs::write(dirs.snap.join("snapshot.3"), b"its own").unwrap();
        assert!(is_whole(&dirs, 1, EPOCH_2 + 1));
        assert!(is_whole(&dirs, 4, 5));
    }

    /// A check in parts finds the same breaks as a check of the whole log.
    #[test]
    fn the_log_can_be_checked_in_parts() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = open(dir.path());
        let snapshot = dirs.snap.join(format!("snapshot.{EPOCH_2:x}"));
        let check = |txns_max| {
            let (mut from, upto) = (Zxid(1), Zxid(EPOCH_2 + 5));
            for part in 1.. {
                let limits = testkit::LIMITS;
                match check_log(&RealDisk, &dirs, from, upto, txns_max, limits).unwrap() {
                    LogCheck::WholeUntil(next) if next > from => from = next,
                    end => return (end, part),
                }
            }
            unreachable!("an endless range ends")
        };
        write(&dirs, &[1, 2, 3]);
        write(&dirs, &[4, 5]);
        write(&dirs, &[EPOCH_2 + 1, EPOCH_2 + 2, EPOCH_2 + 3]);
        write(&dirs, &[EPOCH_2 + 4, EPOCH_2 + 5]);
        for txns_max in 1..12 {
            let (end, parts) = check(txns_max);
            assert_eq!(end, LogCheck::Whole, "{txns_max}");
            // The last transaction is not counted.
            assert!(
                parts <= 8_usize.div_ceil(txns_max) + 1,
                "{txns_max}: {parts}"
            );
        }
        std::fs::write(&snapshot, b"the leader's").unwrap();
        for txns_max in 1..12 {
            assert_eq!(check(txns_max).0, LogCheck::Broken, "{txns_max}");
        }
        std::fs::remove_file(&snapshot).unwrap();
        write(&dirs, &[EPOCH_2 + 7]);
        assert!(!is_whole(&dirs, 1, EPOCH_2 + 7));
        std::fs::remove_file(dirs.log.join("log.4")).unwrap();
        for txns_max in 1..12 {
            // Between 3 and the next epoch, nothing is known to be missing.
            assert_eq!(check(txns_max).0, LogCheck::Whole, "{txns_max}");
        }
        std::fs::remove_file(dirs.log.join(format!("log.{:x}", EPOCH_2 + 1))).unwrap();
        for txns_max in 1..12 {
            assert_eq!(check(txns_max).0, LogCheck::Broken, "{txns_max}");
        }
    }

    #[test]
    fn a_leaders_snapshot_breaks_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = open(dir.path());
        // Transaction 5 may never have been committed.
        write(&dirs, &[4, 5]);
        write(&dirs, &[EPOCH_2 + 1, EPOCH_2 + 2]);
        assert!(is_whole(&dirs, 4, EPOCH_2 + 2));
        let name = format!("snapshot.{EPOCH_2:x}");
        std::fs::write(dirs.snap.join(name), b"the leader's").unwrap();
        assert!(!is_whole(&dirs, 4, EPOCH_2 + 2));
        // The break does not matter for a range that begins after it or ends before it.
        assert!(is_whole(&dirs, EPOCH_2, EPOCH_2 + 2));
        assert!(is_whole(&dirs, 4, 5));
    }

    /// The log contains the snapshot's zxid, but also the history that the snapshot replaced.
    #[test]
    fn a_seam_breaks_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = open(dir.path());
        write(&dirs, &[1, 2, 3]);
        write(&dirs, &[4, 5]);
        write(&dirs, &[6, 7]);
        std::fs::write(dirs.snap.join("snapshot.3"), b"restored").unwrap();
        assert!(is_whole(&dirs, 1, 7));
        for seam in [3, 9] {
            note_seam(&RealDisk, &dirs, Zxid(seam)).unwrap();
            assert!(!is_whole(&dirs, 1, 7), "{seam}");
            assert!(!is_whole(&dirs, 2, 3), "{seam}");
            // The file of the seam contains no other transaction of the range.
            assert!(!is_whole(&dirs, 2, 5), "{seam}");
            assert!(is_whole(&dirs, 3, 7), "{seam}");
            assert!(is_whole(&dirs, 1, 2), "{seam}");
        }
    }

    #[test]
    fn a_missing_zxid_breaks_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = open(dir.path());
        write(&dirs, &[4, 5]);
        write(&dirs, &[EPOCH_2 + 7]);
        assert!(!is_whole(&dirs, 4, EPOCH_2 + 7));
        assert!(is_whole(&dirs, EPOCH_2 + 6, EPOCH_2 + 7));
    }
}
