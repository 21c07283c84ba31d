//! Who leads: election, its connections, and the way to the leader.

use election::links::{ConnectionId, LinkAction};
use election::{Action, Election};
use proto::Sid;
use proto::hello::{Hello, HelloAddresses};
use proto::notification::{Notification, PeerState};

use super::{Role, Server};
use crate::network::{Message, Place, Port};
use crate::queue::Micros;
use crate::world::World;

/// How long a learner tries to reach the leader that it was told.
const SEEKING_MAX: Micros = 2_000_000;

impl Server {
    /// Drives the election and carries out what it says.
    pub(super) fn elect(
        &mut self,
        world: &mut World,
        step: impl FnOnce(&mut Election, i64, &mut Vec<Action>),
    ) {
        let mut out = Vec::new();
        step(&mut self.election, world.now_ms(), &mut out);
        self.election_actions(out, world);
    }

    fn election_actions(&mut self, actions: Vec<Action>, world: &mut World) {
        for action in actions {
            match action {
                Action::Send { to, notification } if to == self.sid => {
                    self.to_self.push_back(notification);
                }
                Action::Send { to, notification } => self.link(world, |links, now_ms, out| {
                    links.send(to, notification, now_ms, out);
                }),
                Action::Elected { state, vote, .. } => {
                    world.say(self.sid, || format!("elected: {state:?} {vote}"));
                    self.elected(state, vote.leader, world);
                }
                Action::SupporterLooks { .. } => {}
                Action::ConfigSeen { .. } | Action::Refused { .. } => {
                    let text = format!("server {}: {action}", self.sid);
                    world.checks.fail("one member list", text);
                }
            }
        }
    }

    fn link(
        &mut self,
        world: &mut World,
        step: impl FnOnce(&mut election::links::Links, i64, &mut Vec<LinkAction>),
    ) {
        let mut out = Vec::new();
        step(&mut self.links, world.now_ms(), &mut out);
        self.link_actions(out, world);
    }

    fn link_actions(&mut self, actions: Vec<LinkAction>, world: &mut World) {
        for action in actions {
            match action {
                LinkAction::Dial { sid, .. } => {
                    let to = Place::Server {
                        server: index_of(sid),
                        life: 0,
                    };
                    let (network, queue) = (&mut world.network, &mut world.queue);
                    network.dial(Port::Election, self.place(), to, queue);
                }
                LinkAction::Keep { connection, sid } => {
                    self.voters.insert(connection.0, sid);
                    self.elect(world, |election, _, out| election.handle_peer_up(sid, out));
                }
                LinkAction::Close { connection, .. } => {
                    self.voters.remove(&connection.0);
                    world.close(self.place(), connection.0);
                }
                LinkAction::Down { sid } => {
                    self.elect(world, |election, now_ms, _| {
                        election.handle_peer_down(sid, now_ms);
                    });
                }
                LinkAction::Write {
                    connection,
                    notification,
                } => {
                    let vote = Message::Vote(Box::new(notification));
                    world.send(self.place(), connection.0, vote);
                }
            }
        }
    }

    pub(super) fn hear_hello(&mut self, connection: u64, sid: Sid, world: &mut World) {
        let addresses = HelloAddresses::One(Vec::new());
        let hello = Hello { sid, addresses };
        self.link(world, |links, _, out| {
            links.handle_hello(ConnectionId(connection), &hello, out);
        });
    }

    pub(super) fn hear_vote(&mut self, connection: u64, vote: Notification, world: &mut World) {
        let Some(from) = self.voters.get(&connection).copied() else {
            return;
        };
        self.elect(world, |election, now_ms, out| {
            election.handle_notification(from, &vote.into(), now_ms, out);
        });
    }

    pub(super) fn election_closed(&mut self, connection: u64, world: &mut World) {
        if self.voters.remove(&connection).is_some() {
            self.link(world, |links, _, out| {
                links.handle_closed(ConnectionId(connection), out);
            });
        }
    }

    pub(super) fn election_dialled(&mut self, connection: u64, is_open: bool, world: &mut World) {
        let ends = world
            .network
            .get(connection)
            .map(|connection| connection.ends);
        let Some(server) = ends.and_then(|[_, to]| to.server()) else {
            return;
        };
        let sid = super::sid_of(server);
        if is_open {
            world.send(self.place(), connection, Message::Hello(self.sid));
            self.link(world, |links, now_ms, out| {
                links.handle_dialled(sid, ConnectionId(connection), now_ms, out);
            });
        } else {
            world.network.forget(connection);
            self.link(world, |links, now_ms, _| {
                links.handle_dial_failed(sid, now_ms);
            });
            // Behind a cut nobody answers; a host whose server is down does.
            let (me, network) = (index_of(self.sid), &world.network);
            if !network.is_cut(me, server) && !network.is_cut(server, me) {
                self.elect(world, |election, now_ms, _| {
                    election.handle_peer_refused(sid, now_ms);
                });
            }
        }
    }

    fn elected(&mut self, state: PeerState, leader: Sid, world: &mut World) {
        match state {
            PeerState::Leading => self.start_leading(world),
            PeerState::Following | PeerState::Observing => {
                self.role = Role::Seeking {
                    leader: index_of(leader),
                    since: world.now(),
                    retry_at: None,
                    connection: None,
                };
                self.seek(world);
            }
            PeerState::Looking | PeerState::Unknown(_) => {}
        }
    }

    fn seek(&mut self, world: &mut World) {
        let place = self.place();
        if let Role::Seeking {
            leader,
            connection,
            retry_at,
            ..
        } = &mut self.role
        {
            *retry_at = None;
            let to = Place::Server {
                server: *leader,
                life: 0,
            };
            let (network, queue) = (&mut world.network, &mut world.queue);
            *connection = Some(network.dial(Port::Quorum, place, to, queue));
        }
    }

    pub(super) fn quorum_dialled(&mut self, connection: u64, is_open: bool, world: &mut World) {
        let Role::Seeking {
            connection: current,
            retry_at,
            ..
        } = &mut self.role
        else {
            return world.close(self.place(), connection);
        };
        if *current != Some(connection) {
            return world.close(self.place(), connection);
        }
        if is_open {
            return self.start_learning(connection, world);
        }
        world.network.forget(connection);
        *current = None;
        *retry_at = Some(world.now() + 100_000);
    }

    pub(super) fn finding_deadlines(&mut self, world: &mut World) {
        let now_ms = world.now_ms();
        if self.election.next_deadline().is_some_and(|at| at <= now_ms) {
            self.elect(world, |election, now_ms, out| {
                election.handle_deadline(now_ms, out);
            });
        }
        if self.links.next_deadline().is_some_and(|at| at <= now_ms) {
            self.link(world, |links, now_ms, out| {
                links.handle_deadline(now_ms, out)
            });
        }
        match self.role {
            Role::Paused(until) if until <= world.now() => self.look(world),
            Role::Seeking {
                since,
                retry_at: Some(at),
                ..
            } if at <= world.now() => {
                if world.now() - since > SEEKING_MAX {
                    self.end_role("the leader cannot be reached", world);
                } else {
                    self.seek(world);
                }
            }
            _ => {}
        }
    }
}

fn index_of(sid: Sid) -> usize {
    usize::try_from(sid.0 - 1).unwrap_or(usize::MAX)
}
