//! Invariant: when a learner acknowledges records, they are on its disk and would survive a power
//! failure.

use proto::{Sid, Zxid};
use recovery::recover_tree;
use simulation::configured::{dirs_of, history_settings};
use simulation::settings::EnsembleSettings;
use storage::{DataDirs, Epochs};
use testkit::SimDisk;

use crate::invariants::CheckResult;

pub(crate) const NAME: &str = "acknowledged transactions are on disk";

/// One in this number of acknowledgements is checked, because each check has to recover the tree.
pub(crate) const EVERY: u64 = 16;

/// Checks a learner's acknowledgement of `zxid`. A `zxid` with counter 0 acknowledges an epoch and
/// a history that ends at `end` or later.
pub(crate) fn acknowledges(
    sid: Sid,
    zxid: Zxid,
    end: Zxid,
    disk: &SimDisk,
    settings: &EnsembleSettings,
) -> CheckResult {
    if disk.has_rotted() {
        // The server is not responsible for a corrupt disk.
        return Ok(());
    }
    let [data, log] = dirs_of(settings);
    let (left, dirs) = (disk.synced_only(), DataDirs::unlocked(data, log));
    let how = history_settings(false, settings);
    let found = recover_tree(&left, &dirs, &how.recovery, how.tree);
    let found = found.map_err(|error| format!("server {sid} acknowledges {zxid}: {error}"))?;
    let last = found.recovered.last_zxid;
    let is_epoch = zxid.counter() == 0;
    let owed = if is_epoch { end } else { zxid };
    if last < owed {
        return Err(format!(
            "server {sid} acknowledges {zxid}, so its disk must contain {owed}, but ends at {last}"
        ));
    }
    let epochs = Epochs::load(&left, &dirs, last).ok();
    if is_epoch && epochs.is_some_and(|epochs| epochs.current < zxid.epoch()) {
        return Err(format!(
            "server {sid} acknowledges {zxid}, although its epoch is not on disk"
        ));
    }
    Ok(())
}
