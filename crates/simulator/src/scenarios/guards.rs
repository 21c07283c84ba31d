//! Guards in the shipped code that random faults seldom exercise. Each guard has a script, which
//! uses as few steps as possible to reach the situation in which the guard is needed. The script
//! passes, but fails with the mutant that removes the guard.

use bytes::Bytes;
use jute::Encode;
use proto::learner::{LearnerPacket, LearnerRequest, Touch};
use proto::request::{CreateRequest, SetDataRequest, flags};
use proto::{Acl, OpCode, SessionId};
use replica::session::Owner;
use replica::session::Sessions;
use replica::{Input, LearnerEvent, Port, State};
use simulation::network;
use simulation::queue::{MS, Micros, SECOND};
use zab::leader::LinkId;

use super::{SOON, change_history, digests, files, ghosts, holes, lists, refusals};
use crate::checks::Violation;
use crate::checks::trace::Trace;
use crate::ensemble::Ensemble;
use crate::invariants::session_owner::SessionOwner;
use crate::simulated::{Event, World};
use crate::storms::plan::Plan;

/// A guard with its script.
#[derive(Debug, Clone, Copy)]
pub struct Guard {
    /// Description of the situation in which the guard is needed.
    pub title: &'static str,
    /// Name of the mutant that removes the guard.
    pub mutant: &'static str,
    plan: fn(Plan) -> Plan,
    pub(super) script: fn(&mut Ensemble),
}

impl Guard {
    /// Runs the script. Returns the first violated invariant, if any.
    pub fn play(&self, trace: Trace) -> Option<Violation> {
        let ensemble = Ensemble::new(SEED, self.plan(), trace).played(self.script);
        ensemble.servers.world.checks.violation
    }

    pub(super) fn plan(&self) -> Plan {
        (self.plan)(Plan::quiet())
    }
}

/// Seed of the scripts, some of which contain random steps.
pub(super) const SEED: u64 = 10;

