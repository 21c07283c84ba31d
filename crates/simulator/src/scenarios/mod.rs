//! Scripts for ordering bugs of Apache ZooKeeper, one for each bug.
//!
//! A script brings an ensemble to the moment of the bug by stalling disks, cutting paths and
//! stopping servers. With a correct host, the ensemble recovers in the end. With the script's
//! mutant, which behaves as Apache ZooKeeper did, an invariant is violated. Each script therefore
//! passes, but fails without the guard against its bug. Mutants are patches
//! (`crates/simulator/mutants`).

mod change_history;
mod digests;
mod files;
mod ghosts;
mod guards;
mod histories;
mod holes;
mod learners;
mod lists;
mod refusals;
mod traced;

pub use guards::{GUARDS, Guard};
pub use traced::{TracedScript, traced};

use jute::Encode;
use proto::request::{CreateRequest, Request, WriteRequest, flags};
use proto::{Acl, Id, OpCode, SessionId, Zxid};
use replica::{ClientRequest, Input, LargeBytes, State, Ticket};
use simulation::queue::{MS, SECOND};
use simulation::world::HeldWork;

use crate::checks::Violation;
use crate::checks::trace::Trace;
use crate::ensemble::Ensemble;
use crate::simulated::{Server, World};
use crate::storms::plan::Plan;

/// A bug, reproduced step by step.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Number of the issue, `ZOOKEEPER-...`.
    pub issue: u32,
    /// Description of the failure.
    pub title: &'static str,
    /// Name of the mutant that reintroduces the bug.
    pub mutant: &'static str,
    voters: usize,
    script: fn(&mut Ensemble),
}

impl Scenario {
    /// Runs the script. Returns the first violated invariant, if any.
    pub fn play(&self, trace: Trace) -> Option<Violation> {
        let ensemble = self.played(Ensemble::new(u64::from(self.issue), self.plan(), trace));
        ensemble.servers.world.checks.violation
    }

    fn plan(&self) -> Plan {
        Plan {
            voters: self.voters,
            ..Plan::quiet()
        }
    }

    fn played(&self, ensemble: Ensemble) -> Ensemble {
        ensemble.played(self.script)
    }
}

impl Ensemble {
    /// Plays a script. In the end, all faults are over, and the ensemble must recover.
    fn played(mut self, script: fn(&mut Self)) -> Self {
        self.start_all();
        script(&mut self);
        self.heal();
        self.must_be_well();
        self
    }
}

/// All twelve scenarios.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        issue: 1818,
        title: "the votes of a stable ensemble contain different epochs, so no server can join",
        mutant: "LeaderKeepsElectedEpoch",
        voters: 3,
        script: learners::joins_a_settled_ensemble,
    },
    Scenario {
        issue: 2846,
        title: "log files with a gap before a snapshot are sent to learners",
        mutant: "LogWithHoleServed",
        voters: 5,
        script: holes::files_behind_a_snapshot,
    },
    Scenario {
        issue: 3023,
        title: "NEWLEADER is acknowledged before the snapshot is on disk",
        mutant: "NewLeaderBeforeSnapshot",
        voters: 3,
        script: histories::snapshot_not_on_disk,
    },
    Scenario {
        issue: 3526,
        title: "the committed log survives a snapshot that goes beyond it",
        mutant: "CommittedLogKeptOverSnapshot",
        voters: 5,
        script: holes::committed_log_over_snapshot,
    },
    Scenario {
        issue: 3911,
        title: "the transactions of a DIFF are logged only after NEWLEADER is acknowledged",
        mutant: "HistoryLoggedAfterAck",
        voters: 3,
        script: histories::history_not_on_disk,
    },
    Scenario {
        issue: 4394,
        title: "a commit between NEWLEADER and UPTODATE is lost",
        mutant: "CommitBeforeUpToDateLost",
        voters: 3,
        script: learners::commit_before_up_to_date,
    },
    Scenario {
        issue: 4643,
        title: "the current epoch is on disk before the history",
        mutant: "EpochBeforeHistory",
        voters: 3,
        script: histories::epoch_before_history,
    },
    Scenario {
        issue: 4646,
        title: "NEWLEADER is acknowledged while the history is still being written",
        mutant: "HistoryAckedBeforeSync",
        voters: 3,
        script: histories::history_not_on_disk,
    },
    Scenario {
        issue: 4685,
        title: "a proposal is acknowledged before NEWLEADER, and the leader drops the follower",
        mutant: "ProposalAckedBeforeNewLeader",
        voters: 3,
        script: learners::proposal_before_new_leader,
    },
    Scenario {
        issue: 4712,
        title: "the log writer of the last role continues in the next role",
        mutant: "OldLogWriterLives",
        voters: 3,
        script: learners::old_writer,
    },
    Scenario {
        issue: 4785,
        title: "proposals received during synchronisation are acknowledged, but not on disk",
        mutant: "SyncProposalsAckedBeforeSync",
        voters: 3,
        script: histories::proposals_not_on_disk,
    },
    Scenario {
        issue: 4925,
        title: "the transactions of a DIFF are missing in the committed log, and then in a follower",
        mutant: "DiffNotInCommittedLog",
        voters: 5,
        script: holes::committed_log_after_diff,
    },
];

