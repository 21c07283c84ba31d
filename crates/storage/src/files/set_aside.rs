//! Renaming of files that other files are about to replace.

use std::collections::BTreeSet;
use std::path::Path;

use proto::Zxid;

use super::dirs::DataDirs;
use super::names::list_snapshots;
use crate::disk::Disk;
use crate::error::{StorageError, io_error};

/// Prefix for the names of corrupted files that are kept. No server reads such files.
pub const DAMAGED: &str = "damaged";

/// Renames the snapshots named after `zxid` to `damaged.snapshot.<zxid>`.
///
/// Used by a server that has recovered up to `zxid` by replay and is about to write the snapshot of
/// `zxid`. An existing snapshot with this name could not be loaded, and its bytes are needed to
/// investigate the corruption.
///
/// # Errors
/// If the directory cannot be listed, changed or synced.
pub fn set_damaged_aside<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    zxid: Zxid,
) -> Result<(), StorageError> {
    let mut taken = names_in(disk, &dirs.snap)?;
    let mut is_changed = false;
    for snapshot in list_snapshots(disk, &dirs.snap)? {
        let name = snapshot.path.file_name().and_then(|name| name.to_str());
        if let (true, Some(name)) = (snapshot.zxid == zxid, name) {
            let name = free_name(&taken, DAMAGED, name);
            let aside = dirs.snap.join(&name);
            disk.rename(&snapshot.path, &aside)
                .map_err(io_error("move aside", &snapshot.path))?;
            tracing::warn!(file = %aside.display(), "damaged snapshot moved aside");
            taken.insert(name);
            is_changed = true;
        }
    }
    if is_changed {
        disk.sync_dir(&dirs.snap)
            .map_err(io_error("sync", &dirs.snap))?;
    }
    Ok(())
}

/// Returns all names in a directory.
pub(crate) fn names_in<D: Disk>(disk: &D, dir: &Path) -> Result<BTreeSet<String>, StorageError> {
    let entries = disk.list(dir).map_err(io_error("list", dir))?;
    Ok(entries.into_iter().map(|entry| entry.name).collect())
}

/// Returns `<prefix>.<name>`, with `.2`, `.3` and so on appended if that name exists, because a
/// rename to an existing name would delete the earlier file.
pub(crate) fn free_name(taken: &BTreeSet<String>, prefix: &str, name: &str) -> String {
    let plain = format!("{prefix}.{name}");
    let numbered = (2..).map(|number| format!("{plain}.{number}"));
    let mut names = std::iter::once(plain.clone()).chain(numbered);
    names.find(|name| !taken.contains(name)).unwrap_or(plain)
}
