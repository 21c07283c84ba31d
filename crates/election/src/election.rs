//! One server's part in every election, and what it answers in between.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proto::notification::{Form, Notification, PeerState};
use proto::{ConfigVersion, ElectionRound, Epoch, Sid, Zxid};

use crate::answers::Answers;
use crate::guard::OtherLeaders;
use crate::limits::{EARLY_MAX, LOOKER_KEPT_MS};
use crate::looking::Looking;
use crate::{Action, Ballot, Electorate, MemberList, Oracle, Vote};

/// What a server is in its own member list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Votes, if the list names it; follows or leads.
    Participant,
    /// Has no vote and is never voted for.
    Observer,
}

/// The tunables. `Default` has ZooKeeper's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// First pause before the vote is told again (`fastleader.minNotificationInterval`).
    pub notification_interval_min_ms: i64,
    /// The pause doubles up to this (`fastleader.maxNotificationInterval`).
    pub notification_interval_max_ms: i64,
    /// How long a quorum waits for a better vote (`finalizeWait`).
    pub settle_ms: i64,
    /// Whether newer member lists of others are taken over (`reconfigEnabled`).
    pub reconfig_enabled: bool,
    /// Whether a leader with another member list keeps this server from electing a second one.
    /// Ours; ZooKeeper has no such guard.
    pub membership_guard: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            notification_interval_min_ms: 200,
            notification_interval_max_ms: 60_000,
            settle_ms: 200,
            reconfig_enabled: false,
            membership_guard: true,
        }
    }
}

/// How new this server's history is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// The last zxid in the log, committed or not; `None` if the data cannot be trusted (an empty
    /// directory without its `initialize` file), in which case the server only joins an ensemble
    /// that has a leader.
    pub zxid: Option<Zxid>,
    /// The current epoch.
    pub peer_epoch: Epoch,
}

/// A notification as it came, and what the host read in its configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// The message.
    pub notification: Notification,
    /// Its member list; `None` if it has none or the text is none, which hurts nothing else.
    pub members: Option<MemberList>,
}

impl From<Notification> for Heard {
    fn from(notification: Notification) -> Self {
        let members = None;
        Self {
            notification,
            members,
        }
    }
}

/// The election of one server.
///
/// Invariants: a round that is looked in never falls (joining an ensemble takes over its round,
/// whatever it is); the proposal of a round is only ever replaced by a better one; no role is taken
/// without a quorum of ballots that agree, save at the word of an oracle.
#[derive(Debug)]
pub struct Election {
    pub(crate) me: Sid,
    pub(crate) role: Role,
    pub(crate) settings: Settings,
    pub(crate) electorate: Electorate,
    pub(crate) oracle: Option<Oracle>,
    pub(crate) round: ElectionRound,
    /// Set while the server takes part in a round.
    pub(crate) looking: Option<Looking>,
    /// The role it has; looking before the first round.
    pub(crate) state: PeerState,
    /// What is told to those who need not hear more: the outcome of the last election.
    pub(crate) published: Ballot,
    /// One ballot a voter of this round, the last (`recvset`).
    pub(crate) ballots: BTreeMap<Sid, Ballot>,
    /// One ballot a voter that does not look, the last (`outofelection`).
    pub(crate) settled: BTreeMap<Sid, Ballot>,
    /// Those whose votes made this server the leader.
    pub(crate) supporters: BTreeSet<Sid>,
    pub(crate) other_leaders: OtherLeaders,
    /// See [`Election::take_no_list_before`].
    overtaken_before: ConfigVersion,
    answers: Answers,
    /// What voters said before the first round: they do not say it again for a while.
    early: VecDeque<(Sid, Heard)>,
    /// What voters that look said last while this server had a role, and when. They have noticed
    /// first that the leader is gone, and would say it again only after their pause.
    lookers: BTreeMap<Sid, (Heard, i64)>,
    presence: BTreeMap<Sid, Presence>,
}

/// What the connections say of a voter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// There is one.
    Up,
    /// There was one.
    Lost,
    /// There was one, and where it led nobody takes connections any more.
    Gone,
}