/// All guards.
pub const GUARDS: &[Guard] = &[
    Guard {
        title: "a session moves between a follower and its observer, and a request of its old \
            connection is late",
        mutant: "LateRequestsRelayed",
        plan: with_observers,
        script: clients_move_to_observers,
    },
    Guard {
        title: "a session moves between members, and a request of its old connection is late",
        mutant: "OwnerIgnored",
        plan: with_observers,
        script: clients_move,
    },
    Guard {
        title: "an observer that began with a snapshot connects to a follower with fewer transactions",
        mutant: "ObserverCutBack",
        plan: |plan| {
            let mut plan = Plan {
                voters: 3,
                observers: 1,
                clients: 4,
                think: 5 * MS,
                chunk_bytes: 400,
                committed_len: 3,
                use_disk_log: false,
                ..plan
            };
            plan.features.has_observer_masters = true;
            plan
        },
        script: observer_is_ahead,
    },
    Guard {
        title: "a client reconnects while the upgrade of its session waits for its long requests",
        mutant: "WaitingUpgradeUnknown",
        plan: with_local_sessions,
        script: upgrade_waits,
    },
    Guard {
        title: "a session moves before its upgrade",
        mutant: "UpgradeTakesBack",
        plan: with_local_sessions,
        script: upgrade_waits,
    },
    Guard {
        title: "a session ends, and its last request is late",
        mutant: "EndedSessionsForgotten",
        plan: with_local_sessions,
        script: request_follows_end,
    },
    Guard {
        title: "a server that received a snapshot leads, and serves learners from the log before the snapshot",
        mutant: "LogWholeFromKept",
        plan: |plan| Plan { voters: 5, ..plan },
        script: holes::committed_log_over_snapshot,
    },
    Guard {
        title: "the leader dies when its snapshot is on the disk of a server, which leads later",
        mutant: "LogWholeFromForgotten",
        plan: |plan| Plan { voters: 5, ..plan },
        script: holes::snapshot_outlasts_role,
    },
    Guard {
        title: "a member cuts its log, its leader dies meanwhile, and later the member leads",
        mutant: "CutForgottenByNextRole",
        plan: |plan| Plan { voters: 5, ..plan },
        script: holes::cut_outlasts_role,
    },
    Guard {
        title: "a member needs a snapshot because it cannot cut its log, and its leader sends DIFF",
        mutant: "NeededSnapshotForgotten",
        plan: |plan| Plan { voters: 5, ..plan },
        script: refusals::snapshot_is_needed,
    },
    Guard {
        title: "the voters of a proposed list have a commit that a quorum of the old list lacks",
        mutant: "EpochByOldList",
        plan: lists::with_newcomer,
        script: lists::commit_by_new_voters,
    },
    Guard {
        title: "a member discards a proposed list, and crashes before its log is cut",
        mutant: "ListDiscardedBeforeCut",
        plan: lists::with_newcomer_and_trees,
        script: lists::proposal_without_list,
    },
    Guard {
        title: "a server with a damaged log votes with an empty history",
        mutant: "UntrustedVotes",
        plan: |plan| plan,
        script: files::log_rots,
    },
    Guard {
        title: "a log is used up to its damaged record",
        mutant: "DamageEndsLog",
        plan: |plan| plan,
        script: files::log_rots,
    },
    Guard {
        title: "a snapshot is damaged, and an older one exists, but the log between them is incomplete",
        mutant: "LostSnapshotIgnored",
        plan: |plan| plan,
        script: files::snapshot_rots,
    },
    Guard {
        title: "a voter has accepted a later epoch than the ensemble",
        mutant: "VoterAheadLeftOut",
        plan: |plan| plan,
        script: files::voter_is_ahead,
    },
    Guard {
        title: "the leader's second snapshot replaces the first before the change history processes them",
        mutant: "SeamNotNoted",
        plan: |plan| plan,
        script: change_history::comes_late,
    },
    Guard {
        title: "a follower has different data, and logs the difference",
        mutant: "DigestsNotCompared",
        plan: digests::that_log,
        script: digests::learner_logs,
    },
    Guard {
        title: "a leader has different data, and logs the difference",
        mutant: "LeadersDigestIsRight",
        plan: digests::that_log,
        script: digests::leader_logs,
    },
    Guard {
        title: "a follower has different data, and stops",
        mutant: "DigestsNotCompared",
        plan: digests::that_stop,
        script: digests::learner_stops,
    },
    Guard {
        title: "a leader has different data, and stops",
        mutant: "LeadersDigestIsRight",
        plan: digests::that_stop,
        script: digests::leader_stops,
    },
    Guard {
        title: "a follower has different data, and repairs itself",
        mutant: "DigestsNotCompared",
        plan: digests::that_repair,
        script: digests::learner_is_repaired,
    },
    Guard {
        title: "a leader has different data, and its followers repair themselves",
        mutant: "LeadersDigestIsRight",
        plan: digests::that_repair,
        script: digests::leader_is_repaired,
    },
    Guard {
        title: "a leader has different data, and continues",
        mutant: "WrongLeaderStays",
        plan: digests::that_repair,
        script: digests::leader_is_repaired,
    },
    Guard {
        title: "a leader has different data, steps down, and is elected again",
        mutant: "WrongTreeVotes",
        plan: digests::that_repair,
        script: digests::leader_is_repaired,
    },
    Guard {
        title: "an observer of a follower has different data, and repairs itself",
        mutant: "ObserversDigestsIgnored",
        plan: |plan| {
            let mut plan = Plan {
                observers: 1,
                ..digests::that_repair(plan)
            };
            plan.features.has_observer_masters = true;
            plan
        },
        script: digests::observer_is_repaired,
    },
    Guard {
        title: "two servers hold different data, and the others are down",
        mutant: "LeadersDigestIsRight",
        plan: digests::that_repair,
        script: digests::nobody_knows,
    },
    Guard {
        title: "a voter writes a snapshot while it applies transactions that its leader has not established",
        mutant: "SnapshotOverSync",
        plan: ghosts::five_voters,
        script: ghosts::snapshot_of_a_voter,
    },
    Guard {
        title: "a voter continues a snapshot of its last role while it applies transactions that are not established",
        mutant: "GenerationRaisedLate",
        plan: ghosts::five_voters,
        script: ghosts::snapshot_of_a_voter,
    },
    Guard {
        title: "an observer continues such a snapshot, and a sync takes 8 ms",
        mutant: "SnapshotOverSync",
        plan: |plan| ghosts::with_observer(plan, 8 * MS),
        script: ghosts::snapshot_of_an_observer,
    },
    Guard {
        title: "an observer continues such a snapshot, and a sync takes 12 ms",
        mutant: "SnapshotOverSync",
        plan: |plan| ghosts::with_observer(plan, 12 * MS),
        script: ghosts::snapshot_of_an_observer,
    },
    Guard {
        title: "a leader has different data, and a follower has copied the data",
        mutant: "CopiesAreWitnesses",
        plan: |plan| {
            let plan = Plan {
                committed_len: 1,
                use_disk_log: false,
                ..plan
            };
            digests::that_repair(plan)
        },
        script: digests::copy_is_no_witness,
    },
    Guard {
        title: "the oracle of two servers selects the other server, and its earlier answer is delayed",
        mutant: "OracleAnswerKept",
        plan: |plan| {
            Plan {
                clients: 4,
                think: 15 * MS,
                ..plan
            }
            .of_two()
        },
        script: word_moves,
    },
];

