//! Election and links together: servers that find each other over simulated connections.
//!
//! A dial takes time and fails without a listener. Messages on a connection keep their order. A
//! stopped process closes its connections. The simulation does not repeat messages: if election and
//! links did not fit together, votes would be lost, and the election would fail.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use proto::hello::{Endpoint, Hello, HelloAddresses};
use proto::notification::{Notification, PeerState};
use proto::quorum::Majority;
use proto::{Epoch, Sid, Zxid};
use zoarium_election::links::{ConnectionId, LinkAction, Links};
use zoarium_election::{Action, Candidate, Election, Electorate, Role, Settings};

struct Host {
    election: Election,
    links: Links,
}

enum Event {
    Dialled {
        sid: Sid,
        connection: ConnectionId,
    },
    DialFailed {
        sid: Sid,
    },
    Hello {
        from: Sid,
        connection: ConnectionId,
    },
    Message {
        connection: ConnectionId,
        notification: Notification,
    },
    Closed {
        connection: ConnectionId,
    },
}

#[derive(Default)]
struct Mesh {
    hosts: BTreeMap<Sid, Host>,
    events: BTreeMap<(i64, u64), (Sid, Event)>,
    /// Both ends: the owner, and the number of the other end.
    ends: BTreeMap<ConnectionId, (Sid, ConnectionId)>,
    /// The kept connections with their servers.
    kept: BTreeMap<ConnectionId, Sid>,
    next: u64,
    now_ms: i64,
    delay_ms: i64,
    servers: i64,
    dials: usize,
}

impl Mesh {
    fn new(servers: i64, delay_ms: i64) -> Self {
        Self {
            servers,
            delay_ms,
            ..Self::default()
        }
    }

    fn sids(&self) -> impl Iterator<Item = Sid> + use<> {
        (1..=self.servers).map(Sid)
    }

    fn start(&mut self, sid: Sid) {
        let electorate =
            Electorate::new(Majority::new(self.sids()), Default::default(), Bytes::new());
        let candidate = Candidate {
            zxid: Some(Zxid(0)),
            peer_epoch: Epoch(0),
        };
        let (role, settings) = (Role::Participant, Settings::default());
        let host = Host {
            election: Election::new(sid, role, settings, electorate, candidate),
            links: Links::new(sid, self.sids().collect()),
        };
        self.hosts.insert(sid, host);
        self.drive(sid, &|host, now_ms, out| {
            host.election.start(candidate, now_ms, out);
        });
    }

    fn look_again(&mut self, sid: Sid, zxid: i64) {
        let candidate = Candidate {
            zxid: Some(Zxid(zxid)),
            peer_epoch: Epoch(1),
        };
        self.drive(sid, &|host, now_ms, out| {
            host.election.start(candidate, now_ms, out);
        });
    }

    fn crash(&mut self, sid: Sid) {
        self.hosts.remove(&sid);
        self.events.retain(|_, (to, _)| *to != sid);
        let mine = self.ends.iter().filter(|(_, (owner, _))| *owner == sid);
        let connections: Vec<ConnectionId> = mine.map(|(connection, _)| *connection).collect();
        connections
            .into_iter()
            .for_each(|connection| self.close(connection));
    }

    /// Closes one end. The other end is informed.
    fn close(&mut self, connection: ConnectionId) {
        self.kept.remove(&connection);
        if let Some((_, other)) = self.ends.remove(&connection)
            && let Some((owner, _)) = self.ends.get(&other)
        {
            let closed = Event::Closed { connection: other };
            self.later(*owner, closed);
        }
    }

    fn later(&mut self, to: Sid, event: Event) {
        self.next += 1;
        let key = (self.now_ms + self.delay_ms, self.next);
        self.events.insert(key, (to, event));
    }