impl Election {
    /// A server that takes part in no round yet. It answers those who have no vote.
    pub fn new(
        me: Sid,
        role: Role,
        settings: Settings,
        electorate: Electorate,
        candidate: Candidate,
    ) -> Self {
        Self {
            me,
            role,
            settings,
            electorate,
            oracle: None,
            round: ElectionRound(0),
            looking: None,
            state: PeerState::Looking,
            published: Ballot::looking(first_vote(me, candidate), ElectionRound(0)),
            ballots: BTreeMap::new(),
            settled: BTreeMap::new(),
            supporters: BTreeSet::new(),
            other_leaders: OtherLeaders::default(),
            overtaken_before: ConfigVersion::default(),
            answers: Answers::default(),
            early: VecDeque::new(),
            lookers: BTreeMap::new(),
            presence: BTreeMap::new(),
        }
    }

    /// Begins a round: at the start of the server, and whenever its role has ended.
    ///
    /// `candidate` must say what is in the log now, uncommitted transactions included.
    pub fn start(&mut self, candidate: Candidate, now_ms: i64, out: &mut Vec<Action>) {
        self.state = PeerState::Looking;
        self.round = ElectionRound(self.round.0.saturating_add(1));
        self.ballots.clear();
        self.settled.clear();
        self.supporters.clear();
        let own = self.own_vote(candidate);
        let is_trusted = candidate.zxid.is_some();
        let interval_ms = self.settings.notification_interval_min_ms.max(1);
        self.looking = Some(Looking::new(own, is_trusted, interval_ms, now_ms));
        self.tell_all(out);
        for (from, (heard, at_ms)) in std::mem::take(&mut self.lookers) {
            // Those of an older round have just been told all that they would be answered.
            let is_of_round = heard.notification.round >= self.round;
            if is_of_round && now_ms.saturating_sub(at_ms) <= LOOKER_KEPT_MS {
                self.handle_notification(from, &heard, now_ms, out);
            }
        }
        for (from, heard) in std::mem::take(&mut self.early) {
            self.handle_notification(from, &heard, now_ms, out);
        }
    }

    /// A server said something. Messages to itself come in here as well.
    ///
    /// Source: FastLeaderElection's worker receiver.
    pub fn handle_notification(
        &mut self,
        from: Sid,
        heard: &Heard,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) {
        if self.state == PeerState::Looking && self.hand_out_config(from, heard, out) {
            return;
        }
        let notification = &heard.notification;
        if self.looking.is_some() && from != self.me {
            let theirs = heard.members.as_ref();
            let others = &mut self.other_leaders;
            others.hear(from, notification, theirs, &self.electorate, now_ms);
        }
        if self.role == Role::Observer && self.has_older_list(heard) {
            self.tell_list(from, now_ms, out);
        }
        if !self.electorate.is_voter(from) {
            // At once and whatever it does: this may be all that it ever hears.
            self.answer(from, self.present_ballot(), now_ms, out);
        } else if matches!(notification.state, PeerState::Unknown(_)) {
        } else if self.looking.is_some() {
            self.hear_in_round(from, notification, now_ms, out);
        } else if self.state == PeerState::Looking {
            self.keep_for_later(from, heard);
        } else if notification.state == PeerState::Looking && from != self.me {
            self.hear_looker(from, heard, now_ms, out);
        } else {
            self.lookers.remove(&from);
        }
    }

    /// Whether the message goes no further because its member list must be installed first.
    fn hand_out_config(&self, from: Sid, heard: &Heard, out: &mut Vec<Action>) -> bool {
        let (Some(members), Some(config)) = (&heard.members, heard.notification.config()) else {
            return false;
        };
        let is_newer = members.version > self.electorate.members().version;
        if !is_newer || members.version < self.overtaken_before || !self.settings.reconfig_enabled {
            return false;
        }
        out.push(Action::ConfigSeen {
            from,
            version: members.version,
            config: config.clone(),
        });
        true
    }

    /// A voter looks while this server has a role.
    fn hear_looker(&mut self, from: Sid, heard: &Heard, now_ms: i64, out: &mut Vec<Action>) {
        let notification = &heard.notification;
        if self.electorate.is_voter(notification.leader) {
            self.ballots.insert(from, Ballot::of(notification));
        }
        if self.role == Role::Participant {
            self.lookers.insert(from, (heard.clone(), now_ms));
        }
        if self.state == PeerState::Leading && self.supporters.contains(&from) {
            out.push(Action::SupporterLooks { sid: from });
        }
        let ballot = Ballot {
            state: self.state,
            ..self.published
        };
        self.answer(from, ballot, now_ms, out);
    }

    fn keep_for_later(&mut self, from: Sid, heard: &Heard) {
        if self.early.len() >= EARLY_MAX {
            self.early.pop_front();
        }
        self.early.push_back((from, heard.clone()));
    }

