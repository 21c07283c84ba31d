//! Seams: positions at which a leader's snapshot replaced the earlier log.
//!
//! A learner that loads its leader's snapshot keeps its old log, which may contain transactions
//! that were never committed, and continues the log after the snapshot. The snapshot marks this
//! position only until it is purged or replaced by the next one. So the file
//! `version-2/zoarium.seam` in the snapshot directory records the snapshot's zxid before the
//! snapshot receives its name:
//!
//! ```text
//! 1. the seam is written and synced      crash after: it follows the end of the recovered data, so
//!                                        the start removes it (`forget_seams_after`)
//! 2. the snapshot gets its name          crash after: the seam is valid
//! 3. other snapshots are removed         crash after: the seam is valid
//! ```
//!
//! The file contains two zxids on separate lines: the newest seam and the previous one, which
//! becomes valid again if the newest is removed. The last line is a checksum. Recovery does not
//! need the file. It is needed by readers of the log that start at a known transaction, such as the
//! change history. Apache ZooKeeper lacks such a file and ignores it.
//!
//! A snapshot whose zxid is not in the log looks like a leader's snapshot. A leader can itself write
//! such a snapshot before the first transaction of its epoch: the snapshot is named after the begin
//! of the epoch. Everything up to this zxid is committed and in the leader's log, so the log
//! continues across it. The file `version-2/zoarium.epochs` has the same format and contains these
//! zxids, newest first. It is written before the snapshot receives its name. Without the file, such
//! a snapshot is treated as a leader's snapshot.

use std::path::Path;

use proto::Zxid;

use crate::checksum::Checksum;
use crate::disk::{Disk, DiskFile};
use crate::error::{StorageError, io_error};
use crate::files::dirs::DataDirs;

/// Name of the file with seams.
const SEAM: &str = "zoarium.seam";
/// Name of the file with begins of epochs.
const EPOCHS: &str = "zoarium.epochs";
/// Maximum number of zxids in each file.
const SEAMS_MAX: usize = 2;
const EPOCHS_MAX: usize = 8;
/// Maximum length of a file that is read, which exceeds the largest possible length, bytes.
const BYTES_MAX: usize = 256;

/// Returns the zxid of the last seam, or `None` without a seam. The log up to it may belong to
/// another history than the log after it.
///
/// # Errors
/// If the file cannot be read or is corrupted.
pub fn last_seam<D: Disk>(disk: &D, dirs: &DataDirs) -> Result<Option<Zxid>, StorageError> {
    Ok(seams(disk, dirs)?.first().copied())
}

/// Returns the recorded seams, newest first.
///
/// # Errors
/// If the file cannot be read or is corrupted.
pub(crate) fn seams<D: Disk>(disk: &D, dirs: &DataDirs) -> Result<Vec<Zxid>, StorageError> {
    read(disk, &dirs.snap.join(SEAM))
}

/// Records a seam at `zxid`, before the leader's snapshot of `zxid` gets its name.
///
/// # Errors
/// If the file cannot be written; the old file is kept.
pub fn note_seam<D: Disk>(disk: &D, dirs: &DataDirs, zxid: Zxid) -> Result<(), StorageError> {
    note(disk, dirs, SEAM, zxid, SEAMS_MAX)
}

/// Records that this member is the leader of the epoch that begins at `zxid`, before its snapshot
/// of `zxid` gets its name. The log of a leader contains everything up to the begin of its epoch.
///
/// # Errors
/// If the file cannot be written; the old file is kept.
pub fn note_epoch_begin<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    zxid: Zxid,
) -> Result<(), StorageError> {
    note(disk, dirs, EPOCHS, zxid, EPOCHS_MAX)
}

/// Returns the recorded begins of epochs. Returns none if the file is corrupted.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn epoch_begins<D: Disk>(disk: &D, dirs: &DataDirs) -> Result<Vec<Zxid>, StorageError> {
    read_intact(disk, &dirs.snap.join(EPOCHS))
}

