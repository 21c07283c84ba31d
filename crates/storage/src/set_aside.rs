//! Keeping a damaged snapshot out of the way of the one that takes its place.

use proto::Zxid;

use crate::dirs::DataDirs;
use crate::disk::Disk;
use crate::error::{StorageError, io_error};
use crate::names::list_snapshots;

/// First part of the name of a damaged file that is kept; no server reads it.
pub(crate) const DAMAGED: &str = "damaged";

/// Renames the snapshots named after `zxid` to `damaged.snapshot.<zxid>`.
///
/// For a server that recovered up to `zxid` by replay and is about to write that snapshot: one that
/// is there already did not load, and whoever looks into the damage needs its bytes.
///
/// # Errors
/// If the directory cannot be listed, changed or synced.
pub fn set_damaged_aside<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    zxid: Zxid,
) -> Result<(), StorageError> {
    let mut is_changed = false;
    for snapshot in list_snapshots(disk, &dirs.snap)? {
        if let (true, Some(name)) = (snapshot.zxid == zxid, snapshot.path.file_name()) {
            let aside = dirs.snap.join(format!("{DAMAGED}.{}", name.display()));
            disk.rename(&snapshot.path, &aside)
                .map_err(io_error("move aside", &snapshot.path))?;
            tracing::warn!(file = %aside.display(), "damaged snapshot moved aside");
            is_changed = true;
        }
    }
    if is_changed {
        disk.sync_dir(&dirs.snap)
            .map_err(io_error("sync", &dirs.snap))?;
    }
    Ok(())
}
