//! A script with a learner that must not be synchronised by DIFF.

use simulation::queue::MS;
use simulation::world::HeldWork;

use super::SOON;
use crate::ensemble::Ensemble;

impl Ensemble {
    /// Waits until the disk of this server holds back the write of the current epoch.
    fn saves_epoch(&mut self, server: usize) {
        let is_saving = |ensemble: &Self| {
            let process = ensemble.process(server);
            let mut pending = process
                .into_iter()
                .flat_map(|process| process.host.disk.pending());
            pending.any(|work| work.contains("SaveCurrentEpoch"))
        };
        if !self.run_until(SOON, is_saving) {
            self.wrong(format!("server {} should save its epoch", server + 1));
        }
    }
}

/// Only server 5 has a write. It leads again, and server 1 takes over its tree. Server 5 dies before
/// its epoch is established. Then server 4 leads with an empty log. Server 1 cannot cut its log back
/// to nothing, so it needs a snapshot. The leader answers with DIFF, because both ends are 0. No
/// server writes its own snapshot, whose name would be the begin of the first epoch.
pub(super) fn snapshot_is_needed(ensemble: &mut Ensemble) {
    let (learner, helper, next, first) = (0, 1, 3, 4);
    for server in 0..5 {
        ensemble.hold(server, HeldWork::DueSnapshot);
    }
    ensemble.led_by(first);
    ensemble.served_by(&[0, 1, 2, 3, 4]);
    ensemble.cut_off(first);
    ensemble.propose(first, 1);
    ensemble.run(50 * MS);
    for server in 0..5 {
        ensemble.kill(server);
    }
    ensemble.mend();
    ensemble.servers.world.settings.force_snapshot = true;
    ensemble.hold(learner, HeldWork::SaveCurrent);
    ensemble.hold(helper, HeldWork::AdoptSnapshot);
    for server in [learner, helper, first] {
        ensemble.start(server);
    }
    ensemble.saves_epoch(learner);
    for server in [learner, helper, first] {
        ensemble.kill(server);
    }
    ensemble.servers.world.settings.force_snapshot = false;
    ensemble.release();
    // The epoch of the next leader is not established yet.
    for server in [helper, 2, next] {
        ensemble.hold(server, HeldWork::SaveCurrent);
        ensemble.start(server);
    }
    ensemble.saves_epoch(next);
    ensemble.start(learner);
    ensemble.run(500 * MS);
    ensemble.release();
    ensemble.served_by(&[0, 1, 2, 3]);
    ensemble.write(next, 1);
}
