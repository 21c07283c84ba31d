//! Elections, connections, and the begin and end of roles.
//!
//! The driver decides each election: it gives a server the votes after which the server leads, or
//! follows. Real votes do not arrive.

use proto::notification::{Form, Notification, PeerState};
use proto::{ElectionRound, Epoch};
use simulation::configured::sid_of;
use simulation::network::Port;
use simulation::queue::MS;

use super::compare::Compared;
use super::driver::{Driver, done};
use super::packets::{self, Item, LEADER, LEARNER};
use crate::explorer::stage::{SERVERS, WAIT};
use crate::explorer::waiting::{Effect, is_looking, number};
use crate::simulated::{Event, World};

/// Number of elections after which a server should have a role.
const ELECTIONS: usize = 5;

fn others(at: usize) -> impl Iterator<Item = usize> {
    (0..usize::from(SERVERS)).filter(move |peer| *peer != at)
}

impl Driver {
    /// Starts a process.
    pub(super) fn start(&mut self, at: usize) {
        self.stage.ensemble.start(at);
        let process = self
            .stage
            .ensemble
            .process(at)
            .map(|server| server.host.process);
        if let Some(process) = process {
            self.stage.ensemble.with(process, |server| {
                for peer in others(at) {
                    server.host.meet(peer);
                }
            });
        }
        self.settle();
    }

    /// Removes everything that belongs to real elections.
    pub(super) fn drop_election_events(&mut self) {
        let mut queue = std::mem::take(&mut self.stage.ensemble.servers.world.queue);
        let now = queue.now;
        while let Some(event) = queue.take(i64::MAX, |event| {
            matches!(self.stage.effect_of(event), Effect::Election(_))
        }) {
            if let Event::Dialled { connection } = event {
                self.stage.ensemble.servers.world.network.forget(connection);
            }
        }
        queue.now = now;
        self.stage.ensemble.servers.world.queue = queue;
    }

    /// Makes a server lead, or follow a leader.
    pub(super) fn elect(&mut self, at: usize, leader: usize) -> Compared {
        for _ in 0..ELECTIONS {
            self.round += 1;
            let Some(server) = self.stage.ensemble.process(at) else {
                break;
            };
            let Some(candidate) = server.replica.candidate() else {
                break;
            };
            // The server votes for itself, or for a leader with a later epoch.
            let later = i64::from(leader != at);
            let vote = Notification {
                state: PeerState::Looking,
                leader: sid_of(leader),
                zxid: candidate.zxid.unwrap_or_default(),
                round: ElectionRound(self.round),
                peer_epoch: Epoch(candidate.peer_epoch.0 + later),
                form: Form::WithoutConfig { unread: 0 },
            };
            let process = server.host.process;
            self.stage.ensemble.with(process, |server| {
                for peer in others(at) {
                    server.host.hear_vote(peer, vote.clone());
                }
            });
            self.wait(at);
            if !self.is_looking(at) {
                return Ok(());
            }
        }
        Err("the server does not decide".to_owned())
    }

    pub(super) fn is_looking(&self, at: usize) -> bool {
        self.stage.ensemble.process(at).is_some_and(is_looking)
    }

    /// Lets time pass for a server until it begins or ends a role.
    fn wait(&mut self, at: usize) {
        let (end, begun) = (self.stage.base + WAIT, self.is_looking(at));
        while self.is_looking(at) == begun
            && self.stage.step(end, |effect| match effect {
                Effect::Immediate => true,
                Effect::Deadline(of) => of == number(at),
                _ => false,
            })
        {
            self.drop_election_events();
        }
        let now = self.stage.ensemble.servers.world.now();
        self.stage.base = self.stage.base.max(now) + MS;
        self.settle();
    }

    /// Connects a learner to its leader.
    pub(super) fn dial(&mut self, at: usize, leader: usize) -> Compared {
        while self.stage.step(i64::MAX, is_dial(at, leader)) {
            self.settle();
        }
        done(self.open(at, leader, LEARNER).is_some(), "the dial fails")
    }

