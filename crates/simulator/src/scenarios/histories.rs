//! Histories that count as taken on before they are on disk.

use super::SOON;
use crate::ensemble::Ensemble;
use crate::plan::{MS, SECOND};
use crate::world::Held;

/// Server 3 alone has a proposal. It comes back with server 1, which is brought to this history
/// while its disk holds `held` back: must the epoch not begin? Then both are gone, and servers 1
/// and 2 go on.
fn follower_takes_on(ensemble: &mut Ensemble, held: Held) {
    ensemble.led_by(2);
    ensemble.served_by(&[0, 1, 2]);
    ensemble.write(2, 3);
    ensemble.cut_off(2);
    ensemble.propose(2, 1);
    ensemble.run(50 * MS);
    // What is under way to them must not arrive.
    for server in 0..3 {
        ensemble.kill(server);
    }
    ensemble.mend();
    ensemble.hold(0, held);
    ensemble.start(0);
    ensemble.start(2);
    let is_led = |ensemble: &Ensemble| ensemble.leader() == Some(2);
    if !ensemble.run_until(3 * SECOND, is_led) {
        // As it should be: nothing happens before the disk is done.
        ensemble.release();
        ensemble.run_until(SOON, is_led);
    }
    ensemble.unplug(0);
    ensemble.kill(2);
    ensemble.release();
    ensemble.start(0);
    ensemble.start(1);
    ensemble.served_by(&[0, 1]);
}

pub(super) fn history_not_on_disk(ensemble: &mut Ensemble) {
    follower_takes_on(ensemble, Held::Sync);
}

pub(super) fn snapshot_not_on_disk(ensemble: &mut Ensemble) {
    ensemble.world.plan.force_snapshot = true;
    follower_takes_on(ensemble, Held::AdoptSnapshot);
}

/// Server 1 misses two commits. It is being brought to them when it loses power, with the new epoch
/// on disk and not the commits; server 2, which has them, must lead it.
pub(super) fn epoch_before_history(ensemble: &mut Ensemble) {
    ensemble.led_by(2);
    ensemble.served_by(&[0, 1, 2]);
    ensemble.write(2, 2);
    ensemble.kill(0);
    ensemble.write(2, 2);
    ensemble.kill(1);
    ensemble.hold(0, Held::Sync);
    ensemble.start(0);
    ensemble.run(2 * SECOND);
    ensemble.unplug(0);
    ensemble.kill(2);
    ensemble.release();
    ensemble.start(0);
    ensemble.start(1);
    ensemble.served_by(&[0, 1]);
}

/// A proposal waits for the disk of server 2. Server 1 joins and is sent it, and its disk is not
/// done either: it must not be committed.
pub(super) fn proposals_not_on_disk(ensemble: &mut Ensemble) {
    ensemble.led_by(2);
    ensemble.served_by(&[0, 1, 2]);
    ensemble.write(2, 2);
    ensemble.kill(0);
    ensemble.hold(1, Held::Sync);
    ensemble.hold(0, Held::Sync);
    ensemble.propose(2, 1);
    ensemble.start(0);
    ensemble.served_by(&[0]);
    ensemble.run(200 * MS);
    ensemble.unplug(0);
    ensemble.unplug(1);
    ensemble.kill(2);
    ensemble.release();
    ensemble.start(0);
    ensemble.start(1);
    ensemble.served_by(&[0, 1]);
}