    /// What [`Election::next_deadline`] announced is due.
    pub fn handle_deadline(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        self.conclude_if_due(now_ms, out);
        self.stand_if_due(now_ms, out);
        self.tell_again_if_due(now_ms, out);
    }

    /// When [`Election::handle_deadline`] wants to be called, if nothing else happens before.
    pub fn next_deadline(&self) -> Option<i64> {
        self.looking.as_ref().map(Looking::deadline)
    }

    /// There is a connection to this server, new or in place of an older one: what went over the
    /// old one may be lost, and nobody will ask for it.
    pub fn handle_peer_up(&mut self, sid: Sid, out: &mut Vec<Action>) {
        self.answers.forget(sid);
        if self.electorate.is_voter(sid) {
            self.presence.insert(sid, Presence::Up);
        }
        if let Some(looking) = &self.looking
            && sid != self.me
            && self.electorate.is_voter(sid)
        {
            let ballot = Ballot::looking(looking.proposal, self.round);
            out.push(self.send(sid, ballot));
        }
    }

    /// The connection to this server is gone.
    ///
    /// A vote that went into it may be lost. So it is sent again, which has the host dial: if the server has ended
    /// that is refused, and nobody waits for its vote.
    pub fn handle_peer_down(&mut self, sid: Sid, now_ms: i64, out: &mut Vec<Action>) {
        self.answers.forget(sid);
        self.lookers.remove(&sid);
        if let Some(presence) = self.presence.get_mut(&sid) {
            *presence = Presence::Lost;
        }
        self.other_leaders.forget(sid);
        let Some(looking) = &mut self.looking else {
            return;
        };
        if self.other_leaders.is_empty() {
            looking.stop_asking(now_ms);
        }
        if self.electorate.is_voter(sid) && looking.may_tell_anew(sid) {
            let ballot = Ballot::looking(looking.proposal, self.round);
            out.push(self.send(sid, ballot));
        }
    }

    /// A server refuses to be connected to: the host is there, the process is not. If it was there
    /// before, its vote is not waited for until it comes back.
    pub fn handle_peer_refused(&mut self, sid: Sid, now_ms: i64) {
        if let Some(presence @ Presence::Lost) = self.presence.get_mut(&sid) {
            *presence = Presence::Gone;
            self.weigh(now_ms);
        }
    }

    /// Whether this voter is known to have ended.
    pub(crate) fn is_gone(&self, sid: Sid) -> bool {
        self.presence.get(&sid) == Some(&Presence::Gone)
    }

    /// This server's history knows a list of this version: an older one of another server was overtaken,
    /// and those whom it names may have missed what was committed since.
    pub fn take_no_list_before(&mut self, version: ConfigVersion) {
        self.overtaken_before = version;
    }

    /// What the oracle says now. To be told before each [`Election::handle_deadline`].
    pub fn handle_oracle(&mut self, oracle: Option<Oracle>, now_ms: i64) {
        self.oracle = oracle;
        self.weigh(now_ms);
    }

    /// The epoch of the leader is established: later answers name it, so that servers which join
    /// later hear equal votes (ZOOKEEPER-1732).
    pub fn handle_epoch_active(&mut self, epoch: Epoch) {
        self.published.vote.peer_epoch = epoch;
    }

    /// Takes a role without an election, as a reconfiguration can order.
    pub fn appoint(&mut self, state: PeerState, vote: Vote) {
        self.looking = None;
        self.state = state;
        self.published.vote = vote;
        self.published.round = ElectionRound(-1);
        self.supporters.clear();
    }

    /// The role is over, and the next round does not begin yet: the log may still be on its way to the
    /// disk. As before the first round voters get no answer, least of all that this server leads; what
    /// they say is kept for the round.
    pub fn end_role(&mut self) {
        self.looking = None;
        self.state = PeerState::Looking;
        self.supporters.clear();
    }

    /// This server's part in the member list has changed, without a new election.
    pub fn set_role(&mut self, role: Role) {
        self.role = role;
    }

    /// Other configurations apply, without a new election: one was proposed, or was committed
    /// while this server has a role.
    pub fn set_electorate(&mut self, electorate: Electorate, now_ms: i64) {
        self.electorate = electorate;
        self.weigh(now_ms);
    }