fn note<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    name: &str,
    zxid: Zxid,
    zxids_max: usize,
) -> Result<(), StorageError> {
    // A zxid at or after `zxid` belongs to a history that was discarded.
    let before = read_intact(disk, &dirs.snap.join(name))?;
    let before = before.into_iter().filter(|before| *before < zxid);
    let zxids: Vec<Zxid> = [zxid].into_iter().chain(before).take(zxids_max).collect();
    write(disk, dirs, name, &zxids)
}

/// Removes the seams and begins of epochs after `end`, the end of the database, because their
/// snapshots were never completed or the log was truncated. If the file of seams is corrupted,
/// its new content is a seam at `end`.
///
/// # Errors
/// If the file cannot be read or written.
pub fn forget_seams_after<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    end: Zxid,
) -> Result<(), StorageError> {
    match seams(disk, dirs) {
        Ok(seams) if seams.iter().all(|seam| *seam <= end) => {}
        Ok(mut seams) => {
            seams.retain(|seam| *seam <= end);
            write(disk, dirs, SEAM, &seams)?;
        }
        Err(error @ StorageError::Seam { .. }) => {
            tracing::warn!(err = %error, %end, "replacing the damaged file of history boundaries, so the change history cannot use the log up to this zxid");
            write(disk, dirs, SEAM, &[end])?;
        }
        Err(other) => return Err(other),
    }
    // This file is optional, so an error must not leave the seams.
    let mut begins = epoch_begins(disk, dirs)?;
    if begins.extract_if(.., |begin| *begin > end).count() > 0 {
        write(disk, dirs, EPOCHS, &begins)?;
    }
    Ok(())
}

/// Returns the zxids in a file, or none if it is missing or corrupted.
fn read_intact<D: Disk>(disk: &D, path: &Path) -> Result<Vec<Zxid>, StorageError> {
    match read(disk, path) {
        Err(StorageError::Seam { .. }) => Ok(Vec::new()),
        other => other,
    }
}

fn read<D: Disk>(disk: &D, path: &Path) -> Result<Vec<Zxid>, StorageError> {
    let damaged = |reason: &'static str| StorageError::Seam {
        path: path.to_path_buf(),
        reason,
    };
    let content = match disk.read_small(path, BYTES_MAX) {
        Ok(None) => return Ok(Vec::new()),
        Ok(Some(content)) => content,
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            return Err(damaged("the file is too long"));
        }
        Err(error) => return Err(io_error("read", path)(error)),
    };
    let text = std::str::from_utf8(&content).map_err(|_| damaged("the file is not text"))?;
    let (zxids, sum) = text
        .trim_end_matches('\n')
        .rsplit_once('\n')
        .ok_or_else(|| damaged("the file ends too early"))?;
    if sum != checksum(zxids) {
        return Err(damaged("the checksum is wrong"));
    }
    let zxids = zxids.lines().map(|line| i64::from_str_radix(line, 16));
    let zxids: Result<Vec<i64>, _> = zxids.collect();
    let zxids = zxids.map_err(|_| damaged("a line is not a zxid"))?;
    Ok(zxids.into_iter().map(Zxid).collect())
}

fn write<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    name: &str,
    zxids: &[Zxid],
) -> Result<(), StorageError> {
    let zxids: Vec<String> = zxids.iter().map(|zxid| format!("{:x}", zxid.0)).collect();
    let zxids = zxids.join("\n");
    let text = format!("{zxids}\n{}\n", checksum(&zxids));
    let path = dirs.snap.join(name);
    let temporary = dirs.snap.join(format!("{name}.tmp"));
    let write = || {
        let file = disk.create(&temporary)?;
        file.write_all_at(0, text.as_bytes())?;
        file.sync_data()?;
        disk.rename(&temporary, &path)?;
        disk.sync_dir(&dirs.snap)
    };
    write().map_err(io_error("write", &path))
}

