//! Cheap and thorough checks whether a snapshot is complete.

use std::path::Path;

use jute::Limits;

use super::codec::{GZIP_MAGIC, SNAPPY_MAGIC};
use super::read::{SnapshotInfo, read_snapshot};
use super::{Compression, END_MARK};
use crate::disk::{Disk, DiskFile, read_full_at};
use crate::error::{StorageError, io_error};
use crate::files::names::{SnapshotFile, list_snapshots};
use crate::recovery::state::Discard;

/// Minimum length of a snapshot, bytes.
const SNAPSHOT_BYTES_MIN: u64 = 10;

/// Checks the first or last bytes: a plain snapshot ends with "/", a compressed one begins with its
/// magic bytes. Returns a description of the error, or `None` if the bytes are correct.
///
/// Source: SnapStream.isValidSnapshot.
pub(crate) fn cheap_fault<D: Disk>(
    disk: &D,
    file: &SnapshotFile,
) -> Result<Option<String>, StorageError> {
    let opened = disk
        .open(&file.path)
        .map_err(io_error("open", &file.path))?;
    let len = opened.len().map_err(io_error("read", &file.path))?;
    if len < SNAPSHOT_BYTES_MIN {
        return Ok(Some(format!("the file has only {len} bytes")));
    }
    let (at, wanted): (u64, &[u8]) = match file.compression {
        Compression::None => (len - END_MARK.len() as u64, &END_MARK),
        Compression::Gzip => (0, &GZIP_MAGIC),
        Compression::Snappy => (0, &SNAPPY_MAGIC),
    };
    let mut found = vec![0; wanted.len()];
    read_full_at(&opened, at, &mut found).map_err(io_error("read", &file.path))?;
    Ok((found != wanted).then(|| match file.compression {
        Compression::None => "the file is cut off: the end mark is missing".to_string(),
        Compression::Gzip => "the file is not a gzip file".to_string(),
        Compression::Snappy => "the file is not a snappy file".to_string(),
    }))
}

/// Reads the whole file and verifies all checksums.
///
/// # Errors
/// [`StorageError::SnapshotDamaged`] with the position and the cause if the file is corrupted,
/// [`StorageError::Io`] if it cannot be opened.
pub fn verify_snapshot<D: Disk>(
    disk: &D,
    file: &SnapshotFile,
    limits: Limits,
) -> Result<SnapshotInfo, StorageError> {
    if let Some(reason) = cheap_fault(disk, file)? {
        return Err(StorageError::SnapshotDamaged {
            path: file.path.clone(),
            offset: file.len.unwrap_or_default(),
            reason,
        });
    }
    read_snapshot(disk, file, limits, &mut Discard)
}

/// Returns whether a snapshot is complete and its checksums are correct. Reads the whole file.
pub(crate) fn is_valid<D: Disk>(
    disk: &D,
    file: &SnapshotFile,
    limits: Limits,
) -> Result<bool, StorageError> {
    if let Some(reason) = cheap_fault(disk, file)? {
        warn_invalid(&file.path, &reason);
        return Ok(false);
    }
    match read_snapshot(disk, file, limits, &mut Discard) {
        Ok(_) => Ok(true),
        Err(error @ StorageError::SnapshotDamaged { .. }) => {
            warn_invalid(&file.path, &error.to_string());
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Returns the newest `count` valid snapshots, newest first.
///
/// Java uses the cheap check when it purges, so it may keep three corrupted snapshots and delete
/// the intact one. This function reads the snapshots completely, at about one gigabyte per second.
pub(crate) fn newest_valid<D: Disk>(
    disk: &D,
    dir: &Path,
    count: usize,
    limits: Limits,
) -> Result<Vec<SnapshotFile>, StorageError> {
    let mut valid = Vec::with_capacity(count);
    for file in list_snapshots(disk, dir)? {
        if valid.len() < count && is_valid(disk, &file, limits)? {
            valid.push(file);
        }
    }
    Ok(valid)
}

fn warn_invalid(path: &Path, reason: &str) {
    tracing::warn!(file = %path.display(), reason, "ignoring a damaged snapshot");
}