/// Session of the writes in scripts.
const WRITER: SessionId = SessionId(0x7e57);

/// Maximum time until an expected event.
const SOON: i64 = 6 * SECOND;

impl Ensemble {
    /// Waits until this server leads.
    fn led_by(&mut self, server: usize) {
        if !self.run_until(SOON, |ensemble| ensemble.leader() == Some(server)) {
            let leader = self.leader();
            self.wrong(format!(
                "server {} should lead instead of {leader:?} (counted from 0)",
                server + 1
            ));
        }
    }

    /// Waits until this server has noticed that it no longer leads.
    fn led_no_more_by(&mut self, server: usize) {
        let leads = |ensemble: &Self| ensemble.process(server).is_some_and(Server::is_leading);
        if !self.run_until(SOON, |ensemble| !leads(ensemble)) {
            self.wrong(format!("server {} should stop leading", server + 1));
        }
    }

    /// Waits until these servers serve.
    fn served_by(&mut self, servers: &[usize]) {
        let serves = |ensemble: &Self| {
            let mut all = servers.iter().map(|server| ensemble.process(*server));
            all.all(|process| process.is_some_and(Server::is_serving))
        };
        if !self.run_until(SOON, serves) {
            self.wrong(format!("servers {servers:?} (counted from 0) should serve"));
        }
    }

    fn wrong(&mut self, text: String) {
        self.servers.world.checks.fail("liveness", text);
    }

    /// Makes the leader propose `count` transactions.
    fn propose(&mut self, leader: usize, count: usize) {
        let Some(process) = self.process(leader).map(|server| server.host.process) else {
            return self.wrong(format!("server {} does not run", leader + 1));
        };
        for _ in 0..count {
            let number = self.servers.world.queue.taken;
            let open = WriteRequest::CreateSession {
                timeout_ms: 1 << 30,
            };
            let create = WriteRequest::Create {
                op: OpCode::Create,
                request: CreateRequest {
                    path: Some(format!("/n{number}-").into()),
                    data: Some("x".into()),
                    acl: proto::multi::request_acl([Acl::open()]),
                    flags: flags::PERSISTENT_SEQUENTIAL,
                },
                ttl: -1,
            };
            self.with(process, |server| {
                if server
                    .host
                    .state
                    .tree()
                    .session_timeout_ms(WRITER)
                    .is_none()
                {
                    propose(server, open);
                }
                propose(server, create);
            });
            self.run(5 * MS);
        }
    }

    /// Makes the leader propose `count` transactions and waits for their commit.
    fn write(&mut self, leader: usize, count: usize) {
        let wanted = self.servers.world.checks.history.entries.len() + count;
        self.propose(leader, count);
        if !self.run_until(SOON, |ensemble| {
            ensemble.servers.world.checks.history.entries.len() >= wanted
        }) {
            self.wrong(format!(
                "writes of server {} should be committed",
                leader + 1
            ));
        }
        self.run(50 * MS);
    }

    fn hold(&mut self, server: usize, held: HeldWork) {
        self.servers.world.held.insert((server, held));
    }

    fn release(&mut self) {
        self.servers.world.held.clear();
    }

    /// Cuts all paths from and to this server.
    fn cut_off(&mut self, server: usize) {
        for other in (0..self.servers.machines.len()).filter(|other| *other != server) {
            self.servers.world.network.cut(server, other);
            self.servers.world.network.cut(other, server);
        }
    }

    fn mend(&mut self) {
        let World { network, queue, .. } = &mut self.servers.world;
        network.heal(queue);
    }

    fn committed(&self) -> Zxid {
        self.servers.world.checks.history_end()
    }
}

/// Proposes a write for which no client waits.
pub(crate) fn propose(server: &mut Server, request: WriteRequest) {
    propose_as(WRITER, server, request);
}

/// Proposes a write of a session for which no client waits. A super user requests it.
pub(crate) fn propose_as(session: SessionId, server: &mut Server, request: WriteRequest) {
    let mut body = Vec::new();
    let encoded = match &request {
        WriteRequest::CreateSession { timeout_ms } => {
            timeout_ms.encode(&mut body);
            Ok(())
        }
        request => Request::Write(request.clone()).encode(&mut body),
    };
    let super_user = Id {
        scheme: "super".into(),
        id: "".into(),
    };
    let request = ClientRequest {
        ticket: Ticket(0),
        session,
        cxid: 0,
        identities: [super_user].into(),
        request,
        body: body.into(),
        large_bytes: LargeBytes::NONE,
        upgrade_ms: None,
    };
    if encoded.is_ok() {
        server.host.inputs.push_back(Input::Requests(vec![request]));
    }
}
