//! A change history whose thread only runs after its member has received two snapshots from its
//! leader.

use crate::ensemble::Ensemble;

/// Server 1 misses the end of an epoch and receives a snapshot in the next epoch. A second
/// snapshot, which contains nothing new, replaces the first. The log continues from epoch to epoch
/// as if nothing were missing.
pub(super) fn comes_late(ensemble: &mut Ensemble) {
    ensemble.servers.world.settings.force_snapshot = true;
    ensemble.led_by(2);
    ensemble.served_by(&[0, 1, 2]);
    ensemble.write(2, 2);
    ensemble.servers.world.checks.histories.stand_still(0);
    ensemble.kill(0);
    ensemble.write(2, 2);
    ensemble.kill(2);
    ensemble.led_no_more_by(2);
    ensemble.start(2);
    ensemble.served_by(&[1, 2]);
    comes(ensemble);
    ensemble.kill(0);
    comes(ensemble);
}

/// Starts server 1, which receives a snapshot from its leader. Then writes some transactions.
fn comes(ensemble: &mut Ensemble) {
    ensemble.start(0);
    ensemble.served_by(&[0]);
    if let Some(leader) = ensemble.leader() {
        ensemble.write(leader, 1);
    }
}
