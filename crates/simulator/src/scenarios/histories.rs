//! Scripts in which a member must not acknowledge a history before the history is on disk.

use simulation::queue::{MS, SECOND};
use simulation::world::HeldWork;

use super::SOON;
use crate::ensemble::Ensemble;

/// Only server 3 has a proposal. Server 3 then returns together with server 1, whose disk holds
/// back `held` while server 1 receives the history of server 3. The script tests whether the epoch
/// waits for the disk. Then both servers stop, and servers 1 and 2 continue.
fn follower_takes_on(ensemble: &mut Ensemble, held: HeldWork) {
    ensemble.led_by(2);
    ensemble.served_by(&[0, 1, 2]);
    ensemble.write(2, 3);
    ensemble.cut_off(2);
    ensemble.propose(2, 1);
    ensemble.run(50 * MS);
    // Messages in flight to the servers must not arrive.
    for server in 0..3 {
        ensemble.kill(server);
    }
    ensemble.mend();
    ensemble.hold(0, held);
    ensemble.start(0);
    ensemble.start(2);
    let is_led = |ensemble: &Ensemble| ensemble.leader() == Some(2);
    if !ensemble.run_until(3 * SECOND, is_led) {
        // This is the correct behaviour: server 3 does not lead before the disk has finished.
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
    follower_takes_on(ensemble, HeldWork::Sync);
}

pub(super) fn snapshot_not_on_disk(ensemble: &mut Ensemble) {
    ensemble.servers.world.settings.force_snapshot = true;
    follower_takes_on(ensemble, HeldWork::AdoptSnapshot);
}

/// Server 1 misses two commits. It loses power during its synchronisation, with the new epoch on
/// disk but without the commits. Server 2 has the commits and must lead server 1.
pub(super) fn epoch_before_history(ensemble: &mut Ensemble) {
    ensemble.led_by(2);
    ensemble.served_by(&[0, 1, 2]);
    ensemble.write(2, 2);
    ensemble.kill(0);
    ensemble.write(2, 2);
    ensemble.kill(1);
    ensemble.hold(0, HeldWork::Sync);
    ensemble.start(0);
    ensemble.run(2 * SECOND);
    ensemble.unplug(0);
    ensemble.kill(2);
    ensemble.release();
    ensemble.start(0);
    ensemble.start(1);
    ensemble.served_by(&[0, 1]);
}

/// A proposal waits for the disk of server 2. Server 1 joins and receives the proposal, but its
/// disk has not finished either. The proposal must not be committed.
pub(super) fn proposals_not_on_disk(ensemble: &mut Ensemble) {
    ensemble.led_by(2);
    ensemble.served_by(&[0, 1, 2]);
    ensemble.write(2, 2);
    ensemble.kill(0);
    ensemble.hold(1, HeldWork::Sync);
    ensemble.hold(0, HeldWork::Sync);
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
