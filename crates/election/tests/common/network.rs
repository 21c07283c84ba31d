//! A few servers on a simulated clock and network, with one seed.
//!
//! Every message has its own delay, so messages overtake each other. A lost message closes the
//! connection: both sides see it close and reopen. Hosts are simplified: a follower of a server
//! that does not lead looks for a leader again. A leader with too few followers does, too.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use fastrand::Rng;
use proto::notification::{Notification, PeerState};
use proto::quorum::{Majority, QuorumVerifier};
use proto::{ElectionRound, Sid};
use zoarium_election::{Action, Candidate, Election, Electorate, Role, Settings, Vote};

/// Time for which a role may lack its counterpart.
const PATIENCE_MS: i64 = 1000;

/// Faults of the network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weather {
    /// Maximum delay of a message.
    pub(crate) delay_max_ms: i64,
    /// Lost messages, in percent.
    pub(crate) lost_percent: i64,
}

#[derive(Debug)]
enum Event {
    Start,
    Message(Sid, Notification),
    Up(Sid),
    /// The host checks whether its role is still valid.
    Check(u64),
}

struct Server {
    candidate: Candidate,
    election: Election,
    is_running: bool,
    /// Number of the role, so that a check applies to the intended role.
    role: u64,
}

/// A role that a server took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decision {
    pub(crate) sid: Sid,
    pub(crate) state: PeerState,
    pub(crate) vote: Vote,
    pub(crate) round: ElectionRound,
}

/// The servers, and the events in flight.
pub(crate) struct Network {
    voters: Majority,
    servers: BTreeMap<Sid, Server>,
    events: BTreeMap<(i64, u64), (Sid, Event)>,
    cuts: BTreeSet<(Sid, Sid)>,
    random: Rng,
    next_event: u64,
    pub(crate) now_ms: i64,
    pub(crate) weather: Weather,
    pub(crate) decisions: Vec<Decision>,
    pub(crate) messages: usize,
    /// Every candidate that each server has voted for or followed, with the round.
    said: BTreeSet<(Sid, Sid, ElectionRound)>,
}

impl Network {
    pub(crate) fn new(candidates: &[Candidate], weather: Weather, seed: u64) -> Self {
        let sids = || (1..).map(Sid).take(candidates.len());
        let voters = Majority::new(sids());
        let server = |(me, candidate): (Sid, &Candidate)| {
            let electorate = Electorate::new(voters.clone(), Default::default(), Bytes::new());
            let (role, settings) = (Role::Participant, Settings::default());
            let server = Server {
                candidate: *candidate,
                election: Election::new(me, role, settings, electorate, *candidate),
                is_running: true,
                role: 0,
            };
            (me, server)
        };
        Self {
            servers: sids().zip(candidates).map(server).collect(),
            voters: voters.clone(),
            events: BTreeMap::new(),
            cuts: BTreeSet::new(),
            random: Rng::with_seed(seed),
            next_event: 0,
            now_ms: 0,
            weather,
            decisions: Vec::new(),
            messages: 0,
            said: BTreeSet::new(),
        }
    }

    pub(crate) fn start(&mut self, sid: Sid, in_ms: i64) {
        self.later(in_ms, sid, Event::Start);
    }

    /// Stops a server. Messages to and from it are lost.
    pub(crate) fn crash(&mut self, sid: Sid) {
        self.events.retain(|_, (to, event)| {
            let from_it = matches!(event, Event::Message(from, _) if *from == sid);
            *to != sid && !from_it
        });
        if let Some(server) = self.servers.get_mut(&sid) {
            server.is_running = false;
            server.role += 1;
        }
        let now_ms = self.now_ms;
        for server in self.servers.values_mut() {
            server.// What it sends goes nowhere.
 election.handle_peer_down(sid, now_ms, &mut Vec::new());
        }
    }

