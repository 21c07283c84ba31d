//! The end of a run: all faults end, and then all invariants must hold.

use simulation::configured::sid_of;
use simulation::queue::{MS, Micros, SECOND};
use simulation::servers::Machine;

use super::Ensemble;
use crate::checks::Checks;
use crate::history::check as history_check;
use crate::invariants::access::Identity;
use crate::invariants::liveness::{self, FinalState};
use crate::invariants::reads::ReadReply;
use crate::invariants::{ephemerals, reads, recovery_time, short_lived};
use crate::simulated::{Event, Server, World};
use config::membership::Membership;
use proto::{Epoch, SessionId, Sid, Zxid};
use replica::{RoleView, State};
use std::collections::BTreeMap;

/// Maximum time for the recovery of the ensemble.
pub(super) const PATIENCE: Micros = 60 * SECOND;
/// Minimum time without faults before the ensemble is judged.
pub(super) const FINE: Micros = 4 * SECOND;
/// Maximum delay before a container or TTL znode that is due must be deleted.
const SHORT_LIVED_DELAY_MS: i64 = 1500;
/// Time after which a session without a client must be over, and a due container must be deleted.
const SESSIONS_END: Micros = 5 * SECOND;
/// Duration of a connection after which the client's session must not expire.
const THERE: Micros = SECOND;

impl Ensemble {
    /// Ends the storm. No more faults occur.
    pub(crate) fn heal(&mut self) {
        self.servers
            .world
            .say("weather", || "all faults end".into());
        self.servers.world.is_healed = true;
        self.servers.world.held.clear();
        self.servers.world.checks.coverage.end();
        self.healed_at = Some(self.servers.world.now());
        let World { network, queue, .. } = &mut self.servers.world;
        network.heal(queue);
        for index in 0..self.servers.machines.len() {
            self.servers.machines[index].disk.set_full(false);
            let delay = self.servers.world.random.range(0, 100 * MS);
            self.servers
                .world
                .queue
                .after(delay, Event::Start { server: index });
        }
        for client in &mut self.clients {
            client.progress = 0;
            client.asleep_until = 0;
        }
    }

    /// Waits until the ensemble has recovered and no requests are pending. Then checks everything.
    pub(crate) fn must_be_well(&mut self) {
        let end = self.servers.world.now() + PATIENCE;
        while self.servers.world.now() < end && self.servers.world.checks.violation.is_none() {
            self.run(100 * MS);
            self.look_after();
            let is_time = self.servers.world.now() > end - PATIENCE + FINE;
            if is_time && self.is_stranded() {
                return self.must_say_so();
            }
            if is_time && self.is_well().is_ok() {
                break;
            }
        }
        let took = self.servers.world.now() - (end - PATIENCE);
        let held = recovery_time::healed(took, self.is_well(), &self.servers.world.checks.plan);
        self.servers.world.checks.hold(recovery_time::NAME, held);
        self.be_quiet();
        self.servers
            .world
            .checks
            .hold(liveness::NAME, self.is_well());
        self.run(SESSIONS_END);
        self.short_lived_are_gone();
        let sessions: Vec<SessionId> = self.clients.iter().map(|client| client.session).collect();
        // Scripts write in a session that belongs to no client.
        if !sessions.is_empty() {
            self.servers.world.checks.judge_sessions(&sessions);
        }
        self.compare_trees();
        self.compare_disks();
        self.compare_histories();
        self.servers.world.checks.judge_calls();
    }

    /// Checks that the files of every server yield the committed tree.
    fn compare_disks(&mut self) {
        let World {
            checks, settings, ..
        } = &mut self.servers.world;
        for (index, machine) in self.servers.machines.iter().enumerate() {
            checks.on_disk(sid_of(index), &machine.disk, settings);
        }
    }

    /// Checks that every change history matches the committed transactions.
    fn compare_histories(&mut self) {
        let running = 0..self.servers.machines.len();
        let running = running.filter(|index| self.process(*index).is_some_and(Server::is_serving));
        let running = running.map(|index| (index, self.damage[index].is_rotten));
        let running: Vec<(usize, bool)> = running.collect();
        let World { checks, .. } = &mut self.servers.world;
        if checks.violation.is_some() {
            return;
        }
        match checks.histories.judge(&running, &checks.history) {
            Ok(found) => self.recorded = found,
            Err(text) => checks.fail(history_check::NAME, text),
        }
    }

