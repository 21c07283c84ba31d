//! Scripts in which one tree differs from the others, because its data was changed without a
//! transaction.

use config::OnDigestMismatch;
use proto::txn::{SetDataTxn, Txn, TxnHeader, TxnRecord};
use proto::{SessionId, Sid};
use replica::State;
use simulation::configured::sid_of;
use simulation::queue::SECOND;

use super::SOON;
use crate::ensemble::Ensemble;
use crate::invariants::digest::Digests;
use crate::simulated::Server;
use crate::storms::plan::Plan;

pub(super) fn that_log(plan: Plan) -> Plan {
    with(OnDigestMismatch::Log, plan)
}

pub(super) fn that_stop(plan: Plan) -> Plan {
    with(OnDigestMismatch::Stop, plan)
}

pub(super) fn that_repair(plan: Plan) -> Plan {
    with(OnDigestMismatch::Repair, plan)
}

fn with(on_digest_mismatch: OnDigestMismatch, mut plan: Plan) -> Plan {
    plan.features.on_digest_mismatch = on_digest_mismatch;
    plan
}

/// Server 1 follows with a corrupt tree and notices the corruption at the next transaction.
pub(super) fn learner_logs(ensemble: &mut Ensemble) {
    damage_and_write(ensemble, 0);
    ensemble.run(2 * SECOND);
    if !ensemble.has_damaged_tree(0) || !ensemble.process(0).is_some_and(Server::is_serving) {
        ensemble.wrong("server 1 should continue to serve with its tree".into());
    }
    ensemble.kill(0);
    ensemble.start(0);
}

/// Server 3 leads with a corrupt tree. It notices the corruption but continues to lead.
pub(super) fn leader_logs(ensemble: &mut Ensemble) {
    damage_and_write(ensemble, 2);
    ensemble.run(2 * SECOND);
    if !ensemble.has_damaged_tree(2) || ensemble.leader() != Some(2) {
        ensemble.wrong("server 3 should continue to lead with its tree".into());
    }
    ensemble.kill(2);
    ensemble.start(2);
}

/// Server 1 follows with a corrupt tree and exits. The others continue.
pub(super) fn learner_stops(ensemble: &mut Ensemble) {
    damage_and_write(ensemble, 0);
    // Server 1 was started once.
    ensemble.must_end(0, 1);
    if ensemble.leader() != Some(2) {
        ensemble.wrong("server 3 should continue to lead".into());
    }
}

/// Server 3 leads with a corrupt tree and exits. The others continue.
pub(super) fn leader_stops(ensemble: &mut Ensemble) {
    damage_and_write(ensemble, 2);
    let lives: Vec<_> = ensemble
        .servers
        .machines
        .iter()
        .map(|it| it.lives)
        .collect();
    // Server 3 was started once.
    ensemble.must_end(2, 1);
    if [0, 1]
        .iter()
        .any(|other| ensemble.servers.machines[*other].lives > lives[*other])
    {
        ensemble.wrong("servers 1 and 2 have the correct data, and should continue".into());
    }
}

/// Server 1 follows with a corrupt tree and receives the tree of server 3.
pub(super) fn learner_is_repaired(ensemble: &mut Ensemble) {
    damage_and_write(ensemble, 0);
    ensemble.must_be_repaired(0);
    ensemble.must_have_kept_tree(0);
    if ensemble.leader() != Some(2) {
        ensemble.wrong("server 3 should continue to lead".into());
    }
}

/// Server 4 observes a follower. Its tree is corrupt, and it receives the tree of the follower.
pub(super) fn observer_is_repaired(ensemble: &mut Ensemble) {
    ensemble.led_by(2);
    ensemble.served_by(&[0, 1, 2, 3]);
    ensemble.write(2, 3);
    ensemble.damage(3);
    ensemble.propose(2, 1);
    ensemble.must_be_repaired(3);
    ensemble.must_have_kept_tree(3);
    if ensemble.leader() != Some(2) {
        ensemble.wrong("server 3 should continue to lead".into());
    }
}

/// Server 3 leads with a corrupt tree, steps down, and receives the tree of the next leader. It
/// would win each election, but its tree must not reach any other server.
pub(super) fn leader_is_repaired(ensemble: &mut Ensemble) {
    damage_and_write(ensemble, 2);
    ensemble.must_be_repaired(2);
    ensemble.must_have_kept_tree(2);
    for right in [0, 1] {
        if ensemble.kept_trees(right) > 0 {
            ensemble.wrong(format!("server {} should have the correct data", right + 1));
        }
    }
    ensemble.served_by(&[0, 1, 2]);
}

/// Only servers 2 and 3 run, with different data. It is unknown which of them is right, so server 2
/// exits.
pub(super) fn nobody_knows(ensemble: &mut Ensemble) {
    ensemble.led_by(2);
    ensemble.served_by(&[0, 1, 2]);
    ensemble.write(2, 3);
    ensemble.kill(0);
    ensemble.run(SECOND);
    let lives = ensemble.servers.machines[1].lives;
    ensemble.damage(1);
    ensemble.propose(2, 1);
    ensemble.must_end(1, lives);
    if ensemble.kept_trees(1) > 0 {
        ensemble.wrong("server 2 should not repair itself".into());
    }
}

