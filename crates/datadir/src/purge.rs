//! Removal of snapshots and logs that recovery does not need. Source: PurgeTxnLog.

use std::path::{Path, PathBuf};

use jute::Limits;
use storage::{DataDirs, RealDisk};

use crate::Error;

/// Minimum number of snapshots to keep, as in Apache ZooKeeper.
const KEPT_MIN: usize = 3;

/// Removes all snapshots except for the newest `keep` good ones, and the logs that only the removed
/// snapshots need. A server may be using the directory. Returns the removed files.
///
/// # Errors
/// If `keep` is less than 3, a directory is missing, or a file cannot be read or removed.
pub fn purge(dirs: &DataDirs, keep: usize, limits: Limits) -> Result<Vec<PathBuf>, Error> {
    if keep < KEPT_MIN {
        let reason = "count should be greater than or equal to 3";
        return Err(Error::Refused(reason.to_owned()));
    }
    for dir in [&dirs.snap, &dirs.log] {
        refuse_missing(dir)?;
    }
    dirs.check_places(&RealDisk)?;
    Ok(storage::purge(&RealDisk, dirs, keep, limits)?)
}

/// Refuses a missing directory, because it would look like a directory without old files.
fn refuse_missing(dir: &Path) -> Result<(), Error> {
    if dir.is_dir() {
        return Ok(());
    }
    let reason = format!("{} does not exist; name the dataDir", dir.display());
    Err(Error::Refused(reason))
}
