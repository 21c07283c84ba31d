//! Learners on their way in and out.

use crate::ensemble::Ensemble;
use crate::plan::{MS, SECOND};
use crate::world::Held;

/// Server 3 comes back to an ensemble that has elected another leader without it, in a later round
/// than its first.
pub(super) fn joins_a_settled_ensemble(ensemble: &mut Ensemble) {
    ensemble.led_by(2);
    ensemble.served_by(&[0, 1, 2]);
    ensemble.kill(2);
    ensemble.led_by(1);
    ensemble.served_by(&[0, 1]);
    ensemble.write(1, 1);
    // The first time it still hears the votes of that round, which waited for it.
    for _ in 0..2 {
        ensemble.start(2);
        ensemble.served_by(&[2]);
        ensemble.kill(2);
        ensemble.run(100 * MS);
    }
    ensemble.start(2);
    ensemble.served_by(&[2]);
}

/// Server 1 has NEWLEADER and its disk is at work when something is committed.
pub(super) fn commit_before_up_to_date(ensemble: &mut Ensemble) {
    ensemble.led_by(2);
    ensemble.served_by(&[0, 1, 2]);
    ensemble.write(2, 1);
    ensemble.kill(0);
    // A later epoch, so that there is one to be saved.
    ensemble.kill(2);
    ensemble.start(2);
    ensemble.served_by(&[1, 2]);
    let leader = ensemble.leader().unwrap_or(2);
    ensemble.hold(0, Held::SaveCurrent);
    ensemble.start(0);
    ensemble.run(SECOND / 2);
    ensemble.write(leader, 1);
    ensemble.release();
    ensemble.served_by(&[0]);
    ensemble.write(leader, 2);
}

/// A proposal waits for the disk of server 2; server 1 is to join, and to make a quorum for it.
pub(super) fn proposal_before_new_leader(ensemble: &mut Ensemble) {
    ensemble.led_by(2);
    ensemble.served_by(&[0, 1, 2]);
    ensemble.write(2, 1);
    ensemble.kill(0);
    ensemble.hold(1, Held::Sync);
    let before = ensemble.committed();
    ensemble.propose(2, 1);
    ensemble.start(0);
    // Before the leader drops server 2 for the lag of its disk.
    if !ensemble.run_until(900 * MS, |ensemble| ensemble.committed() > before) {
        ensemble.wrong("server 1 is to join and acknowledge".into());
    }
}

/// Server 3 has proposed what nobody else got, and its disk is not done with it when its role ends.
/// Another one leads; it is told to cut what it has, acknowledges what comes then, and that must be
/// on its disk when nobody else is left who has it.
pub(super) fn old_writer(ensemble: &mut Ensemble) {
    ensemble.led_by(2);
    ensemble.served_by(&[0, 1, 2]);
    ensemble.write(2, 2);
    ensemble.hold(2, Held::Sync);
    ensemble.cut_off(2);
    ensemble.propose(2, 1);
    ensemble.led_by(1);
    ensemble.led_no_more_by(2);
    ensemble.release();
    ensemble.mend();
    ensemble.served_by(&[2]);
    ensemble.kill(0);
    ensemble.write(1, 2);
    ensemble.kill(2);
    ensemble.kill(1);
    ensemble.start(0);
    ensemble.start(2);
    ensemble.led_by(2);
    ensemble.served_by(&[0, 2]);
}
