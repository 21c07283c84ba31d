//! Scripts with histories whose hole is not visible in zxids, because a later epoch begins after
//! the hole.
//!
//! Servers 1 and 5 stop in epoch 1. Epoch 2 continues without them. Server 5 then receives the end
//! of epoch 2, and leads in a later epoch. If server 5 was only isolated, its data in memory
//! survives. Then server 1 returns and must receive epoch 2 as well.

use simulation::queue::MS;
use simulation::world::HeldWork;

use crate::ensemble::Ensemble;

/// Runs the script up to the writes in epoch 2.
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

/// Server 4 loses its followers and leads them again with all its data in memory.
fn another_epoch(ensemble: &mut Ensemble) {
    ensemble.kill(1);
    ensemble.kill(2);
    ensemble.led_no_more_by(3);
    ensemble.start(1);
    ensemble.start(2);
    ensemble.led_by(3);
    ensemble.served_by(&[1, 2, 3]);
}

/// Server 5 returns and receives the first transaction of another epoch. The zxid of any later
/// transaction would reveal that an earlier one is missing.
fn one_is_back_for_the_first_write(ensemble: &mut Ensemble) {
    ensemble.mend();
    ensemble.served_by(&[4]);
    ensemble.write(3, 1);
}

/// Server 5 leads, and server 1 returns.
fn the_first_comes_back(ensemble: &mut Ensemble) {
    ensemble.kill(3);
    ensemble.led_by(4);
    ensemble.served_by(&[1, 2, 4]);
    ensemble.write(4, 2);
    ensemble.start(0);
    ensemble.served_by(&[0]);
}

pub(super) fn files_behind_a_snapshot(ensemble: &mut Ensemble) {
    ensemble.servers.world.settings.committed_len = 1;
    ensemble.servers.world.settings.use_disk_log = false;
    // Servers that already run keep more transactions in memory.
    for server in 0..5 {
        ensemble.kill(server);
    }
    ensemble.start_all();
    two_are_left_behind(ensemble, Ensemble::kill);
    // Server 5 starts with this setting. Server 4 continues with the old setting.
    ensemble.servers.world.settings.use_disk_log = true;
    ensemble.start(4);
    ensemble.served_by(&[4]);
    the_first_comes_back(ensemble);
}

pub(super) fn committed_log_over_snapshot(ensemble: &mut Ensemble) {
    // All servers except server 5 start with this setting.
    ensemble.start(4);
    ensemble.servers.world.settings.force_snapshot = true;
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

/// Only server 5 has logged a write, and its next leader orders TRUNC. That leader dies while
/// server 5 cuts its log. In a later epoch, server 5 leads, and its learners lack transactions that
/// were committed after the cut.
pub(super) fn cut_outlasts_role(ensemble: &mut Ensemble) {
    ensemble.led_by(4);
    ensemble.served_by(&[0, 1, 2, 3, 4]);
    ensemble.write(4, 3);
    ensemble.log_alone(4);
    ensemble.led_no_more_by(4);
    ensemble.led_by(3);
    ensemble.served_by(&[0, 1, 2, 3]);
    ensemble.hold(4, HeldWork::Truncate);
    ensemble.mend();
    ensemble.run(200 * MS);
    ensemble.kill(3);
    ensemble.led_by(2);
    ensemble.release();
    ensemble.served_by(&[0, 1, 2, 4]);
    ensemble.cut_off(0);
    ensemble.write(2, 1);
    ensemble.start(3);
    ensemble.kill(2);
    ensemble.mend();
    ensemble.led_by(4);
    ensemble.served_by(&[0, 1, 3, 4]);
}

/// Server 5 receives the end of epoch 2 as a snapshot. The leader dies when the snapshot is on disk,
/// before the role of server 5 knows it. Server 5 loads the snapshot and follows server 3, and leads
/// in a later epoch. Its log lacks epoch 2, which server 1 needs.
pub(super) fn snapshot_outlasts_role(ensemble: &mut Ensemble) {
    // Only server 4 starts with this setting.
    (0..5)
        .filter(|server| *server != 3)
        .for_each(|server| ensemble.start(server));
    ensemble.servers.world.settings.force_snapshot = true;
    ensemble.start(3);
    two_are_left_behind(ensemble, Ensemble::cut_off);
    ensemble.hold(4, HeldWork::Report);
    ensemble.mend();
    ensemble.run(200 * MS);
    ensemble.kill(3);
    ensemble.led_by(2);
    ensemble.release();
    ensemble.served_by(&[1, 2, 4]);
    ensemble.write(2, 1);
    ensemble.servers.world.settings.force_snapshot = false;
    ensemble.start(3);
    ensemble.served_by(&[3]);
    ensemble.kill(2);
    ensemble.led_by(4);
    ensemble.served_by(&[1, 3, 4]);
    ensemble.write(4, 2);
    ensemble.start(0);
    ensemble.served_by(&[0]);
}