fn checksum(zxids: &str) -> String {
    format!("{:08x}", Checksum::of(zxids.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::real::RealDisk;
    use crate::files::dirs::OpenOptions;

    fn dirs() -> (tempfile::TempDir, DataDirs) {
        let dir = tempfile::tempdir().unwrap();
        let dirs =
            DataDirs::open(&RealDisk, dir.path(), dir.path(), OpenOptions::default()).unwrap();
        (dir, dirs)
    }

    #[test]
    fn an_unfinished_seam_leaves_the_previous_one() {
        let (_dir, dirs) = dirs();
        let last = || last_seam(&RealDisk, &dirs).unwrap();
        assert_eq!(last(), None);
        for zxid in [3, 7, 12] {
            note_seam(&RealDisk, &dirs, Zxid(zxid)).unwrap();
            assert_eq!(last(), Some(Zxid(zxid)));
        }
        forget_seams_after(&RealDisk, &dirs, Zxid(12)).unwrap();
        assert_eq!(last(), Some(Zxid(12)));
        forget_seams_after(&RealDisk, &dirs, Zxid(11)).unwrap();
        assert_eq!(last(), Some(Zxid(7)));
        // This is another history, which ends earlier.
        note_seam(&RealDisk, &dirs, Zxid(5)).unwrap();
        assert_eq!(last(), Some(Zxid(5)));
        forget_seams_after(&RealDisk, &dirs, Zxid(4)).unwrap();
        assert_eq!(last(), None);
    }

    #[test]
    fn a_begin_of_an_epoch_is_kept_until_the_log_ends_before_it() {
        let (_dir, dirs) = dirs();
        let begins = || epoch_begins(&RealDisk, &dirs).unwrap();
        let note = |zxid| note_epoch_begin(&RealDisk, &dirs, Zxid(zxid)).unwrap();
        assert_eq!(begins(), []);
        (1..=10).for_each(note);
        assert_eq!(begins(), [10, 9, 8, 7, 6, 5, 4, 3].map(Zxid));
        forget_seams_after(&RealDisk, &dirs, Zxid(4)).unwrap();
        assert_eq!(begins(), [4, 3].map(Zxid));
        // A leader can write several snapshots at the begin of its epoch.
        note(4);
        assert_eq!(begins(), [4, 3].map(Zxid));
        std::fs::write(dirs.snap.join(EPOCHS), b"4").unwrap();
        assert_eq!(begins(), []);
        note(5);
        assert_eq!(begins(), [5].map(Zxid));
        assert_eq!(last_seam(&RealDisk, &dirs).unwrap(), None);
    }

    #[test]
    fn seams_are_forgotten_although_the_begins_of_epochs_cannot_be_written() {
        let (_dir, dirs) = dirs();
        note_seam(&RealDisk, &dirs, Zxid(7)).unwrap();
        note_epoch_begin(&RealDisk, &dirs, Zxid(7)).unwrap();
        std::fs::create_dir(dirs.snap.join(format!("{EPOCHS}.tmp"))).unwrap();
        let forgotten = forget_seams_after(&RealDisk, &dirs, Zxid(6));
        let is_unwritten = matches!(forgotten, Err(StorageError::Io { .. }));
        assert!(is_unwritten, "{forgotten:?}");
        assert_eq!(last_seam(&RealDisk, &dirs).unwrap(), None);
    }

    #[test]
    fn a_corrupt_seam_counts_as_at_the_end() {
        let (_dir, dirs) = dirs();
        note_seam(&RealDisk, &dirs, Zxid(0x1_0000_0003)).unwrap();
        let path = dirs.snap.join(SEAM);
        let whole = std::fs::read(&path).unwrap();
        let cut = (0..whole.len() - 1).map(|len| whole[..len].to_vec());
        let flipped = (0..whole.len() - 1).map(|at| {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x11;
            flipped
        });
        let long = std::iter::once(vec![b'1'; 1000]);
        for damaged in cut.chain(flipped).chain(long) {
            std::fs::write(&path, &damaged).unwrap();
            let found = last_seam(&RealDisk, &dirs);
            assert!(
                matches!(found, Err(StorageError::Seam { .. })),
                "{damaged:?}: {found:?}"
            );
            forget_seams_after(&RealDisk, &dirs, Zxid(9)).unwrap();
            assert_eq!(last_seam(&RealDisk, &dirs).unwrap(), Some(Zxid(9)));
        }
        std::fs::write(&path, b"").unwrap();
        note_seam(&RealDisk, &dirs, Zxid(11)).unwrap();
        assert_eq!(last_seam(&RealDisk, &dirs).unwrap(), Some(Zxid(11)));
    }
}