    /// Returns whether so many voters have lost acknowledged data that the rest is not a quorum. If
    /// so, no server may lead, it is unknown which data is missing, and a person has to decide.
    ///
    /// Quorums follow the member lists of the server with the newest history, because no other
    /// server can be elected.
    pub(crate) fn is_stranded(&self) -> bool {
        let mut machines = self.servers.machines.iter().zip(&self.damage);
        let are_all_asked =
            machines.all(|(machine, damage)| machine.process.is_some() || damage.has_refused);
        let running = self
            .servers
            .machines
            .iter()
            .enumerate()
            .filter_map(|(index, machine)| {
                let replica = &machine.process.as_deref()?.replica;
                let (candidate, lists) = (replica.candidate()?, replica.lists()?);
                let rank = (candidate.peer_epoch, candidate.zxid?, sid_of(index));
                Some((sid_of(index), (rank, lists)))
            });
        let trusted: BTreeMap<Sid, _> = running.collect();
        let has_quorum = |list: &Membership| {
            let quorum = list.quorum();
            let voters = quorum.voters();
            quorum.is_quorum(&|sid| voters.contains(&sid) && trusted.contains_key(&sid))
        };
        let voters = trusted.iter().filter(|(sid, (_, lists))| {
            let mut voters = lists.committed().participants();
            voters.any(|voter| voter.sid == **sid)
        });
        let newest = voters.max_by_key(|(_, (rank, _))| *rank);
        let standing = trusted.iter().map(|(sid, ((epoch, zxid, _), lists))| {
            let end = (*epoch, *zxid);
            let proposed = lists.last_seen();
            (*sid, Standing { end, proposed })
        });
        let standing: BTreeMap<Sid, Standing<'_>> = standing.collect();
        let may_lead = newest.is_some_and(|(sid, (_, lists))| {
            let committed = lists.committed();
            has_quorum(committed)
                && lists.last_seen().is_none_or(|proposed| {
                    has_quorum(proposed) && may_agree(committed, proposed, *sid, &standing)
                })
        });
        are_all_asked && self.leader().is_none() && !may_lead
    }

    /// Marks the run as given up, and checks that no server serves more than reads.
    pub(super) fn must_say_so(&mut self) {
        self.is_given_up = true;
        for process in self
            .servers
            .machines
            .iter()
            .filter_map(|machine| machine.process.as_ref())
        {
            let doing = doing(process);
            let view = process.replica.view();
            let reads_alone = view.is_some_and(|view| view.role == RoleView::ReadOnly);
            if process.is_serving() && !reads_alone {
                let text = format!("a server serves without a quorum: {doing}");
                self.servers.world.checks.fail(liveness::NAME, text);
            }
        }
    }

    fn is_well(&self) -> Result<(), String> {
        let standing = |machine: &Machine<Checks>| match &machine.process {
            None => FinalState {
                doing: "down".into(),
                leads: false,
                serves: false,
                last: Zxid::ZERO,
            },
            Some(process) => FinalState {
                doing: doing(process),
                leads: process.is_leading(),
                serves: process.is_serving(),
                last: self
                    .servers
                    .world
                    .checks
                    .history
                    .end_of_tree(process.host.state.tree().last_zxid()),
            },
        };
        let servers: Vec<FinalState> = self.servers.machines.iter().map(standing).collect();
        let plan = &self.servers.world.checks.plan;
        if !self.clients.iter().all(|client| client.has_restored(plan)) {
            return Err("some clients have not restored the member list".to_owned());
        }
        let progress: Vec<usize> = self.clients.iter().map(|client| client.progress).collect();
        let is_level = |server: &FinalState| server.last == self.servers.world.checks.history_end();
        if !self.clients.iter().all(|client| client.is_quiet) && !servers.iter().all(is_level) {
            // While clients send requests, servers may lack the newest transactions.
            let level = servers.into_iter().map(|mut server| {
                server.last = self.servers.world.checks.history_end();
                server
            });
            let level: Vec<FinalState> = level.collect();
            return liveness::is_well(&level, &progress, self.servers.world.checks.history_end());
        }
        liveness::is_well(&servers, &progress, self.servers.world.checks.history_end())
    }

    /// Acts as an operator: restarts the leader if an observer has accepted a later epoch, or wipes
    /// the disk of a server that has refused to start.
    pub(super) fn look_after(&mut self) {
        if std::mem::take(&mut self.servers.world.checks.is_observer_ahead)
            && let Some(leader) = self.leader()
        {
            self.kill(leader);
            self.start(leader);
        }
        let others_are_well = self.damage.iter().enumerate().all(|(index, damage)| {
            damage.has_refused || self.process(index).is_some_and(Server::is_serving)
        });
        if !others_are_well || self.leader().is_none() {
            return;
        }
        for index in 0..self.servers.machines.len() {
            if self.damage[index].has_refused {
                self.servers.world.say(format!("server {}", index + 1), || {
                    "gets an empty disk".into()
                });
                self.servers.machines[index].disk.wipe();
                self.damage[index].has_refused = false;
                self.damage[index].is_rotten = false;
                self.servers.machines[index].was_wiped = true;
                self.start(index);
                return;
            }
        }
    }

    fn be_quiet(&mut self) {
        for client in &mut self.clients {
            client.is_quiet = true;
        }
        for _ in 0..100 {
            self.run(100 * MS);
            self.look_after();
            let is_idle = self.clients.iter().all(crate::client::Client::is_idle);
            if is_idle && self.is_well().is_ok() {
                return;
            }
        }
    }

