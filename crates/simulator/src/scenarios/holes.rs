//! Histories with a hole that no zxid shows, because a later epoch begins behind it.
//!
//! Servers 1 and 5 end in epoch 1. Epoch 2 goes on without them; server 5 is brought to its end, and
//! leads in a later epoch. What it has in memory survives where it was only cut off. Then server 1 comes, and must be given epoch 2 as well.

use crate::ensemble::Ensemble;

/// Up to what is written in epoch 2.
fn two_are_left_behind(ensemble: &mut Ensemble, leave: fn(&mut Ensemble, usize)) {
    ensemble.led_by(4);
    ensemble.served_by(&[0, 1, 2, 3, 4]);
    ensemble.write(4, 2);
    ensemble.kill(0);
    leave(ensemble, 4);
    ensemble.led_no_more_by(4);
    ensemble.led_by(3);
    ensemble.served_by(&[1, 2, 3]);
    ensemble.write(3, 3);
}

/// Server 4 loses its followers, and leads them again with all that it has in memory.
fn another_epoch(ensemble: &mut Ensemble) {
    ensemble.kill(1);
    ensemble.kill(2);
    ensemble.led_no_more_by(3);
    ensemble.start(1);
    ensemble.start(2);
    ensemble.led_by(3);
    ensemble.served_by(&[1, 2, 3]);
}

/// Server 5 is back, and hears of the first transaction of another epoch: of any other it would be
/// known that there is one before it.
fn one_is_back_for_the_first_write(ensemble: &mut Ensemble) {
    ensemble.mend();
    ensemble.served_by(&[4]);
    ensemble.write(3, 1);
}

/// Server 5 leads, and server 1 comes back.
fn the_first_comes_back(ensemble: &mut Ensemble) {
    ensemble.kill(3);
    ensemble.led_by(4);
    ensemble.served_by(&[1, 2, 4]);
    ensemble.write(4, 2);
    ensemble.start(0);
    ensemble.served_by(&[0]);
}

pub(super) fn files_behind_a_snapshot(ensemble: &mut Ensemble) {
    ensemble.world.plan.committed_len = 1;
    ensemble.world.plan.use_disk_log = false;
    // Who runs already has more in memory.
    for server in 0..5 {
        ensemble.kill(server);
    }
    ensemble.start_all();
    two_are_left_behind(ensemble, Ensemble::kill);
    // What server 5 starts with; server 4 goes on as it is.
    ensemble.world.plan.use_disk_log = true;
    ensemble.start(4);
    ensemble.served_by(&[4]);
    the_first_comes_back(ensemble);
}

pub(super) fn committed_log_over_snapshot(ensemble: &mut Ensemble) {
    // What server 5 does not start with, and all others do.
    ensemble.start(4);
    ensemble.world.plan.force_snapshot = true;
    two_are_left_behind(ensemble, Ensemble::cut_off);
    another_epoch(ensemble);
    one_is_back_for_the_first_write(ensemble);
    the_first_comes_back(ensemble);
}

pub(super) fn committed_log_after_diff(ensemble: &mut Ensemble) {
    two_are_left_behind(ensemble, Ensemble::cut_off);
    another_epoch(ensemble);
    one_is_back_for_the_first_write(ensemble);
    the_first_comes_back(ensemble);
}
