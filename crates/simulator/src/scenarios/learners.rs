//! Scripts with learners that join and leave an ensemble.

use simulation::queue::{MS, SECOND};
use simulation::world::HeldWork;

use crate::ensemble::Ensemble;

/// Server 3 returns to an ensemble that has elected another leader without it, in a later election
/// round.
pub(super) fn joins_a_settled_ensemble(ensemble: &mut Ensemble) {
    ensemble.led_by(2);
    ensemble.served_by(&[0, 1, 2]);
    ensemble.kill(2);
    ensemble.led_by(1);
    ensemble.served_by(&[0, 1]);
    ensemble.write(1, 1);
    // The first time, server 3 still receives the queued votes of that round.
    for _ in 0..2 {
        ensemble.start(2);
        ensemble.served_by(&[2]);
        ensemble.kill(2);
        ensemble.run(100 * MS);
    }
    ensemble.start(2);
    ensemble.served_by(&[2]);
}

/// Server 1 has received NEWLEADER, and its disk is busy when a transaction is committed.
pub(super) fn commit_before_up_to_date(ensemble: &mut Ensemble) {
    ensemble.led_by(2);
    ensemble.served_by(&[0, 1, 2]);
    ensemble.write(2, 1);
    ensemble.kill(0);
    // The restart of server 3 creates a later epoch, which server 1 has to save.
    ensemble.kill(2);
    ensemble.start(2);
    ensemble.served_by(&[1, 2]);
    let leader = ensemble.leader().unwrap_or(2);
    ensemble.hold(0, HeldWork::SaveCurrent);
    ensemble.start(0);
    ensemble.run(SECOND / 2);
    ensemble.write(leader, 1);
    ensemble.release();
    ensemble.served_by(&[0]);
    ensemble.write(leader, 2);
}

/// A proposal waits for the disk of server 2. Server 1 joins and completes a quorum for the
/// proposal.
pub(super) fn proposal_before_new_leader(ensemble: &mut Ensemble) {
    ensemble.led_by(2);
    ensemble.served_by(&[0, 1, 2]);
    ensemble.write(2, 1);
    ensemble.kill(0);
    ensemble.hold(1, HeldWork::Sync);
    let before = ensemble.committed();
    ensemble.propose(2, 1);
    ensemble.start(0);
    // The limit expires before the leader drops server 2 because of its slow disk.
    if !ensemble.run_until(900 * MS, |ensemble| ensemble.committed() > before) {
        ensemble.wrong("server 1 should join and acknowledge".into());
    }
}

/// Server 3 has a proposal that no other server received, and its disk has not finished when its
/// role ends. Another server leads. Server 3 receives TRUNC, then acknowledges new proposals. These
/// proposals must be on its disk when no other server that has them remains.
pub(super) fn old_writer(ensemble: &mut Ensemble) {
    ensemble.led_by(2);
    ensemble.served_by(&[0, 1, 2]);
    ensemble.write(2, 2);
    ensemble.hold(2, HeldWork::Sync);
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