    fn short_lived_are_gone(&mut self) {
        if self.servers.world.checks.plan.has_wrong_clocks {
            return;
        }
        let now_ms = self.servers.world.wall_ms(0);
        let checks = &mut self.servers.world.checks;
        let held = short_lived::at_the_end(now_ms, SHORT_LIVED_DELAY_MS, &checks.history);
        checks.hold(short_lived::NAME, held);
    }

    /// Checks that the tree of every running server matches the model.
    fn compare_trees(&mut self) {
        let World { checks, .. } = &mut self.servers.world;
        if checks.violation.is_some() {
            return;
        }
        let watches = parking_lot::Mutex::default();
        for process in self
            .servers
            .machines
            .iter()
            .filter_map(|machine| machine.process.as_deref())
        {
            let (sid, tree) = (
                sid_of(process.host.process.server),
                process.host.state.tree(),
            );
            checks.serves(sid, tree.last_zxid(), &tree);
            let held = ephemerals::at_the_end(sid, &tree, &checks.history);
            checks.hold(ephemerals::NAME, held);
            let paths: Vec<String> = checks
                .history
                .paths()
                .map(|(path, _)| path.to_owned())
                .collect();
            for path in paths {
                let request =
                    proto::request::ReadRequest::GetData(proto::request::PathWatchRequest {
                        path: Some(path.as_str().into()),
                        watch: false,
                    });
                let identity = Identity::User;
                let caller = tree::Caller {
                    session: SessionId::NONE,
                    watcher: tree::WatcherId(0),
                    identities: &[proto::Id {
                        scheme: "digest".into(),
                        id: identity.id().into(),
                    }],
                };
                let mut body = Vec::new();
                let result = tree.read(&request, &caller, &watches, &mut body);
                let result = result.map(|()| bytes::Bytes::from(body));
                let told = ReadReply {
                    session: SessionId::NONE,
                    identity: Some(identity),
                    zxid: checks.history_end(),
                    result: &result,
                };
                let held = reads::read(&request, told, &checks.history);
                checks.hold(reads::NAME, held);
            }
        }
    }

    /// Checks that, without faults, no session of a connected client expires.
    pub(super) fn judge_expired(&mut self) {
        for session in std::mem::take(&mut self.servers.world.checks.expired) {
            let (healed_at, now) = (self.healed_at, self.servers.world.now());
            let is_there = self.clients.iter().any(|client| {
                let since = client.connected_since.filter(|_| client.session == session);
                let in_fine_weather = since.filter(|since| healed_at.is_some_and(|at| *since > at));
                in_fine_weather.is_some_and(|since| since + THERE < now)
            });
            if is_there {
                self.servers
                    .world
                    .checks
                    .hold(liveness::NAME, liveness::expired_in_use(session));
            }
        }
    }
}

/// End of a server's history, and the proposed member list that the server knows.
struct Standing<'a> {
    end: (Epoch, Zxid),
    proposed: Option<&'a Membership>,
}

/// Returns whether the voters of both lists can agree on a leader. `newest` is the voter of the
/// committed list with the newest history.
///
/// An old voter is a voter of the committed list. A newcomer is a voter of the proposed list only.
/// If newcomers alone are a quorum and have logged more than each old voter, they may have
/// committed the proposed list. They then do not vote for old voters, and only old voters that know
/// the list can elect a newcomer. Apache ZooKeeper has no leader in this state either, until a
/// person decides which history is valid.
fn may_agree(
    committed: &Membership,
    proposed: &Membership,
    newest: Sid,
    servers: &BTreeMap<Sid, Standing<'_>>,
) -> bool {
    let (old, new) = (committed.quorum(), proposed.quorum());
    let end_of = |sid: Sid| servers.get(&sid).map(|server| server.end);
    let votes_for_newest = |sid: Sid| {
        let may = old.is_voter(sid) || end_of(sid) <= end_of(newest);
        new.is_voter(sid) && servers.contains_key(&sid) && may
    };
    let newcomers_alone = |sid: Sid| {
        let is_old = old.is_voter(sid) && servers.contains_key(&sid);
        new.is_voter(sid) && !is_old
    };
    let knows_list = |sid: Sid| {
        let seen = servers.get(&sid).and_then(|server| server.proposed);
        old.is_voter(sid) && seen.is_some_and(|seen| seen.version == proposed.version)
    };
    new.is_quorum(&votes_for_newest)
        || !new.is_quorum(&newcomers_alone)
        || old.is_quorum(&knows_list)
}

/// Returns the activity of a server in one word, with its phase.
fn doing(process: &Server) -> String {
    let Some(view) = process.replica.view() else {
        return "standalone".into();
    };
    let doing = match view.role {
        RoleView::Looking | RoleView::ReadOnly => "looks",
        RoleView::Following { .. } => "follows",
        RoleView::Observing { .. } => "observes",
        RoleView::Leading { .. } => "leads",
    };
    format!("{doing} ({:?})", view.phase)
}