    fn run(&mut self, ms: i64) {
        let end_ms = self.now_ms + ms;
        loop {
            let deadlines = self.hosts.iter().flat_map(|(sid, host)| {
                let both = [host.election.next_deadline(), host.links.next_deadline()];
                both.into_iter().flatten().map(|at_ms| (at_ms, *sid))
            });
            let deadline = deadlines.min();
            let event_ms = self.events.first_key_value().map(|((at_ms, _), _)| *at_ms);
            let next_ms = deadline
                .map(|(at_ms, _)| at_ms)
                .into_iter()
                .chain(event_ms)
                .min();
            let Some(next_ms) = next_ms.filter(|next_ms| *next_ms <= end_ms) else {
                break;
            };
            self.now_ms = self.now_ms.max(next_ms);
            if event_ms == Some(next_ms) {
                if let Some((_, (sid, event))) = self.events.pop_first() {
                    self.happen(sid, event);
                }
            } else if let Some((_, sid)) = deadline {
                self.drive(sid, &|host, now_ms, out| {
                    host.election.handle_deadline(now_ms, out);
                });
                self.link(sid, &|links, now_ms, out| {
                    links.handle_deadline(now_ms, out);
                });
            }
        }
        self.now_ms = end_ms;
    }

    fn happen(&mut self, sid: Sid, event: Event) {
        match event {
            Event::Dialled {
                sid: to,
                connection,
            } => {
                self.link(sid, &|links, now_ms, out| {
                    links.handle_dialled(to, connection, now_ms, out);
                });
            }
            Event::DialFailed { sid: to } => {
                self.link(sid, &|links, now_ms, _| {
                    links.handle_dial_failed(to, now_ms);
                });
            }
            Event::Hello { from, connection } => {
                let endpoint = Endpoint {
                    host: format!("server-{from}"),
                    port: 3888,
                };
                let hello = Hello {
                    sid: from,
                    addresses: HelloAddresses::One(vec![endpoint]),
                };
                self.link(sid, &|links, _, out| {
                    links.handle_hello(connection, &hello, out);
                });
            }
            Event::Message {
                connection,
                notification,
            } => {
                if let Some(from) = self.kept.get(&connection).copied() {
                    let heard = notification.into();
                    self.drive(sid, &|host, now_ms, out| {
                        host.election.handle_notification(from, &heard, now_ms, out);
                    });
                }
            }
            Event::Closed { connection } => {
                self.ends.remove(&connection);
                self.kept.remove(&connection);
                self.link(sid, &|links, _, out| links.handle_closed(connection, out));
            }
        }
    }

    fn drive(&mut self, sid: Sid, step: &dyn Fn(&mut Host, i64, &mut Vec<Action>)) {
        let (now_ms, mut out) = (self.now_ms, Vec::new());
        if let Some(host) = self.hosts.get_mut(&sid) {
            step(host, now_ms, &mut out);
        }
        for action in out {
            match action {
                Action::Send { to, notification } if to == sid => {
                    let heard = notification.into();
                    self.drive(sid, &|host, now_ms, out| {
                        host.election.handle_notification(sid, &heard, now_ms, out);
                    });
                }
                Action::Send { to, notification } => self.link(sid, &|links, now_ms, out| {
                    links.send(to, notification.clone(), now_ms, out);
                }),
                _ => {}
            }
        }
    }

    fn link(&mut self, sid: Sid, step: &dyn Fn(&mut Links, i64, &mut Vec<LinkAction>)) {
        let (now_ms, mut out) = (self.now_ms, Vec::new());
        if let Some(host) = self.hosts.get_mut(&sid) {
            step(&mut host.links, now_ms, &mut out);
        }
        for action in out {
            match action {
                LinkAction::Dial { sid: to, .. } => self.dial(sid, to),
                LinkAction::Keep {
                    connection,
                    sid: peer,
                } => {
                    self.kept.insert(connection, peer);
                    self.drive(sid, &|host, _, out| host.election.handle_peer_up(peer, out));
                }
                LinkAction::Close { connection, .. } => self.close(connection),
                LinkAction::Down { sid: peer } => {
                    self.drive(sid, &|host, now_ms, out| {
                        host.election.handle_peer_down(peer, now_ms, out);
                    });
                }
                LinkAction::Write {
                    connection,
                    notification,
                } => {
                    if let Some((_, other)) = self.ends.get(&connection).copied()
                        && let Some((owner, _)) = self.ends.get(&other).copied()
                    {
                        let connection = other;
                        self.later(
                            owner,
                            Event::Message {
                                connection,
                                notification,
                            },
                        );
                    }
                }
            }
        }
    }