/// The oracle names the leader of two servers, so only the leader may continue alone. Then the
/// oracle names the other server, and the two servers are separated.
fn word_moves(ensemble: &mut Ensemble) {
    for _ in 0..20 {
        ensemble.served_by(&[0, 1]);
        let Some(leader) = ensemble.leader() else {
            return;
        };
        ensemble.name(Some(leader));
        ensemble.run(SECOND / 2);
        ensemble.name(Some(1 - leader));
        ensemble.part();
        ensemble.run(2 * SECOND);
        ensemble.mend();
    }
}

fn with_observers(plan: Plan) -> Plan {
    let mut plan = Plan {
        observers: 2,
        clients: 4,
        think: 15 * MS,
        ..plan
    };
    plan.features.has_observer_masters = true;
    plan
}

fn with_local_sessions(plan: Plan) -> Plan {
    let mut plan = Plan {
        sync: 50 * MS,
        ..plan
    };
    plan.features.local_sessions = true;
    plan
}

/// Clients lose their connections one after the other. Their requests arrive after the clients have
/// reconnected to another server.
fn clients_move(ensemble: &mut Ensemble) {
    clients_lose_connections(ensemble, |_, _| None);
}

/// Clients move between a follower and its observer. The leader cannot distinguish the two
/// connections of a client.
fn clients_move_to_observers(ensemble: &mut Ensemble) {
    clients_lose_connections(ensemble, Ensemble::other_side_of_observer);
}

/// Breaks the connections of clients. They reconnect to the server that `next` returns, if any.
fn clients_lose_connections(ensemble: &mut Ensemble, next: fn(&Ensemble, usize) -> Option<usize>) {
    ensemble.served_by(&[0, 1, 2, 3, 4]);
    for round in 0..200 {
        let client = round % ensemble.clients.len();
        if let Some(connection) = ensemble.clients[client].connection {
            let ends = ensemble
                .servers
                .world
                .network
                .get(connection)
                .map(|it| it.ends);
            let server = ends.and_then(|ends| ends[1].server());
            let goes_to = server.and_then(|server| next(ensemble, server));
            ensemble.clients[client].goes_to = goes_to;
            let World { network, queue, .. } = &mut ensemble.servers.world;
            network.slow_down(connection, 0, LATE);
            for (end, after) in [(0, LATE / 4), (1, 2 * LATE)] {
                queue.after(after, Event::Broken { connection, end });
            }
        }
        ensemble.run(LATE / 2);
    }
}

/// The observer receives a snapshot while changes continue, and one follower receives nothing. Then
/// the observer connects to that follower, whose tree is older than some changes that the snapshot
/// partly contains.
fn observer_is_ahead(ensemble: &mut Ensemble) {
    const OBSERVER: usize = 3;
    ensemble.served_by(&[0, 1, 2, OBSERVER]);
    for round in 0..16 {
        ensemble.kill(OBSERVER);
        ensemble.run(400 * MS);
        let Some(leader) = ensemble.leader() else {
            continue;
        };
        let mut followers = (0..3).filter(|server| *server != leader).cycle();
        let deaf = followers.nth(round % 2).unwrap_or(leader);
        ensemble.start(OBSERVER);
        ensemble.run_until(200 * MS, |ensemble| {
            ensemble.servers.world.network.brings_tree(OBSERVER)
        });
        ensemble.servers.world.network.cut(leader, deaf);
        ensemble.run(500 * MS);
        let World { network, queue, .. } = &mut ensemble.servers.world;
        for connection in network.between_servers(false) {
            let ends = network.get(connection).map(|connection| connection.ends);
            let mut ends = ends.into_iter().flatten();
            if ends.any(|end| end.server() == Some(OBSERVER)) {
                queue.after(0, Event::Broken { connection, end: 0 });
                queue.after(0, Event::Broken { connection, end: 1 });
            }
        }
        ensemble.run(400 * MS);
        ensemble.mend();
        ensemble.run(200 * MS);
    }
}