/// Server 3 leads with a corrupt tree, and server 2 receives a copy of it before the first write.
/// Only server 1 is right. It must not receive the copy as well, so it exits.
pub(super) fn copy_is_no_witness(ensemble: &mut Ensemble) {
    ensemble.led_by(2);
    ensemble.served_by(&[0, 1, 2]);
    ensemble.kill(1);
    ensemble.write(2, 4);
    ensemble.kill(0);
    ensemble.led_no_more_by(2);
    ensemble.damage(2);
    ensemble.start(0);
    ensemble.led_by(2);
    ensemble.servers.world.checks.digests.damage_copies();
    ensemble.start(1);
    ensemble.served_by(&[0, 1, 2]);
    let lives = ensemble.servers.machines[0].lives;
    ensemble.propose(2, 1);
    ensemble.must_end(0, lives);
    if ensemble.kept_trees(0) > 0 {
        ensemble.wrong("server 1 should not repair itself".into());
    }
    // An operator repairs the others.
    for server in 0..3 {
        ensemble.kill(server);
    }
    ensemble.servers.world.checks.digests.end_damage_of_copies();
    ensemble.servers.machines[1].disk.wipe();
    ensemble.servers.machines[1].was_wiped = true;
    for server in 0..3 {
        ensemble.start(server);
    }
}

/// Corrupts the tree of a server and writes a transaction. Server 3 leads. If the corrupt tree is
/// server 3's, it is corrupted before server 3 leads again, so server 3 prepares transactions with
/// the corrupt tree from the beginning of its epoch.
fn damage_and_write(ensemble: &mut Ensemble, server: usize) {
    ensemble.led_by(2);
    ensemble.served_by(&[0, 1, 2]);
    ensemble.write(2, 3);
    if server == 2 {
        ensemble.kill(0);
        ensemble.kill(1);
        ensemble.led_no_more_by(2);
        ensemble.damage(2);
        ensemble.start(0);
        ensemble.start(1);
        ensemble.led_by(2);
        ensemble.served_by(&[0, 1, 2]);
    } else {
        ensemble.damage(server);
    }
    ensemble.propose(2, 1);
    if !ensemble.run_until(SOON, |ensemble| ensemble.digests().has_noticed(sid(server))) {
        ensemble.wrong(format!("server {} should count a mismatch", server + 1));
    }
}

fn sid(server: usize) -> Sid {
    sid_of(server)
}

impl Ensemble {
    fn digests(&self) -> &Digests {
        &self.servers.world.checks.digests
    }

    fn has_damaged_tree(&self, server: usize) -> bool {
        self.digests().is_damaged(sid(server))
    }

    /// Changes the data of `/` in the memory of this server.
    fn damage(&mut self, server: usize) {
        self.servers.world.checks.digests.damage(sid(server));
        let Some(process) = self.process(server).map(|server| server.host.process) else {
            return self.wrong(format!("server {} does not run", server + 1));
        };
        self.with(process, |server| {
            let mut tree = server.host.state.tree_mut();
            let txn = Txn::SetData(SetDataTxn {
                path: "/".into(),
                data: Some("damaged".into()),
                version: 0,
            });
            let damage = TxnRecord {
                header: TxnHeader {
                    session: SessionId(0),
                    cxid: 0,
                    zxid: tree.last_zxid(),
                    time_ms: 0,
                    op: txn.op().number(),
                },
                txn,
                digest: None,
            };
            tree.apply(&damage, &mut Default::default(), &mut Vec::new());
        });
    }

    fn must_be_repaired(&mut self, server: usize) {
        if !self.run_until(SOON, |ensemble| !ensemble.has_damaged_tree(server)) {
            self.wrong(format!("server {} should repair itself", server + 1));
        }
        self.run(SECOND);
    }

    /// Waits until the process number `lives` of a server has ended. The server restarts later.
    fn must_end(&mut self, server: usize, lives: u64) {
        let has_ended = |ensemble: &Self| {
            let machine = &ensemble.servers.machines[server];
            machine.process.is_none() || machine.lives > lives
        };
        if !self.run_until(SOON, has_ended) {
            self.wrong(format!("server {} should stop", server + 1));
        }
    }

    /// Returns the number of snapshots of wrong trees that this server has kept.
    fn kept_trees(&self, server: usize) -> usize {
        let disk = &self.servers.machines[server].disk;
        let names = disk.paths();
        let is_kept = |path: &&std::path::PathBuf| {
            let path = path.to_string_lossy();
            path.contains("/diverged-") && path.contains("/snapshot.")
        };
        names.iter().filter(is_kept).count()
    }

    fn must_have_kept_tree(&mut self, server: usize) {
        if self.kept_trees(server) != 1 {
            self.wrong(format!(
                "server {} should have saved its tree once",
                server + 1
            ));
        }
    }
}
