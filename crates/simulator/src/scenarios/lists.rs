//! Scripts in which the members change.

use proto::Zxid;
use proto::request::{ReconfigRequest, WriteRequest};
use simulation::configured::member_lists::{self, Role};
use simulation::queue::{MS, SECOND};
use simulation::world::HeldWork;

use super::{SOON, propose};
use crate::ensemble::Ensemble;
use crate::simulated::Event;
use crate::storms::plan::Plan;

/// Returns a plan in which server 4 follows without a vote.
pub(super) fn with_newcomer(plan: Plan) -> Plan {
    let mut plan = Plan {
        voters: 3,
        observers: 1,
        ..plan
    };
    (plan.features.reconfigures, plan.features.grows) = (true, true);
    plan
}

/// A reconfiguration replaces server 2 by server 4. Server 3 commits it, and then one more
/// transaction, which only the new voters 3 and 4 have. Nobody else knows about these commits when
/// server 3 stops. Server 2 has the vote of server 4, which is older than the transaction, and
/// servers 1 and 2 are a quorum of the old list.
pub(super) fn commit_by_new_voters(ensemble: &mut Ensemble) {
    let (old, leaving, leader, joining) = (0, 1, 2, 3);
    ensemble.led_by(leader);
    ensemble.served_by(&[old, leaving, leader, joining]);
    ensemble.write(leader, 2);
    ensemble.hold(old, HeldWork::Sync);
    ensemble.hold(leaving, HeldWork::Sync);
    ensemble.reconfigure(leader, joining, leaving);
    let proposed = ensemble.committed().next();
    ensemble.logs(joining, proposed);
    ensemble.run(10 * MS);
    // Server 2 looks for a leader, and does not find server 3.
    for (from, to) in [(leaving, leader), (leader, leaving)] {
        ensemble.servers.world.network.cut(from, to);
    }
    ensemble
        .servers
        .world
        .held
        .remove(&(leaving, HeldWork::Sync));
    ensemble.break_link(leader, leaving);
    ensemble.run(100 * MS);
    // Server 4 votes for server 2, and then finds server 3 again.
    ensemble.break_link(leader, joining);
    ensemble.run(20 * MS);
    ensemble.served_by(&[joining]);
    ensemble.servers.world.network.cut(leader, old);
    ensemble.propose(leader, 1);
    let last = proposed.next();
    ensemble.logs(joining, last);
    ensemble.run(10 * MS);
    ensemble.servers.world.network.cut(leader, joining);
    ensemble.release();
    if !ensemble.run_until(SECOND, |ensemble| ensemble.committed() >= last) {
        ensemble.wrong(format!("server 3 should commit {last}"));
    }
    // What server 3 has sent last is lost.
    ensemble.break_link(leader, old);
    ensemble.break_link(leader, joining);
    ensemble.run(MS / 10);
    ensemble.kill(leader);
    ensemble.mend();
    ensemble.run(SOON);
}

impl Ensemble {
    /// Waits until a transaction is on the disk of this server.
    fn logs(&mut self, server: usize, zxid: Zxid) {
        let has_logged = |ensemble: &Self| {
            let process = ensemble.process(server);
            process.is_some_and(|process| process.host.disk.history.end().get() >= zxid)
        };
        if !self.run_until(SECOND, has_logged) {
            self.wrong(format!("server {} should log {zxid}", server + 1));
        }
    }

    /// Breaks the connection between a leader and its learner at both ends.
    fn break_link(&mut self, leader: usize, learner: usize) {
        let Some(link) = self.learner_link(leader, learner) else {
            return self.wrong(format!("server {} should follow", learner + 1));
        };
        for end in [0, 1] {
            let connection = link.0;
            let event = Event::Broken { connection, end };
            self.servers.world.queue.after(0, event);
        }
    }

    /// Makes the leader propose a list in which one voter replaces another one.
    fn reconfigure(&mut self, leader: usize, joining: usize, leaving: usize) {
        let features = self.servers.world.settings.features;
        let joining = member_lists::line(joining, Role::Participant, features);
        let request = WriteRequest::Reconfig(ReconfigRequest {
            joining: Some(joining.into()),
            leaving: Some((leaving + 1).to_string().into()),
            new_members: None,
            config_version: -1,
        });
        let process = self.process(leader).map(|server| server.host.process);
        if let Some(process) = process {
            self.with(process, |server| {
                propose(server, request);
            });
        }
    }
}