    fn dial(&mut self, from: Sid, to: Sid) {
        self.dials += 1;
        if !self.hosts.contains_key(&to) {
            return self.later(from, Event::DialFailed { sid: to });
        }
        self.next += 2;
        let (ours, theirs) = (ConnectionId(self.next), ConnectionId(self.next + 1));
        self.next += 2;
        self.ends.insert(ours, (from, theirs));
        self.ends.insert(theirs, (to, ours));
        self.later(
            to,
            Event::Hello {
                from,
                connection: theirs,
            },
        );
        self.later(
            from,
            Event::Dialled {
                sid: to,
                connection: ours,
            },
        );
    }

    /// Simplified Zab: a follower of a server that does not lead looks for a leader again. A leader
    /// with too few followers does, too.
    fn supervise(&mut self) {
        let state = |sid: Sid| self.hosts.get(&sid).map(|host| host.election.state());
        let leader_of = |host: &Host| host.election.published().leader;
        let idle = |(sid, host): (&Sid, &Host)| {
            let with = |other: &&Host| leader_of(other) == *sid;
            let followers = self.hosts.values().filter(with).count();
            let holds = match host.election.state() {
                PeerState::Looking => true,
                PeerState::Leading => 2 * followers > self.hosts.len(),
                _ => state(leader_of(host)) == Some(PeerState::Leading),
            };
            (!holds).then_some(*sid)
        };
        let idle: Vec<Sid> = self.hosts.iter().filter_map(idle).collect();
        idle.into_iter().for_each(|sid| self.look_again(sid, 0));
    }

    /// Returns the leader, if all running servers agree on it.
    fn leader(&self) -> Option<Sid> {
        let mut leaders = self.hosts.values().map(|host| {
            let is_settled = host.election.state() != PeerState::Looking;
            is_settled.then(|| host.election.published().leader)
        });
        let first = leaders.next()??;
        leaders.all(|leader| leader == Some(first)).then_some(first)
    }

    fn connections(&self) -> usize {
        self.kept.len() / 2
    }
}

#[test]
fn three_servers_find_each_other_lose_their_leader_and_take_it_back() {
    let mut mesh = Mesh::new(3, 2);
    mesh.start(Sid(1));
    mesh.run(5000);
    mesh.start(Sid(2));
    mesh.run(1000);
    assert_eq!(mesh.leader(), Some(Sid(2)));
    mesh.start(Sid(3));
    mesh.run(1000);
    assert_eq!((mesh.leader(), mesh.connections()), (Some(Sid(2)), 3));
    mesh.crash(Sid(2));
    mesh.look_again(Sid(1), 5);
    mesh.look_again(Sid(3), 5);
    mesh.run(1000);
    assert_eq!((mesh.leader(), mesh.connections()), (Some(Sid(3)), 1));
    mesh.start(Sid(2));
    mesh.run(1000);
    assert_eq!((mesh.leader(), mesh.connections()), (Some(Sid(3)), 3));
}

#[test]
fn a_server_that_is_down_is_dialled_with_pauses() {
    let mut mesh = Mesh::new(3, 1);
    mesh.start(Sid(3));
    mesh.run(60_000);
    // Two servers, five quick dials each, then one every five seconds.
    assert!((10..=36).contains(&mesh.dials), "{}", mesh.dials);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// In any order and at any speed of their start, servers end with one leader, and one
    /// connection for each pair that communicated.
    #[test]
    fn servers_find_each_other(
        servers in 3..=7i64,
        order in Just((1..=7i64).collect::<Vec<_>>()).prop_shuffle(),
        pauses in prop::collection::vec(0..700i64, 7),
        delay_ms in 0..40i64,
    ) {
        let mut mesh = Mesh::new(servers, delay_ms);
        let order = order.into_iter().filter(|sid| *sid <= servers);
        for (sid, pause_ms) in order.zip(pauses) {
            mesh.start(Sid(sid));
            mesh.run(pause_ms);
        }
        for _ in 0..20 {
            mesh.run(1000);
            mesh.supervise();
        }
        prop_assert!(mesh.leader().is_some());
        let pairs = servers * (servers - 1) / 2;
        let connections = i64::try_from(mesh.connections()).expect("few");
        prop_assert!(connections <= pairs, "{} of {}", connections, pairs);
        // The limit covers a knock and a call per pair, and dials that failed.
        let dials = i64::try_from(mesh.dials).expect("few");
        prop_assert!(dials <= pairs * 12, "{} dials of {} pairs", dials, pairs);
    }
}
