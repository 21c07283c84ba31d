//! Scripts in which a write that was never committed is in a snapshot that was begun before the
//! write.
//!
//! Only a leader has logged a write. The same server leads again, and its learners apply the write
//! before the epoch is established, while one of them writes a snapshot. The next leader lacks the
//! write. The snapshot is named after a transaction that both leaders have, so the learner still
//! loads it after TRUNC.

use host::SnapshotReason;
use proto::Zxid;
use proto::request::{SetDataRequest, WriteRequest};
use replica::State;
use simulation::queue::{MS, Micros};
use simulation::world::HeldWork;

use super::{SOON, propose};
use crate::ensemble::Ensemble;
use crate::simulated::Server;
use crate::storms::plan::Plan;

/// Returns a plan with five voters that write snapshots in many pieces.
pub(super) fn five_voters(plan: Plan) -> Plan {
    Plan {
        voters: 5,
        chunk_bytes: 100,
        ..plan
    }
}

/// Returns a plan with three voters and an observer. Each step of their disks takes up to `sync`.
pub(super) fn with_observer(plan: Plan, sync: Micros) -> Plan {
    Plan {
        voters: 3,
        observers: 1,
        chunk_bytes: 100,
        sync,
        ..plan
    }
}

impl Ensemble {
    /// Makes only the leader log a write, which changes a znode that every member has. Returns the
    /// last zxid that was committed before the write.
    pub(super) fn log_alone(&mut self, leader: usize) -> Zxid {
        let before = self.committed();
        self.cut_off(leader);
        let Some(process) = self.process(leader).map(|server| server.host.process) else {
            self.wrong(format!("server {} should lead", leader + 1));
            return before;
        };
        let path = self
            .servers
            .world
            .checks
            .history
            .paths()
            .map(|(path, _)| path);
        // A snapshot contains the oldest child last.
        let path = path
            .filter(|path| path.starts_with("/n"))
            .min_by_key(|path| (path.len(), *path));
        let request = WriteRequest::SetData(SetDataRequest {
            path: path.map(Into::into),
            data: Some("ghost".into()),
            version: -1,
        });
        self.with(process, |server| propose(server, request));
        let has_logged = |ensemble: &Self| {
            let process = ensemble.process(leader);
            process.is_some_and(|process| process.host.disk.history.end().get() == before.next())
        };
        if !self.run_until(300 * MS, has_logged) {
            self.wrong(format!(
                "server {} should log {}",
                leader + 1,
                before.next()
            ));
        }
        before
    }

    /// Waits until this server has applied a transaction after `before`.
    fn applies_beyond(&mut self, server: usize, before: Zxid) {
        let has_applied = |ensemble: &Self| {
            let process = ensemble.process(server);
            process.is_some_and(|process| process.host.state.tree().last_zxid() > before)
        };
        if !self.run_until(SOON, has_applied) {
            self.wrong(format!(
                "server {} should apply all transactions of its leader",
                server + 1
            ));
        }
    }

    fn writes_snapshot(&self, server: usize) -> bool {
        let process = self.process(server);
        process.is_some_and(|process| process.host.disk.snapshots.writing().is_some())
    }
}

/// Only server 5 has logged a write. It leads again, with servers 1 and 2, whose disks do not sync.
/// Server 1 has been running all the time, and applies the write while it slowly writes a snapshot.
/// Then servers 2 to 4 elect a leader without the write, and that leader sends TRUNC to server 1.
pub(super) fn snapshot_of_a_voter(ensemble: &mut Ensemble) {
    let (learner, slow, apart, last) = (0, 1, [2, 3], 4);
    ensemble.led_by(last);
    ensemble.served_by(&[0, 1, 2, 3, 4]);
    ensemble.write(last, 5);
    if let Some(process) = ensemble.process(learner).map(|server| server.host.process) {
        ensemble.with(process, |server| {
            server.host.request_snapshot(SnapshotReason::Due);
        });
    }
    ensemble.run_until(SOON, |ensemble| ensemble.writes_snapshot(learner));
    ensemble.hold(learner, HeldWork::DueSnapshot);
    let before = ensemble.log_alone(last);
    leads_again(ensemble, last, slow, &apart);
    ensemble.hold(slow, HeldWork::Sync);
    ensemble.hold(learner, HeldWork::Sync);
    ensemble.start(slow);
    ensemble.applies_beyond(learner, before);
    ensemble
        .servers
        .world
        .held
        .remove(&(learner, HeldWork::DueSnapshot));
    ensemble.run_until(SOON, |ensemble| !ensemble.writes_snapshot(learner));
    goes_on_without(ensemble, learner, last, slow, &apart);
}

/// An observer writes a snapshot after its start. Each piece of the snapshot takes as long as a
/// sync, and the script does not hold back the pieces. Before the slow server (server 1)
/// acknowledges NEWLEADER, the observer applies the write that only the leader has logged.
pub(super) fn snapshot_of_an_observer(ensemble: &mut Ensemble) {
    let (slow, apart, last, observer) = (0, [1], 2, 3);
    ensemble.led_by(last);
    ensemble.served_by(&[0, 1, 2, observer]);
    // The observer finds its leader before its snapshot contains this many znodes.
    ensemble.write(last, 120);
    let before = ensemble.log_alone(last);
    ensemble.kill(observer);
    leads_again(ensemble, last, slow, &apart);
    ensemble.hold(slow, HeldWork::Sync);
    ensemble.start(observer);
    ensemble.start(slow);
    ensemble.applies_beyond(observer, before);
    goes_on_without(ensemble, observer, last, slow, &apart);
}

/// Ends the role of the leader, which leads again as soon as the caller starts the slow server. The
/// servers in `apart` remain isolated.
fn leads_again(ensemble: &mut Ensemble, leader: usize, slow: usize, apart: &[usize]) {
    apart.iter().for_each(|server| ensemble.cut_off(*server));
    ensemble.kill(slow);
    ensemble.led_no_more_by(leader);
    ensemble.mend();
    apart.iter().for_each(|server| ensemble.cut_off(*server));
}

/// Stops the leader and drops the data that the slow server has not synced. Isolates the learner
/// until the others have a leader that has been running all the time, because only such a leader
/// sends TRUNC.
fn goes_on_without(
    ensemble: &mut Ensemble,
    learner: usize,
    leader: usize,
    slow: usize,
    apart: &[usize],
) {
    if ensemble.process(learner).is_some_and(Server::is_serving) {
        ensemble.wrong(format!("server {} should not serve yet", learner + 1));
    }
    ensemble.kill(leader);
    ensemble.unplug(slow);
    ensemble.mend();
    ensemble.cut_off(learner);
    ensemble.release();
    ensemble.start(slow);
    ensemble.led_by(apart[apart.len() - 1]);
    ensemble.served_by(apart);
    ensemble.served_by(&[slow]);
    ensemble.mend();
    ensemble.served_by(&[learner]);
}
