//! An ensemble in which each step is a choice. Time passes only in elections and timeouts.
//!
//! Work of threads within a server follows its cause immediately.

use host::SnapshotReason;
use proto::request::{CreateRequest, SetDataRequest, WriteRequest, flags};
use proto::{Acl, OpCode};
use simulation::network::{Port, Process};
use simulation::queue::{MS, Micros, SECOND};
use simulation::settings::Features;
use testkit::Random;

use super::waiting::{Effect, is_looking};
use super::{Bounds, Choice};
use crate::checks::Violation;
use crate::checks::received::Received;
use crate::checks::trace::Trace;
use crate::ensemble::Ensemble;
use crate::history::check::Histories;
use crate::scenarios::propose;
use crate::simulated::{Event, Server, World};
use crate::storms::plan::Plan;

/// Seed of the draws at each event. They are therefore independent of the choices before.
const SEED: u64 = 1;

/// Number of servers.
pub(super) const SERVERS: u8 = 3;

/// Maximum duration of the start.
const START: Micros = 10 * SECOND;

/// Maximum duration of an election, and of a wait in vain.
pub(super) const WAIT: Micros = 4 * SECOND;

/// Maximum number of steps that follow a choice immediately.
const STEPS_MAX: usize = 100_000;

/// An ensemble, and what is left of the bounds.
pub(super) struct Stage {
    pub(super) ensemble: Ensemble,
    pub(super) left: Bounds,
    /// Time at which each choice begins.
    pub(super) base: Micros,
    /// Number of transactions so far.
    proposed: u8,
}

impl Stage {
    /// Returns an ensemble of three servers. Server 3 leads, and all have the same transactions.
    pub(super) fn new(bounds: Bounds, trace: Trace) -> Self {
        let mut stage = Self::of_new_servers(bounds, Features::PLAIN, trace);
        stage.ensemble.start_all();
        stage.begin();
        stage
    }

    /// Returns an ensemble of three new servers that have not started.
    pub(super) fn of_new_servers(bounds: Bounds, features: Features, trace: Trace) -> Self {
        let plan = Plan {
            delay: 1,
            sync: 1,
            chunk_bytes: 300,
            use_disk_log: false,
            features,
            ..Plan::quiet()
        };
        let mut ensemble = Ensemble::new(SEED, plan, trace);
        let checks = &mut ensemble.servers.world.checks;
        checks.received = Some(Received::default());
        // Change histories are not recorded.
        checks.histories = Histories::new(SEED, 0);
        Self {
            ensemble,
            left: bounds,
            base: 0,
            proposed: 0,
        }
    }

    fn begin(&mut self) {
        let leader = usize::from(SERVERS - 1);
        let all_serve = |ensemble: &Ensemble| {
            let mut servers = 0..usize::from(SERVERS);
            let serve = servers.all(|at| ensemble.process(at).is_some_and(Server::is_serving));
            serve && ensemble.leader() == Some(leader)
        };
        let mut is_ready = self.ensemble.run_until(START, all_serve);
        self.write(
            SERVERS - 1,
            WriteRequest::CreateSession {
                timeout_ms: 1 << 30,
            },
        );
        let create = CreateRequest {
            path: Some("/n".into()),
            data: Some("0".into()),
            acl: proto::multi::request_acl([Acl::open()]),
            flags: flags::PERSISTENT,
        };
        self.write(
            SERVERS - 1,
            WriteRequest::Create {
                op: OpCode::Create,
                request: create,
                ttl: -1,
            },
        );
        self.ensemble.run(20 * MS);
        is_ready &= self.ensemble.servers.world.checks.history.entries.len() == 2;
        if !is_ready {
            self.fail("the servers do not start");
        }
        self.base = (self.ensemble.servers.world.now() / SECOND + 1) * SECOND;
        self.settle();
    }

    fn fail(&mut self, text: &str) {
        self.ensemble
            .servers
            .world
            .checks
            .fail("explorer", text.to_owned());
    }

    pub(super) fn violation(&self) -> Option<&Violation> {
        self.ensemble.servers.world.checks.violation.as_ref()
    }

    fn write(&mut self, at: u8, request: WriteRequest) {
        if let Some(process) = self.process(at).map(|server| server.host.process) {
            self.ensemble
                .with(process, |server| propose(server, request));
        }
    }

    pub(super) fn process(&self, at: u8) -> Option<&Server> {
        self.ensemble.process(at.into())
    }

    pub(super) fn runs(&self, process: Process) -> bool {
        let running = self.ensemble.process(process.server);
        running.is_some_and(|server| server.host.process == process)
    }

    /// Takes the earliest wanted event until `end`, and lets it happen.
    pub(super) fn step(&mut self, end: Micros, is_wanted: impl Fn(Effect) -> bool) -> bool {
        let mut queue = std::mem::take(&mut self.ensemble.servers.world.queue);
        let taken = queue.take(end, |event| is_wanted(self.effect_of(event)));
        self.ensemble.servers.world.queue = queue;
        let Some(event) = taken else {
            return false;
        };
        self.ensemble.servers.world.random = Random::new(SEED);
        if !matches!(event, Event::Start { .. } | Event::Own(_)) {
            self.ensemble.happen(event);
        }
        true
    }

    /// Does everything that follows immediately, and returns to the time at which choices begin.
    pub(super) fn settle(&mut self) {
        let mut steps = 0;
        while self.step(Micros::MAX, |effect| effect == Effect::Immediate) {
            steps += 1;
            if steps > STEPS_MAX {
                return self.fail("a choice does not end");
            }
        }
        self.ensemble.servers.world.queue.now = self.base;
    }