    /// Makes the dial of a learner fail.
    pub(super) fn fail_dial(&mut self, at: usize, leader: usize) {
        self.stage.ensemble.servers.world.network.cut(at, leader);
        while self.stage.step(i64::MAX, is_dial(at, leader)) {
            self.stage.settle();
        }
        let World { network, queue, .. } = &mut self.stage.ensemble.servers.world;
        network.heal(queue);
        self.settle();
    }

    /// Removes the dials of a process that has ended.
    pub(super) fn drop_dials(&mut self, at: usize) {
        let mut queue = std::mem::take(&mut self.stage.ensemble.servers.world.queue);
        let now = queue.now;
        while let Some(event) = queue.take(i64::MAX, |event| {
            matches!(self.stage.effect_of(event), Effect::Dial { from, .. } if from == number(at))
        }) {
            if let Event::Dialled { connection } = event {
                self.stage.ensemble.servers.world.network.forget(connection);
            }
        }
        queue.now = now;
        self.stage.ensemble.servers.world.queue = queue;
    }

    /// Returns the oldest connection between a learner and a leader that is open at this end.
    fn open(&self, learner: usize, leader: usize, end: usize) -> Option<u64> {
        let mut all = self.stage.ensemble.servers.world.network.connections();
        let found = all.find(|(_, connection)| {
            let ends = connection.ends.map(|end| end.server());
            let is_member = matches!(connection.port, Port::Members(_));
            is_member && ends == [Some(learner), Some(leader)] && connection.is_open[end]
        });
        found.map(|(number, _)| number)
    }

    /// Breaks a connection at one end. The other end learns of this later.
    fn break_at(&mut self, connection: u64, end: usize) {
        let world = &mut self.stage.ensemble.servers.world;
        let is_open = world
            .network
            .get(connection)
            .map_or([false; 2], |it| it.is_open);
        world.queue.after(0, Event::Broken { connection, end });
        let Some(at) = world
            .network
            .get(connection)
            .and_then(|it| it.ends[end].server())
        else {
            return;
        };
        self.stage.step(i64::MAX, |effect| {
            matches!(effect, Effect::End { connection: of, at: to, .. } if (of, to) == (connection, number(at)))
        });
        if is_open[1 - end] {
            let event = Event::Broken {
                connection,
                end: 1 - end,
            };
            self.stage.ensemble.servers.world.queue.after(0, event);
        }
        self.settle();
    }

    pub(super) fn break_as_learner(&mut self, at: usize, leader: usize) -> Compared {
        let connection = self.open(at, leader, LEARNER);
        if let Some(connection) = connection {
            self.break_at(connection, LEARNER);
        }
        done(connection.is_some(), "the learner has no connection")
    }

    pub(super) fn drop_learner(&mut self, at: usize, learner: usize) -> Compared {
        let connection = self.open(learner, at, LEADER);
        if let Some(connection) = connection {
            self.break_at(connection, LEADER);
        }
        done(connection.is_some(), "the leader has no connection")
    }

    /// Ends the role of a leader that has lost all its connections.
    pub(super) fn step_down(&mut self, at: usize) -> Compared {
        for learner in others(at) {
            while let Some(connection) = self.open(learner, at, LEADER) {
                self.break_at(connection, LEADER);
            }
        }
        self.wait(at);
        self.finish_log_work(at)?;
        done(self.is_looking(at), "the leader does not step down")
    }

    /// Closes the leaders' ends of connections on which a server that has left introduces itself. In
    /// the model, such an introduction does not arrive.
    pub(super) fn drop_introductions(&mut self, at: usize) {
        for leader in others(at) {
            for (connection, sender) in self.ways(at, leader) {
                let network = &self.stage.ensemble.servers.world.network;
                let is_introduction = |item: &Item| match item {
                    Item::Packet(Some(packet), _) => packet.of(0).word() == "FOLLOWERINFO",
                    _ => false,
                };
                let items = network
                    .get(connection)
                    .map(|of| packets::in_flight(of, sender));
                if sender == LEARNER && items.into_iter().flatten().any(|it| is_introduction(&it)) {
                    self.break_at(connection, LEADER);
                }
            }
        }
    }
}

fn is_dial(at: usize, leader: usize) -> impl Fn(Effect) -> bool {
    move |effect| matches!(effect, Effect::Dial { from, to, .. } if (from, to) == (number(at), number(leader)))
}