    /// A different configuration was installed while looking: all that was heard under the old
    /// one is void, and rounds count from the beginning.
    pub fn reset(&mut self, role: Role, electorate: Electorate, candidate: Candidate) {
        let (me, settings, oracle) = (self.me, self.settings, self.oracle);
        let overtaken_before = self.overtaken_before;
        let presence = std::mem::take(&mut self.presence);
        *self = Self::new(me, role, settings, electorate, candidate);
        (self.oracle, self.presence) = (oracle, presence);
        self.overtaken_before = overtaken_before;
    }

    /// The configurations that apply.
    pub fn electorate(&self) -> &Electorate {
        &self.electorate
    }

    /// What this server does.
    pub fn state(&self) -> PeerState {
        self.state
    }

    /// The present or last round.
    pub fn round(&self) -> ElectionRound {
        self.round
    }

    /// Whom it votes for now; `None` while it has a role or has not started.
    pub fn proposal(&self) -> Option<Vote> {
        self.looking.as_ref().map(|looking| looking.proposal)
    }

    /// The outcome of the last election, as others are told.
    pub fn published(&self) -> Vote {
        self.published.vote
    }

    /// The last ballot of each voter, of this round if there is one.
    pub fn votes(&self) -> BTreeMap<Sid, Ballot> {
        let mut all = self.settled.clone();
        all.extend(&self.ballots);
        all
    }

    fn own_vote(&self, candidate: Candidate) -> Vote {
        let own = match self.role {
            Role::Observer => return Vote::NOBODY,
            Role::Participant => first_vote(self.me, candidate),
        };
        let leader = if self.electorate.members().voters.contains(&self.me) {
            self.me
        } else {
            Vote::NOBODY.leader
        };
        Vote { leader, ..own }
    }

    /// What a server without a vote is told, whatever this one does.
    fn present_ballot(&self) -> Ballot {
        Ballot {
            round: self.round,
            state: self.state,
            ..self.published
        }
    }

    /// An observer answers nobody: its word is not counted, and it would go back and forth with a
    /// voter that answers at once. See [`Election::tell_list`] for the exception.
    fn answer(&mut self, to: Sid, ballot: Ballot, now_ms: i64, out: &mut Vec<Action>) {
        if self.role == Role::Participant && self.answers.admit(to, ballot, now_ms) {
            out.push(self.send(to, ballot));
        }
    }

    /// Whether a server looks that has not heard of the committed list yet.
    fn has_older_list(&self, heard: &Heard) -> bool {
        let theirs = heard.members.as_ref().map(|theirs| theirs.version);
        self.settings.reconfig_enabled
            && heard.notification.state == PeerState::Looking
            && theirs.is_some_and(|theirs| theirs < self.electorate.members().version)
    }

    /// An observer, too, tells of a newer list: to a server whose own list names none of today's
    /// voters, which were all replaced, it may be the only one that can. Whoever has taken the list
    /// over does not ask with an older one again.
    fn tell_list(&mut self, to: Sid, now_ms: i64, out: &mut Vec<Action>) {
        let ballot = self.present_ballot();
        if self.answers.admit(to, ballot, now_ms) {
            out.push(self.send(to, ballot));
        }
    }

    /// A voter that looks is behind this server's round.
    pub(crate) fn answer_with_proposal(&mut self, to: Sid, now_ms: i64, out: &mut Vec<Action>) {
        if let Some(looking) = &self.looking {
            let ballot = Ballot::looking(looking.proposal, self.round);
            self.answer(to, ballot, now_ms, out);
        }
    }

    /// To every voter, itself included.
    pub(crate) fn tell_all(&self, out: &mut Vec<Action>) {
        if let Some(looking) = &self.looking {
            let ballot = Ballot::looking(looking.proposal, self.round);
            let voters = self.electorate.voters().iter();
            out.extend(voters.map(|sid| self.send(*sid, ballot)));
        }
    }

    pub(crate) fn send(&self, to: Sid, ballot: Ballot) -> Action {
        let notification = Notification {
            state: ballot.state,
            leader: ballot.vote.leader,
            zxid: ballot.vote.zxid,
            round: ballot.round,
            peer_epoch: ballot.vote.peer_epoch,
            form: Form::Versioned {
                version: Notification::VERSION,
                config: Some(self.electorate.config().clone()),
            },
        };
        Action::Send { to, notification }
    }
}

fn first_vote(me: Sid, candidate: Candidate) -> Vote {
    Vote {
        leader: me,
        zxid: candidate.zxid.unwrap_or(Vote::UNTRUSTED),
        peer_epoch: candidate.peer_epoch,
    }
}