    /// Starts a new process with unchanged data.
    pub(crate) fn restart(&mut self, sid: Sid) {
        let Some(server) = self
            .servers
            .get_mut(&sid)
            .filter(|server| !server.is_running)
        else {
            return;
        };
        let voters = self.voters.clone();
        let electorate = Electorate::new(voters, Default::default(), Bytes::new());
        let (role, settings, candidate) =
            (Role::Participant, Settings::default(), server.candidate);
        server.election = Election::new(sid, role, settings, electorate, candidate);
        server.is_running = true;
        let others: Vec<Sid> = self.servers.keys().copied().collect();
        for other in others {
            self.reconnect(sid, other);
        }
        self.start(sid, 0);
    }

    pub(crate) fn cut(&mut self, one: Sid, other: Sid) {
        self.cuts.insert((one.min(other), one.max(other)));
        let now_ms = self.now_ms;
        for (sid, gone) in [(one, other), (other, one)] {
            if let Some(server) = self.servers.get_mut(&sid) {
                server.// What it sends goes nowhere.
 election.handle_peer_down(gone, now_ms, &mut Vec::new());
            }
        }
    }

    /// Removes all cuts, and starts every server.
    pub(crate) fn heal(&mut self) {
        for (one, other) in std::mem::take(&mut self.cuts) {
            self.reconnect(one, other);
        }
        let all: Vec<Sid> = self.servers.keys().copied().collect();
        all.into_iter().for_each(|sid| self.restart(sid));
    }

    fn reconnect(&mut self, one: Sid, other: Sid) {
        if one != other && self.is_linked(one, other) {
            self.later(1, one, Event::Up(other));
            self.later(1, other, Event::Up(one));
        }
    }

    fn is_linked(&self, one: Sid, other: Sid) -> bool {
        let runs = |sid| {
            self.servers
                .get(&sid)
                .is_some_and(|server| server.is_running)
        };
        runs(one) && runs(other) && !self.cuts.contains(&(one.min(other), one.max(other)))
    }

    fn later(&mut self, in_ms: i64, to: Sid, event: Event) {
        self.next_event += 1;
        let key = (self.now_ms + in_ms, self.next_event);
        self.events.insert(key, (to, event));
    }

    /// Advances the clock.
    pub(crate) fn run(&mut self, ms: i64) {
        let end_ms = self.now_ms + ms;
        loop {
            let running = self.servers.iter().filter(|(_, server)| server.is_running);
            let deadlines = running.filter_map(|(sid, server)| {
                let deadline_ms = server.election.next_deadline()?;
                Some((deadline_ms, *sid))
            });
            let deadline = deadlines.min();
            let event_ms = self.events.first_key_value().map(|((at_ms, _), _)| *at_ms);
            match (deadline, event_ms) {
                (Some((at_ms, sid)), other) if other.is_none_or(|other| at_ms < other) => {
                    if at_ms > end_ms {
                        break;
                    }
                    self.now_ms = self.now_ms.max(at_ms);
                    self.drive(sid, |election, now_ms, out| {
                        election.handle_deadline(now_ms, out);
                    });
                }
                (_, Some(at_ms)) if at_ms <= end_ms => {
                    self.now_ms = self.now_ms.max(at_ms);
                    if let Some((_, (sid, event))) = self.events.pop_first() {
                        self.happen(sid, event);
                    }
                }
                _ => break,
            }
        }
        self.now_ms = end_ms;
    }

    fn happen(&mut self, sid: Sid, event: Event) {
        match event {
            Event::Start => {
                let Some(server) = self.servers.get_mut(&sid) else {
                    return;
                };
                server.role += 1;
                let candidate = server.candidate;
                self.drive(sid, |election, now_ms, out| {
                    election.start(candidate, now_ms, out);
                });
            }
            Event::Message(from, notification) => {
                if from == sid || self.is_linked(from, sid) {
                    let heard = notification.into();
                    self.drive(sid, |election, now_ms, out| {
                        election.handle_notification(from, &heard, now_ms, out);
                    });
                }
            }
            Event::Up(peer) if self.is_linked(sid, peer) => {
                self.drive(sid, |election, _, out| election.handle_peer_up(peer, out));
            }
            Event::Up(_) => {}
            Event::Check(role) => self.check(sid, role),
        }
    }

