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

/// Returns such a plan with a leader that always sends its tree.
pub(super) fn with_newcomer_and_trees(plan: Plan) -> Plan {
    Plan {
        force_snapshot: true,
        ..with_newcomer(plan)
    }
}

/// Member of both lists.
const OLD: usize = 0;

/// Member that the reconfiguration removes.
const LEAVING: usize = 1;

/// Leader, and member of both lists.
const LEADER: usize = 2;

/// Member that the reconfiguration adds.
const JOINING: usize = 3;

/// A reconfiguration replaces server 2 by server 4. Server 3 commits it, and then one more
/// transaction, which only the new voters 3 and 4 have. Nobody else knows about these commits when
/// server 3 stops. Server 2 has the vote of server 4, which is older than the transaction, and
/// servers 1 and 2 are a quorum of the old list.
pub(super) fn commit_by_new_voters(ensemble: &mut Ensemble) {
    let proposed = ensemble.proposes_list();
    ensemble.cut_between(LEAVING, LEADER);
    ensemble.let_go(LEAVING, HeldWork::Sync);
    ensemble.break_link(LEADER, LEAVING);
    ensemble.commits_alone(proposed);
}

/// As above, but server 2 crashes after it has discarded the new list, for the tree of its leader,
/// and before its log is cut. The log contains the proposal of the list.
pub(super) fn proposal_without_list(ensemble: &mut Ensemble) {
    let proposed = ensemble.proposes_list();
    ensemble.let_go(LEAVING, HeldWork::Sync);
    ensemble.hold(LEAVING, HeldWork::CutLog);
    ensemble.break_link(LEADER, LEAVING);
    // The proposal follows the tree, so server 2 sees the list again, but its disk waits.
    ensemble.run(50 * MS);
    ensemble.cut_between(LEAVING, LEADER);
    ensemble.kill(LEAVING);
    ensemble.let_go(LEAVING, HeldWork::CutLog);
    ensemble.start(LEAVING);
    ensemble.commits_alone(proposed);
}

impl Ensemble {
    /// Makes server 3 propose the new list, which only it and server 4 have on disk. Returns the
    /// zxid of the proposal.
    fn proposes_list(&mut self) -> Zxid {
        self.led_by(LEADER);
        self.served_by(&[OLD, LEAVING, LEADER, JOINING]);
        self.write(LEADER, 2);
        self.hold(OLD, HeldWork::Sync);
        self.hold(LEAVING, HeldWork::Sync);
        self.reconfigure(LEADER, JOINING, LEAVING);
        let proposed = self.committed().next();
        self.logs(JOINING, proposed);
        self.run(10 * MS);
        proposed
    }

    /// Server 2 looks for a leader. Server 4 votes for it, and then finds server 3 again, which
    /// commits the list and one more transaction. The last packets of server 3 are lost.
    fn commits_alone(&mut self, proposed: Zxid) {
        self.run(100 * MS);
        self.break_link(LEADER, JOINING);
        self.run(20 * MS);
        self.served_by(&[JOINING]);
        self.servers.world.network.cut(LEADER, OLD);
        self.propose(LEADER, 1);
        let last = proposed.next();
        self.logs(JOINING, last);
        self.run(10 * MS);
        self.servers.world.network.cut(LEADER, JOINING);
        self.release();
        if !self.run_until(SECOND, |ensemble| ensemble.committed() >= last) {
            self.wrong(format!("server 3 should commit {last}"));
        }
        self.break_link(LEADER, OLD);
        self.break_link(LEADER, JOINING);
        self.run(MS / 10);
        self.kill(LEADER);
        self.mend();
        self.run(SOON);
    }

    fn cut_between(&mut self, one: usize, other: usize) {
        self.servers.world.network.cut(one, other);
        self.servers.world.network.cut(other, one);
    }

    fn let_go(&mut self, server: usize, held: HeldWork) {
        self.servers.world.held.remove(&(server, held));
    }

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