    /// Makes a choice. Returns `false` if an election fails.
    pub(super) fn choose(&mut self, choice: Choice) -> bool {
        self.ensemble.servers.world.random = Random::new(SEED);
        self.ensemble
            .servers
            .world
            .say("choice", || choice.to_string());
        let world = &mut self.ensemble.servers.world;
        world.queue.now = self.base;
        let mut is_done = true;
        match choice {
            Choice::Deliver { from, to, nth } => is_done = self.deliver(from, to, nth),
            Choice::Notice { at, peer } => {
                is_done = self.step(Micros::MAX, |effect| {
                    matches!(effect, Effect::End { at: a, peer: b, .. } if (a, b) == (at, peer))
                });
            }
            Choice::Dial { from, to } => {
                let is_it = |effect: Effect| matches!(effect, Effect::Dial { from: a, to: b, .. } if (a, b) == (from, to));
                is_done = self.step(Micros::MAX, is_it);
                while self.step(Micros::MAX, is_it) {}
            }
            Choice::CompleteLog(at) => is_done = self.complete(at, false),
            Choice::CompleteSnapshot(at) => is_done = self.complete(at, true),
            Choice::Propose(at) => self.propose(at),
            Choice::StartSnapshot(at) => self.start_snapshot(at),
            Choice::Elect(among) => is_done = self.elect(among),
            Choice::TimeOut(at) => self.time_out(at),
            Choice::Kill(at) => self.crash(at, false),
            Choice::LosePower(at) => self.crash(at, true),
            Choice::Restart(at) => self.ensemble.start(at.into()),
        }
        self.settle();
        is_done
    }

    fn deliver(&mut self, from: u8, to: u8, nth: u8) -> bool {
        let is_way = |effect: Effect| match effect {
            Effect::Message {
                connection,
                from: a,
                to: b,
            } if (a, b) == (from, to) => Some(connection),
            _ => None,
        };
        let pending = self.ensemble.servers.world.queue.pending();
        let mut connections: Vec<u64> = pending
            .filter_map(|event| is_way(self.effect_of(event)))
            .collect();
        connections.sort_unstable();
        let Some(wanted) = connections.get(usize::from(nth)).copied() else {
            return false;
        };
        self.step(Micros::MAX, |effect| is_way(effect) == Some(wanted))
    }

    pub(super) fn complete(&mut self, at: u8, is_snapshot: bool) -> bool {
        let wanted = Effect::Disk { at, is_snapshot };
        self.step(Micros::MAX, |effect| effect == wanted)
    }

    fn propose(&mut self, at: u8) {
        self.left.transactions -= 1;
        self.proposed += 1;
        let request = SetDataRequest {
            path: Some("/n".into()),
            data: Some(self.proposed.to_string().into_bytes().into()),
            version: -1,
        };
        self.write(at, WriteRequest::SetData(request));
    }

    fn start_snapshot(&mut self, at: u8) {
        self.left.snapshots -= 1;
        let Some(process) = self.process(at).map(|server| server.host.process) else {
            return;
        };
        self.ensemble.with(process, |server| {
            server.host.request_snapshot(SnapshotReason::Operator);
        });
        self.complete(at, true);
    }

    /// Lets these servers communicate until all of them have a role.
    fn elect(&mut self, among: u8) -> bool {
        self.left.elections -= 1;
        let end = self.base + WAIT;
        let mut looking = self.looking() & among;
        while looking != 0
            && self.step(end, |effect| match effect {
                Effect::Immediate => true,
                Effect::Election(ends) => ends & !among == 0,
                Effect::Deadline(at) => looking >> at & 1 == 1,
                _ => false,
            })
        {
            looking = self.looking() & among;
        }
        self.base += 2 * WAIT;
        looking == 0
    }

    /// Ends a process. Its peers may learn of this before they have received everything.
    fn crash(&mut self, at: u8, loses_power: bool) {
        self.left.crashes -= 1;
        self.end_process(at, loses_power);
    }

    pub(super) fn end_process(&mut self, at: u8, loses_power: bool) {
        self.disconnect(at);
        let machine = &mut self.ensemble.servers.machines[usize::from(at)];
        machine.process = None;
        machine.disk.process_ends();
        if loses_power {
            machine.disk = machine.disk.synced_only();
        }
    }

    /// Removes a process from the network. What it has sent still arrives.
    pub(super) fn disconnect(&mut self, at: u8) {
        let Some(process) = self.process(at).map(|server| server.host.process) else {
            return;
        };
        let World { network, queue, .. } = &mut self.ensemble.servers.world;
        for (connection, end) in network.of(process.into()) {
            network.vanish(connection, end);
            let end = 1 - end;
            queue.after(0, Event::Broken { connection, end });
        }
    }

    /// Ends all connections of a server, and lets time pass for it until its role ends.
    fn time_out(&mut self, at: u8) {
        self.left.timeouts -= 1;
        let world = &mut self.ensemble.servers.world;
        let all = world.network.connections();
        let own = all.filter_map(|(number, connection)| {
            let is_own = |end: usize| connection.ends[end].server() == Some(at.into());
            let end = (0..2).find(|end| is_own(*end))?;
            let is_member = matches!(connection.port, Port::Members(_));
            (is_member && connection.is_open[end]).then_some((number, end))
        });
        let own: Vec<(u64, usize)> = own.collect();
        for (connection, end) in own {
            for end in [end, 1 - end] {
                world.queue.after(0, Event::Broken { connection, end });
            }
        }
        let end = self.base + WAIT;
        while self.process(at).is_some_and(|server| !is_looking(server))
            && self.step(end, |effect| match effect {
                Effect::Immediate => true,
                Effect::End { at: end, .. } => end == at,
                Effect::Deadline(of) => of == at,
                _ => false,
            })
        {}
        self.base += 2 * WAIT;
    }
}
