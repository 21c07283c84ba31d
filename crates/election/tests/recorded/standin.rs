//! A server of Zoarium in the place of a recorded one.

use std::collections::BTreeSet;

use proto::notification::{Notification, PeerState};
use proto::{ConfigVersion, ElectionRound, Epoch, Sid, Zxid};
use zoarium_election::{Action, Candidate, Election, Role, Settings, Vote};

use crate::recording::{distinct, electorate, heard, members, vote};

/// A server of Zoarium in the place of a recorded one.
pub(crate) struct Standin {
    pub(crate) me: Sid,
    pub(crate) candidate: Candidate,
    pub(crate) election: Election,
    pub(crate) sent: Vec<(Sid, Notification)>,
    pub(crate) elected: Vec<(PeerState, Vote)>,
    pub(crate) configs_seen: BTreeSet<ConfigVersion>,
}

impl Standin {
    /// Creates the server in the state in which it sent its first recorded vote.
    pub(crate) fn new(me: Sid, first: &Notification) -> Self {
        let own = vote(first);
        let is_observer = own == Vote::NOBODY;
        let role = if is_observer {
            Role::Observer
        } else {
            Role::Participant
        };
        let candidate = Candidate {
            zxid: Some(if is_observer { Zxid(0) } else { own.zxid }),
            peer_epoch: if is_observer {
                Epoch(0)
            } else {
                own.peer_epoch
            },
        };
        let settings = Settings {
            reconfig_enabled: true,
            ..Settings::default()
        };
        let election = Election::new(me, role, settings, electorate(first), candidate);
        Self {
            me,
            candidate,
            election,
            sent: Vec::new(),
            elected: Vec::new(),
            configs_seen: BTreeSet::new(),
        }
    }

    pub(crate) fn start(&mut self, now_ms: i64) {
        let mut out = Vec::new();
        self.election.start(self.candidate, now_ms, &mut out);
        self.act(out, now_ms);
    }

    /// Gives the server its role by this outcome, for which all of `others` vote.
    pub(crate) fn elect(&mut self, others: impl IntoIterator<Item = Sid>, outcome: &Notification) {
        let elected = Notification {
            state: PeerState::Looking,
            ..outcome.clone()
        };
        self.start(0);
        for peer in others {
            if peer != self.me {
                self.hear(peer, &elected, 0);
            }
        }
        self.pass(200);
        assert_eq!(self.elected.len(), 1, "server {} has a role", self.me);
    }

    pub(crate) fn pass(&mut self, until_ms: i64) {
        while let Some(due_ms) = self.election.next_deadline().filter(|due| *due <= until_ms) {
            let mut out = Vec::new();
            self.election.handle_deadline(due_ms, &mut out);
            self.act(out, due_ms);
        }
    }

    pub(crate) fn hear(&mut self, from: Sid, notification: &Notification, now_ms: i64) {
        let mut out = Vec::new();
        let heard = heard(notification);
        self.election
            .handle_notification(from, &heard, now_ms, &mut out);
        let seen = |action: &Action| matches!(action, Action::ConfigSeen { .. });
        let has_seen = out.iter().any(seen);
        self.act(out, now_ms);
        if has_seen {
            self.install(from, notification, now_ms);
        }
    }

    /// Installs a newer configuration, like a host. The election restarts only if the servers
    /// differ.
    fn install(&mut self, from: Sid, notification: &Notification, now_ms: i64) {
        let list = members(notification);
        self.configs_seen.insert(list.version);
        let electorate = electorate(notification);
        if self.election.electorate().members().voters == list.voters {
            self.election.set_electorate(electorate, now_ms);
            self.hear(from, notification, now_ms);
        } else {
            let role = Role::Participant;
            self.election.reset(role, electorate, self.candidate);
            self.start(now_ms);
        }
    }

    pub(crate) fn act(&mut self, out: Vec<Action>, now_ms: i64) {
        for action in out {
            match action {
                Action::Send { to, notification } if to == self.me => {
                    self.hear(self.me, &notification, now_ms);
                }
                Action::Send { to, notification } => self.sent.push((to, notification)),
                Action::Elected { state, vote, .. } => self.elected.push((state, vote)),
                _ => {}
            }
        }
    }

    /// Returns the votes that the stand-in sent to a peer during an election, without repeats.
    pub(crate) fn votes_to(&self, peer: Sid) -> Vec<(Vote, ElectionRound)> {
        let sent = self.sent.iter().filter(|(to, _)| *to == peer);
        distinct(sent.map(|(_, notification)| notification))
    }
}
