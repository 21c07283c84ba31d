//! A change history whose thread comes when its member has taken two snapshots of its leader.

use crate::ensemble::Ensemble;

/// Server 1 misses the end of an epoch and is brought to the next by a snapshot; in a second one there
/// is nothing new, and it takes the place of the first. Its log goes on from epoch to epoch as if nothing
/// were missing.
pub(super) fn comes_late(ensemble: &mut Ensemble) {
    ensemble.world.plan.force_snapshot = true;
    ensemble.led_by(2);
    ensemble.served_by(&[0, 1, 2]);
    ensemble.write(2, 2);
    ensemble.world.histories.stand_still(0);
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

/// Server 1 gets its leader's snapshot, and hears of something.
fn comes(ensemble: &mut Ensemble) {
    ensemble.start(0);
    ensemble.served_by(&[0]);
    if let Some(leader) = ensemble.leader() {
        ensemble.write(leader, 1);
    }
}
