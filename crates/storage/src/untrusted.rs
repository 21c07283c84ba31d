//! A member whose files no longer hold everything that it has acknowledged.
//!
//! Such a member must not vote with what is left: a leader elected by it could lack committed
//! transactions. A marker, `version-2/zoarium.untrusted` in the snapshot directory, says so from
//! before the first file is touched until a leader's snapshot is on disk. Nothing is acknowledged
//! in between, so whatever a crash leaves there is given up again without a loss:
//!
//! ```text
//! 1. the marker is written and synced, its directory too   before: the damage is found again
//! 2. logs and snapshots get names that no server reads     after a crash: the rest of them
//! 3. the member starts empty and has no vote               after a crash: again from 2
//! 4. the leader's snapshot is on disk under its name       after a crash: again from 2
//! 5. the marker goes, the directory is synced              the snapshot counts
//! ```
//!
//! `acceptedEpoch` stays where it is: what was promised to a leader is promised still. So does
//! `currentEpoch`, unless it holds no number.
//!
//! Apache ZooKeeper has no such state: it refuses, or starts with what it can read. It does not
//! know the marker either.

use std::collections::BTreeSet;
use std::path::PathBuf;

use proto::Zxid;

use crate::dirs::DataDirs;
use crate::disk::{Disk, DiskFile};
use crate::epoch::{CURRENT, Epochs};
use crate::error::{StorageError, io_error};
use crate::names::{FileName, LOG, SNAPSHOT, list_snapshots};
use crate::set_aside::{free_name, names_in};

/// The marker's name.
const UNTRUSTED: &str = "zoarium.untrusted";
/// First part of the name of a file that was moved aside; no server reads it.
pub(crate) const ASIDE: &str = "aside";

/// Where the marker is, or would be.
pub fn untrusted_marker(dirs: &DataDirs) -> PathBuf {
    dirs.snap.join(UNTRUSTED)
}

/// Whether the files are not this member's whole history. [`recover()`](crate::recover()) reads none
/// of them then.
///
/// # Errors
/// If that cannot be found out.
pub fn is_untrusted<D: Disk>(disk: &D, dirs: &DataDirs) -> Result<bool, StorageError> {
    let marker = untrusted_marker(dirs);
    match disk.open(&marker) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(io_error("open", &marker)(error)),
    }
}

/// Takes this member's vote, then renames all its logs and snapshots to `aside.<name>`, and a
/// `currentEpoch` that holds no number; returns the new paths. `reason` is written into the marker if there is none yet.
///
/// All of them, not only those that are damaged: what is left without these is no history that any
/// server should start from. Nothing is deleted.
///
/// # Errors
/// If something cannot be written, renamed or synced. The member has no vote once the marker is
/// written.
pub fn set_history_aside<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    reason: &str,
) -> Result<Vec<PathBuf>, StorageError> {
    if !is_untrusted(disk, dirs)? {
        write_marker(disk, dirs, reason)?;
    }
    let is_current_lost = Epochs::lost_current(disk, dirs, None)?.is_some();
    let mut found = Vec::new();
    // One directory, mostly.
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

/// The zxid in the name of a log or snapshot.
fn history_zxid(name: &str) -> Option<Zxid> {
    let parsed = FileName::parse(name);
    parsed
        .zxid
        .filter(|_| [LOG, SNAPSHOT].contains(&parsed.prefix))
}

fn write_marker<D: Disk>(disk: &D, dirs: &DataDirs, reason: &str) -> Result<(), StorageError> {
    let path = untrusted_marker(dirs);
    let text = format!(
        "{reason}\n\nThe logs and snapshots here were renamed to {ASIDE}.*; this server has no vote until it has \
         its leader's snapshot, and removes this file then.\n"
    );
    let write = || {
        let file = disk.create(&path)?;
        file.write_all_at(0, text.as_bytes())?;
        file.sync_data()?;
        disk.sync_dir(&dirs.snap)
    };
    write().map_err(io_error("write", &path))
}

/// Gives the vote back: a leader's snapshot of `zxid` is this member's history. Without a marker it
/// does nothing.
pub(crate) fn trust_again<D: Disk>(
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
    // With forceSync=no nobody has done so yet, and the marker must not go first.
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
    tracing::info!(%zxid, "the leader's history is on disk: this server votes again");
    Ok(())
}