    fn check(&mut self, sid: Sid, role: u64) {
        let server = self.servers.get(&sid).filter(|server| server.role == role);
        let Some(server) = server else {
            return;
        };
        let leader = server.election.published().leader;
        let follows = |other: Sid| {
            let peer = &self.servers[&other];
            other == sid
                || (self.is_linked(sid, other)
                    && peer.election.state() == PeerState::Following
                    && peer.election.published().leader == sid)
        };
        let holds = match server.election.state() {
            PeerState::Leading => self.voters.is_quorum(&follows),
            _ => {
                self.is_linked(sid, leader)
                    && self.servers[&leader].election.state() == PeerState::Leading
            }
        };
        if holds {
            self.later(PATIENCE_MS, sid, Event::Check(role));
        } else {
            self.start(sid, 0);
        }
    }

    fn drive(&mut self, sid: Sid, step: impl FnOnce(&mut Election, i64, &mut Vec<Action>)) {
        let (now_ms, mut out) = (self.now_ms, Vec::new());
        match self.servers.get_mut(&sid) {
            Some(server) if server.is_running => step(&mut server.election, now_ms, &mut out),
            _ => return,
        }
        for action in out {
            match action {
                Action::Send { to, notification } => self.send(sid, to, notification),
                Action::Elected { state, vote, round } => {
                    let decision = Decision {
                        sid,
                        state,
                        vote,
                        round,
                    };
                    self.judge(&decision);
                    self.decisions.push(decision);
                    let server = self.servers.get_mut(&sid).expect("it runs");
                    server.role += 1;
                    let role = server.role;
                    self.later(PATIENCE_MS, sid, Event::Check(role));
                }
                Action::SupporterLooks { .. } => {}
                other => panic!("{sid}: {other}"),
            }
        }
    }

    fn send(&mut self, from: Sid, to: Sid, notification: Notification) {
        self.said
            .insert((from, notification.leader, notification.round));
        if from == to {
            return self.later(0, to, Event::Message(from, notification));
        }
        self.messages += 1;
        if !self.is_linked(from, to) {
            return;
        }
        if self.random.i64(0..100) < self.weather.lost_percent {
            for (sid, peer) in [(from, to), (to, from)] {
                let in_ms = self.random.i64(0..=self.weather.delay_max_ms);
                self.later(in_ms, sid, Event::Up(peer));
            }
            return;
        }
        let in_ms = self.random.i64(0..=self.weather.delay_max_ms);
        self.later(in_ms, to, Event::Message(from, notification));
    }

    /// Checks that a quorum really voted for a decision, in its round.
    fn judge(&self, decision: &Decision) {
        let leader = decision.vote.leader;
        let said = |sid| self.said.contains(&(sid, leader, decision.round));
        let anywhere = |sid: Sid| {
            self.said
                .iter()
                .any(|(from, of, _)| (*from, *of) == (sid, leader))
        };
        let is_in_round = self.voters.is_quorum(&said);
        assert!(
            self.voters.is_quorum(&anywhere),
            "no quorum behind {decision:?}"
        );
        // The server joined an ensemble whose members have different rounds.
        let joins = decision.state == PeerState::Following && said(leader);
        assert!(
            is_in_round || joins,
            "no quorum in the round of {decision:?}"
        );
        let leads = decision.state == PeerState::Leading;
        assert_eq!(leads, leader == decision.sid);
    }

    /// Returns the leader, if every running server agrees on it.
    pub(crate) fn agreed_leader(&self) -> Option<Sid> {
        let running = self.servers.values().filter(|server| server.is_running);
        let leaders: BTreeSet<Option<Sid>> = running
            .map(|server| {
                let is_settled = server.election.state() != PeerState::Looking;
                is_settled.then(|| server.election.published().leader)
            })
            .collect();
        let leader = leaders.first().copied().flatten()?;
        let leads = self.servers[&leader].election.state() == PeerState::Leading;
        (leaders.len() == 1 && leads).then_some(leader)
    }
}