/// Server 1 forwards long requests of its local session, and then the request that makes the
/// session global, which waits for the long requests. Meanwhile the client reconnects to server 2.
/// The client may write there, and on no other server.
fn upgrade_waits(ensemble: &mut Ensemble) {
    const LONG_BYTES: usize = 1_000_000;
    ensemble.led_by(2);
    ensemble.served_by(&[0, 1, 2]);
    let links = [0, 1].map(|server| ensemble.learner_link(2, server));
    let [Some(old), Some(new)] = links else {
        return ensemble.wrong("servers 1 and 2 should follow server 3".into());
    };
    let long = SetDataRequest {
        path: Some("/none".into()),
        data: Some(vec![b'x'; LONG_BYTES].into()),
        version: -1,
    };
    let timeout_ms: i32 = 60_000;
    let requests = [
        (OpCode::SetData, long.to_bytes()),
        (OpCode::SetData, long.to_bytes()),
        (OpCode::SetData, long.to_bytes()),
        (
            OpCode::CreateSession,
            Bytes::copy_from_slice(&timeout_ms.to_be_bytes()),
        ),
    ];
    let requests = requests.into_iter().zip(0..).map(|((op, body), cxid)| {
        LearnerPacket::Request(LearnerRequest {
            session: MOVING,
            cxid,
            op: op.number(),
            body,
            authinfo: Some(Vec::new()),
        })
    });
    let session = MOVING;
    let asks = LearnerPacket::Revalidate(Touch {
        session,
        timeout_ms,
    });
    let packets = [(old, requests.collect()), (new, vec![asks])];
    ensemble.tell_leader(2, packets);
    ensemble.run(SOON);
    let Some(process) = ensemble.process(2) else {
        return;
    };
    let is_there = process.host.state.tree().session_timeout_ms(MOVING) == Some(timeout_ms);
    let mut sessions = process.host.state.sessions();
    let may_write =
        |sessions: &mut Sessions, link: LinkId| sessions.check(MOVING, Owner(link.0)).is_ok();
    let may = [old, new].map(|link| may_write(&mut sessions, link));
    drop(sessions);
    if !is_there || may != [false, true] {
        let text = format!(
            "session {MOVING} exists: {is_there}; may write over the old and the new connection: {may:?}"
        );
        ensemble.servers.world.checks.fail(SessionOwner::NAME, text);
    }
}

/// A global session ends. Then a follower forwards a request of the session, which the leader must
/// not treat as a request of a local session.
fn request_follows_end(ensemble: &mut Ensemble) {
    ensemble.led_by(2);
    ensemble.served_by(&[0, 1, 2]);
    let Some(link) = ensemble.learner_link(2, 0) else {
        return ensemble.wrong("server 1 should follow server 3".into());
    };
    let create = CreateRequest {
        path: Some("/late".into()),
        data: None,
        acl: proto::multi::request_acl([Acl::open()]),
        flags: flags::PERSISTENT,
    };
    let timeout_ms: i32 = 60_000;
    let timeout = Bytes::copy_from_slice(&timeout_ms.to_be_bytes());
    for (op, body) in [
        (OpCode::CreateSession, timeout),
        (OpCode::CloseSession, Bytes::new()),
        (OpCode::Create, create.to_bytes()),
    ] {
        let request = LearnerPacket::Request(LearnerRequest {
            session: MOVING,
            cxid: 0,
            op: op.number(),
            body,
            authinfo: Some(Vec::new()),
        });
        ensemble.tell_leader(2, [(link, vec![request]), (link, Vec::new())]);
        ensemble.run(SOON);
    }
    let Some(process) = ensemble.process(2) else {
        return;
    };
    if process.host.state.tree().may_read("/late", &[]).is_some() {
        let text = format!("the leader executed a request of the ended session {MOVING}");
        ensemble.servers.world.checks.fail(SessionOwner::NAME, text);
    }
}

/// Session that is upgraded or ends.
const MOVING: SessionId = SessionId(0x107);

impl Ensemble {
    /// Returns the observer that learns from this follower, or the follower of this observer.
    fn other_side_of_observer(&self, server: usize) -> Option<usize> {
        let network = &self.servers.world.network;
        let numbers = network.between_servers(false).into_iter();
        let observed = numbers.filter_map(|number| {
            let connection = network.get(number)?;
            let is_observed = connection.port == network::Port::Members(Port::Observers);
            let ends = connection.ends.map(|end| end.server());
            (is_observed && ends.contains(&Some(server))).then_some(ends)
        });
        let mut others = observed.flatten().flatten();
        others.find(|other| *other != server)
    }

    /// Returns the connection between a leader and its learner, as identified by the leader.
    pub(super) fn learner_link(&self, leader: usize, learner: usize) -> Option<LinkId> {
        let network = &self.servers.world.network;
        let mut numbers = network.between_servers(false).into_iter();
        let number = numbers.find(|number| {
            network.get(*number).is_some_and(|connection| {
                let ends = connection.ends.map(|end| end.server());
                let port = network::Port::Members(Port::Learners);
                connection.port == port && ends == [Some(learner), Some(leader)]
            })
        })?;
        Some(LinkId(number))
    }

    /// Delivers these packets to a leader in one step.
    fn tell_leader(&mut self, leader: usize, packets: [(LinkId, Vec<LearnerPacket>); 2]) {
        let Some(process) = self.process(leader).map(|server| server.host.process) else {
            return;
        };
        self.with(process, |server| {
            for (link, packets) in packets {
                let event = LearnerEvent::Packets { link, packets };
                server
                    .host
                    .inputs
                    .push_back(Input::Learner(Port::Learners, event));
            }
        });
    }
}

/// Delay of the late packets.
const LATE: Micros = 200 * MS;
