//! A member whose files no longer contain everything that it has acknowledged.
//!
//! Such a member must not vote with its remaining files, because a leader elected by its vote could
//! lack committed transactions. The marker file `version-2/zoarium.untrusted` in the snapshot
//! directory records this state. It is written before any other file changes and removed after a
//! leader's snapshot is on disk. The member acknowledges nothing in between, so files that a crash
//! leaves can be discarded without loss:
//!
//! ```text
//! 1. the marker and its directory are synced               crash before: the damage is found again
//! 2. logs and snapshots get names that no server reads     crash after: repeated from 2
//! 3. the member starts empty and has no vote               crash after: repeated from 2
//! 4. the leader's snapshot is on disk under its name       crash after: repeated from 2
//! 5. the marker is removed, the directory is synced        crash after: the snapshot is valid
//! ```
//!
//! `acceptedEpoch` is kept, because promises to a leader remain binding. `currentEpoch` is kept as
//! well, unless it does not contain a number.
//!
//! Apache ZooKeeper lacks such a state. It refuses to start, or starts with the data that it can
//! read. It ignores the marker.

use std::collections::BTreeSet;
use std::path::PathBuf;

use proto::Zxid;

use super::dirs::DataDirs;
use super::epoch::{CURRENT, Epochs};
use super::names::{FileName, LOG, SNAPSHOT, list_snapshots};
use super::set_aside::{free_name, names_in};
use crate::disk::{Disk, DiskFile};
use crate::error::{StorageError, io_error};

/// Name of the marker file.
const UNTRUSTED: &str = "zoarium.untrusted";
/// Prefix for the names of files that were moved aside. No server reads such files.
pub(crate) const ASIDE: &str = "aside";

/// Returns the path of the marker, whether or not it exists.
pub fn untrusted_marker(dirs: &DataDirs) -> PathBuf {
    dirs.snap.join(UNTRUSTED)
}

/// Returns whether the files lack part of this member's history. [`recover()`](crate::recover())
/// then does not read any log or snapshot.
///
/// # Errors
/// If the marker cannot be opened for a reason other than its absence.
pub fn is_untrusted<D: Disk>(disk: &D, dirs: &DataDirs) -> Result<bool, StorageError> {
    let marker = untrusted_marker(dirs);
    match disk.open(&marker) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(io_error("open", &marker)(error)),
    }
}

/// Removes this member's right to vote, then renames all its logs and snapshots to `aside.<name>`,
/// as well as a `currentEpoch` that does not contain a number. Returns the new paths. `reason` is
/// written into the marker unless a marker exists.
///
/// Undamaged files are renamed as well, because no server may start from a part of the history.
/// Nothing is deleted.
///
/// # Errors
/// If a file cannot be written, renamed or synced. Once the marker is written, the member does not
/// vote, even if a later step fails.
pub fn set_history_aside<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    reason: &str,
) -> Result<Vec<PathBuf>, StorageError> {
    let is_current_lost = Epochs::loses_current(disk, dirs)?;
    if !is_untrusted(disk, dirs)? {
        write_marker(disk, dirs, reason)?;
    }
    let mut found = Vec::new();
    // A set, because the two directories are usually the same.
    for dir in BTreeSet::from([&dirs.snap, &dirs.log]) {
        let names = names_in(disk, dir)?;
        found.push((dir, names));
    }
    let epochs = found
        .iter()
        .flat_map(|(_, names)| names)
        .filter_map(|name| history_zxid(name));
    let of_data = epochs.map(Zxid::epoch).max().unwrap_or_default();
    if !is_current_lost {
        Epochs::keep_promise(disk, dirs, of_data)?;
    }
    let mut moved = Vec::new();
    for (dir, mut taken) in found {
        for name in taken.clone() {
            let is_lost = is_current_lost && *dir == dirs.snap && name == CURRENT;
            if history_zxid(&name).is_none() && !is_lost {
                continue;
            }
            let (path, aside) = (dir.join(&name), free_name(&taken, ASIDE, &name));
            let target = dir.join(&aside);
            disk.rename(&path, &target)
                .map_err(io_error("move aside", &path))?;
            taken.insert(aside);
            moved.push(target);
        }
        disk.sync_dir(dir).map_err(io_error("sync", dir))?;
    }
    Ok(moved)
}

/// Returns the zxid in the name of a log or snapshot.
fn history_zxid(name: &str) -> Option<Zxid> {
    let parsed = FileName::parse(name);
    parsed
        .zxid
        .filter(|_| [LOG, SNAPSHOT].contains(&parsed.prefix))
}

fn write_marker<D: Disk>(disk: &D, dirs: &DataDirs, reason: &str) -> Result<(), StorageError> {
    let path = untrusted_marker(dirs);
    let text = format!(
        "{reason}\n\nThe logs and snapshots in this directory were renamed to {ASIDE}.*. This \
         server does not vote until it has received a snapshot from its leader. It then removes \
         this file.\n"
    );
    let write = || {
        let file = disk.create(&path)?;
        file.write_all_at(0, text.as_bytes())?;
        file.sync_data()?;
        disk.sync_dir(&dirs.snap)
    };
    write().map_err(io_error("write", &path))
}

/// Restores the right to vote, because the leader's snapshot of `zxid` is now this member's
/// history. Does nothing without a marker or without that snapshot.
pub(crate) fn restore_trust<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    zxid: Zxid,
) -> Result<(), StorageError> {
    if !is_untrusted(disk, dirs)? {
        return Ok(());
    }
    let snapshots = list_snapshots(disk, &dirs.snap)?;
    let Some(snapshot) = snapshots.iter().find(|snapshot| snapshot.zxid == zxid) else {
        return Ok(());
    };
    // With forceSync=no the snapshot is not synced yet, but it must be durable before the marker is
    // removed.
    disk.open_for_change(&snapshot.path)
        .and_then(|file| file.sync_data())
        .map_err(io_error("sync", &snapshot.path))?;
    let marker = untrusted_marker(dirs);
    let synced = || {
        disk.sync_dir(&dirs.snap)
            .map_err(io_error("sync", &dirs.snap))
    };
    synced()?;
    disk.remove(&marker).map_err(io_error("remove", &marker))?;
    synced()?;
    tracing::info!(%zxid, "the leader's snapshot is on disk, so this server votes again");
    Ok(())
}
