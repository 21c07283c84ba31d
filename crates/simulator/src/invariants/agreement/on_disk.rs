//! Invariant: the files of a server yield the committed tree, whichever of its snapshots is loaded,
//! and the log has no gap that only one snapshot bridges.

use proto::{Epoch, Sid, Zxid};
use recovery::recover_tree;
use simulation::configured::{dirs_of, history_settings};
use simulation::settings::EnsembleSettings;
use storage::{DataDirs, Disk, last_logged_zxid, last_seam};
use testkit::SimDisk;

use crate::history::History;
use crate::invariants::CheckResult;
use crate::invariants::digest::Digests;

pub(crate) const NAME: &str = "snapshots contain only established transactions";

/// Returns the end and the digest of each tree on this disk. A tree is a loadable snapshot with the
/// log replayed on it. Omits the last snapshot that was received from a leader, and all older
/// snapshots.
///
/// # Errors
/// If the log does not contain all changes that a snapshot may partly contain. An older snapshot
/// would then yield a different tree.
fn trees(disk: &SimDisk, settings: &EnsembleSettings) -> Result<Vec<(Zxid, u64)>, String> {
    let [data, log] = dirs_of(settings);
    let (left, dirs) = (disk.after_kill(), DataDirs::unlocked(data, log));
    let how = history_settings(false, settings);
    let seam = last_seam(&left, &dirs).ok().flatten();
    let logged = last_logged_zxid(&left, &dirs, testkit::LIMITS)
        .ok()
        .flatten();
    let logged = logged.unwrap_or(Zxid::ZERO);
    let mut trees = Vec::new();
    while let Ok(found) = recover_tree(&left, &dirs, &how.recovery, how.tree.clone()) {
        let recovered = found.recovered;
        let Some(snapshot) = recovered.snapshot else {
            break;
        };
        // A leader commits transactions while it sends its tree. A snapshot received from a leader
        // may therefore contain more than its trailer reports.
        let is_own = seam.is_none_or(|seam| seam < snapshot.zxid);
        if is_own {
            // The begin of an epoch is not in the log. A leader's tree has this zxid until its first
            // transaction.
            let info = &recovered.snapshot_info;
            let ends = [Some(snapshot.zxid), info.last_zxid].into_iter().flatten();
            let covers = ends.filter(|zxid| zxid.counter() != 0).max();
            let applied = info.digest.map(|digest| digest.zxid);
            let covers = covers.max(applied).unwrap_or_default();
            if covers > logged {
                let name = snapshot.path.display();
                return Err(format!(
                    "{name} contains transactions up to {covers}, but the log ends at {logged}"
                ));
            }
            trees.push((found.tree.last_zxid(), found.tree.digest()));
        }
        if !is_own || left.remove(&snapshot.path).is_err() {
            break;
        }
    }
    Ok(trees)
}

/// Checks the disk of a server, before the server starts or at the end of the run. `newest` is the
/// last epoch in which a leader has served.
pub(crate) fn compare(
    sid: Sid,
    disk: &SimDisk,
    settings: &EnsembleSettings,
    history: &History,
    newest: Epoch,
    digests: &mut Digests,
) -> CheckResult {
    if disk.has_rotted() {
        return Ok(());
    }
    let trees = trees(disk, settings).map_err(|text| format!("on disk of server {sid}: {text}"))?;
    for (last, digest) in trees {
        // If a new configuration immediately replaces a leader, this leader establishes its epoch
        // but serves no client. The model then does not know the tree at the start of that epoch.
        if last.counter() == 0 && last.epoch() > newest {
            continue;
        }
        let last = history.end_of_tree(last);
        // Uncommitted transactions may exist only on this server, so a tree with them is not
        // compared.
        if history.at(last).is_some() {
            let held = digests.compare(sid, last, digest);
            held.map_err(|text| format!("on disk: {text}"))?;
        }
    }
    Ok(())
}

/// Checks that a snapshot of a server's own tree contains only committed transactions. The snapshot
/// is named after `zxid`, and the server's tree ended at `last` when the snapshot was complete.
pub(crate) fn written(sid: Sid, zxid: Zxid, last: Zxid, history: &History) -> CheckResult {
    let end = history.end();
    let newest = history.end_of_tree(zxid).max(history.end_of_tree(last));
    if newest <= end {
        Ok(())
    } else {
        Err(format!(
            "server {sid} has written snapshot {zxid} of a tree at {last}, but only {end} is committed"
        ))
    }
}
