//! One server's part in every election, and its answers between elections.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proto::notification::{Form, Notification, PeerState};
use proto::{ConfigVersion, ElectionRound, Epoch, Sid, Zxid};

use crate::answers::Answers;
use crate::guard::OtherLeaders;
use crate::limits::{EARLY_MAX, LOOKER_KEPT_MS};
use crate::looking::Looking;
use crate::{Action, Ballot, Electorate, MemberList, Oracle, Vote};

/// Role of a server in its own member list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Follows or leads. Its vote counts if the member list contains the server.
    Participant,
    /// Does not vote and cannot be elected.
    Observer,
}

/// Settings of an election. The defaults are ZooKeeper's, except for the membership guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// First pause before the vote is sent again (`fastleader.minNotificationInterval`), ms.
    pub notification_interval_min_ms: i64,
    /// Maximum pause before the vote is sent again, ms. The pause doubles each time
    /// (`fastleader.maxNotificationInterval`).
    pub notification_interval_max_ms: i64,
    /// Time for which a server waits for a better vote after a quorum has agreed (`finalizeWait`),
    /// ms.
    pub settle_ms: i64,
    /// Whether this server adopts newer member lists of other servers (`reconfigEnabled`).
    pub reconfig_enabled: bool,
    /// Whether a leader with a different member list keeps this server from electing a second
    /// leader. ZooKeeper lacks such a guard.
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

/// State of a server's log that matters in an election.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Last zxid in the log, committed or not. `None` if the data is not trusted (an empty
    /// directory without its `initialize` file). The server then only joins an ensemble that has a
    /// leader.
    pub zxid: Option<Zxid>,
    /// Current epoch of the server.
    pub peer_epoch: Epoch,
}

/// A received notification, with its configuration as decoded by the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedNotification {
    /// Received notification.
    pub notification: Notification,
    /// Member list in the notification; `None` if it is missing or invalid, which does not
    /// invalidate the other fields.
    pub members: Option<MemberList>,
}

impl From<Notification> for ReceivedNotification {
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
/// Invariants:
///
/// - While the server is looking for a leader, the round never decreases. (When the server joins an
///   ensemble, it adopts the ensemble's round, even if that round is lower.)
/// - Within a round, only a better vote replaces the proposal. (A newcomer may also change to a
///   vote for a shorter log.)
/// - The result of an election needs a quorum of ballots that agree, or an answer of the oracle.
#[derive(Debug)]
pub struct Election {
    pub(crate) me: Sid,
    pub(crate) role: Role,
    pub(crate) settings: Settings,
    pub(crate) electorate: Electorate,
    pub(crate) oracle: Option<Oracle>,
    pub(crate) round: ElectionRound,
    /// State of the round in which the server takes part, if any.
    pub(crate) looking: Option<Looking>,
    /// Role of the server; `Looking` if it does not have a role.
    pub(crate) state: PeerState,
    /// Outcome of the last election. It is the answer to servers that are not voters and, while
    /// this server has a role, to voters that look for a leader.
    pub(crate) published: Ballot,
    /// Last ballot of each voter in this round (`recvset`).
    pub(crate) ballots: BTreeMap<Sid, Ballot>,
    /// Last ballot of each voter that follows or leads (`outofelection`).
    pub(crate) settled: BTreeMap<Sid, Ballot>,
    /// Servers whose ballots agreed with the outcome of the last election.
    pub(crate) supporters: BTreeSet<Sid>,
    pub(crate) other_leaders: OtherLeaders,
    /// Minimum version of member lists. See [`Election::set_min_config_version`].
    min_config_version: ConfigVersion,
    answers: Answers,
    /// Notifications that voters sent while this server did not have a round or a role. The voters
    /// repeat them only after a pause.
    early: VecDeque<(Sid, ReceivedNotification)>,
    /// Last notification of each voter that looked for a leader while this server had a role, and
    /// the time of the notification. These voters were the first to notice that the leader had
    /// stopped, and would repeat the notification only after their pause.
    lookers: BTreeMap<Sid, (ReceivedNotification, i64)>,
    presence: BTreeMap<Sid, Presence>,
}

/// State of the connection to a voter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// The voter is connected.
    Up,
    /// The connection has closed.
    Lost,
    /// The connection has closed, and the server's port refuses connections.
    Gone,
}

impl Election {
    /// Creates an election outside a round. Until [`Election::start`], it answers only servers that
    /// are not voters.
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
            min_config_version: ConfigVersion::default(),
            answers: Answers::default(),
            early: VecDeque::new(),
            lookers: BTreeMap::new(),
            presence: BTreeMap::new(),
        }
    }

    /// Begins a round. Called when the server starts and whenever its role has ended.
    ///
    /// `candidate` must describe the current log, including uncommitted transactions.
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
        self.broadcast_vote(out);
        for (from, (received, at_ms)) in std::mem::take(&mut self.lookers) {
            // Voters in an older round have just received everything that an answer would contain.
            let is_of_round = received.notification.round >= self.round;
            if is_of_round && now_ms.saturating_sub(at_ms) <= LOOKER_KEPT_MS {
                self.handle_notification(from, &received, now_ms, out);
            }
        }
        for (from, received) in std::mem::take(&mut self.early) {
            self.handle_notification(from, &received, now_ms, out);
        }
    }

    /// Handles a notification, possibly from this server itself.
    ///
    /// Source: FastLeaderElection's worker receiver.
    pub fn handle_notification(
        &mut self,
        from: Sid,
        received: &ReceivedNotification,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) {
        if self.state == PeerState::Looking && self.report_newer_config(from, received, out) {
            return;
        }
        let notification = &received.notification;
        if self.looking.is_some() && from != self.me {
            let theirs = received.members.as_ref();
            let others = &mut self.other_leaders;
            others.record(from, notification, theirs, &self.electorate, now_ms);
        }
        if self.role == Role::Observer && self.has_older_list(received) {
            self.send_newer_list(from, now_ms, out);
        }
        if !self.electorate.is_voter(from) {
            // The answer is sent immediately in every state, because this may be the only
            // notification from that server.
            self.answer(from, self.present_ballot(), now_ms, out);
        } else if matches!(notification.state, PeerState::Unknown(_)) {
        } else if self.looking.is_some() {
            self.handle_notification_in_round(from, notification, now_ms, out);
        } else if self.state == PeerState::Looking {
            self.queue_early_notification(from, received);
        } else if notification.state == PeerState::Looking && from != self.me {
            self.handle_looking_voter(from, received, now_ms, out);
        } else {
            self.lookers.remove(&from);
        }
    }

    /// Reports the notification's member list to the host if it must be installed first. In this
    /// case, returns true, and the notification must not be handled further.
    fn report_newer_config(
        &self,
        from: Sid,
        received: &ReceivedNotification,
        out: &mut Vec<Action>,
    ) -> bool {
        let (Some(members), Some(config)) = (&received.members, received.notification.config())
        else {
            return false;
        };
        let is_newer = members.version > self.electorate.members().version;
        if !is_newer || members.version < self.min_config_version || !self.settings.reconfig_enabled
        {
            return false;
        }
        out.push(Action::ConfigSeen {
            from,
            version: members.version,
            config: config.clone(),
        });
        true
    }

    /// Handles the notification of a voter that looks for a leader while this server has a role.
    fn handle_looking_voter(
        &mut self,
        from: Sid,
        received: &ReceivedNotification,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) {
        let notification = &received.notification;
        if self.electorate.is_voter(notification.leader) {
            self.ballots.insert(from, Ballot::of(notification));
        }
        if self.role == Role::Participant {
            self.lookers.insert(from, (received.clone(), now_ms));
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

    fn queue_early_notification(&mut self, from: Sid, received: &ReceivedNotification) {
        if self.early.len() >= EARLY_MAX {
            self.early.pop_front();
        }
        self.early.push_back((from, received.clone()));
    }

    /// Handles the deadline returned by [`Election::next_deadline`].
    pub fn handle_deadline(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        self.conclude_if_due(now_ms, out);
        self.become_candidate_if_due(now_ms, out);
        self.resend_if_due(now_ms, out);
    }

    /// Returns the time at which to call [`Election::handle_deadline`] if no event occurs earlier,
    /// ms. Returns `None` outside a round.
    pub fn next_deadline(&self) -> Option<i64> {
        self.looking.as_ref().map(Looking::deadline)
    }

    /// Handles a new connection to a server. During a round, sends the vote to a voter again,
    /// because notifications on an older connection may be lost, and the peer will not request
    /// them.
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

    /// Handles a closed connection to a server.
    ///
    /// A vote that was sent over it may be lost, so the vote is sent again, which makes the host
    /// dial. If that server has stopped, the dial is refused, and this server does not wait for its
    /// vote.
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
            looking.end_guard_wait(now_ms);
        }
        if self.electorate.is_voter(sid) && looking.may_resend_to(sid) {
            let ballot = Ballot::looking(looking.proposal, self.round);
            out.push(self.send(sid, ballot));
        }
    }

    /// Handles a refused connection, which means that the machine responds but the process has
    /// stopped. If the server was connected before, its vote is not awaited until it connects
    /// again.
    pub fn handle_peer_refused(&mut self, sid: Sid, now_ms: i64) {
        if let Some(presence @ Presence::Lost) = self.presence.get_mut(&sid) {
            *presence = Presence::Gone;
            self.check_votes(now_ms);
        }
    }

    /// Returns whether this voter is known to have stopped.
    pub(crate) fn is_gone(&self, sid: Sid) -> bool {
        self.presence.get(&sid) == Some(&Presence::Gone)
    }

    /// Sets the minimum version of other servers' lists: the version of a list in this server's
    /// log. Older lists are obsolete, because their members may lack later commits.
    pub fn set_min_config_version(&mut self, version: ConfigVersion) {
        self.min_config_version = version;
    }

    /// Sets the oracle's current answer. Call it before each call to [`Election::handle_deadline`].
    pub fn handle_oracle(&mut self, oracle: Option<Oracle>, now_ms: i64) {
        self.oracle = oracle;
        self.check_votes(now_ms);
    }

    /// Stores the leader's epoch once it is established. Later answers contain it, so servers that
    /// join later receive equal votes (ZOOKEEPER-1732).
    pub fn handle_epoch_active(&mut self, epoch: Epoch) {
        self.published.vote.peer_epoch = epoch;
    }

    /// Sets a role without an election, as a reconfiguration can require.
    pub fn appoint(&mut self, state: PeerState, vote: Vote) {
        self.looking = None;
        self.state = state;
        self.published.vote = vote;
        self.published.round = ElectionRound(-1);
        self.supporters.clear();
    }

    /// Ends the role without beginning the next round, because the log may not be on disk yet. As
    /// before the first round, voters receive no answer, so this server does not claim to lead.
    /// Their notifications are kept for the next round.
    pub fn end_role(&mut self) {
        self.looking = None;
        self.state = PeerState::Looking;
        self.supporters.clear();
    }

    /// Sets this server's role in the member list, without a new election.
    pub fn set_role(&mut self, role: Role) {
        self.role = role;
    }

    /// Replaces the configurations without a new election. Called when a configuration has been
    /// proposed, or has been committed while this server had a role.
    pub fn set_electorate(&mut self, electorate: Electorate, now_ms: i64) {
        self.electorate = electorate;
        self.check_votes(now_ms);
    }

    /// Resets the election to the state before the first round, with a different configuration that
    /// was installed during the election. Notifications under the old configuration are discarded,
    /// and rounds are counted from the beginning.
    pub fn reset(&mut self, role: Role, electorate: Electorate, candidate: Candidate) {
        let (me, settings, oracle) = (self.me, self.settings, self.oracle);
        let min_config_version = self.min_config_version;
        let presence = std::mem::take(&mut self.presence);
        *self = Self::new(me, role, settings, electorate, candidate);
        (self.oracle, self.presence) = (oracle, presence);
        self.min_config_version = min_config_version;
    }

    /// Returns the configurations in use.
    pub fn electorate(&self) -> &Electorate {
        &self.electorate
    }

    /// Returns the current state.
    pub fn state(&self) -> PeerState {
        self.state
    }

    /// Returns the current or last round.
    pub fn round(&self) -> ElectionRound {
        self.round
    }

    /// Returns the current vote; `None` outside a round.
    pub fn proposal(&self) -> Option<Vote> {
        self.looking.as_ref().map(|looking| looking.proposal)
    }

    /// Returns the outcome of the last election, as sent to others.
    pub fn published(&self) -> Vote {
        self.published.vote
    }

    /// Returns the last ballot of each voter, preferably its ballot in this round.
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

    /// Returns the answer to a server that is not a voter, in any state of this server.
    fn present_ballot(&self) -> Ballot {
        Ballot {
            round: self.round,
            state: self.state,
            ..self.published
        }
    }

    /// Answers a server. An observer does not answer, because its ballot does not count, and
    /// because an observer and a voter would answer each other indefinitely.
    /// [`Election::send_newer_list`] is the exception.
    fn answer(&mut self, to: Sid, ballot: Ballot, now_ms: i64, out: &mut Vec<Action>) {
        if self.role == Role::Participant && self.answers.admit(to, ballot, now_ms) {
            out.push(self.send(to, ballot));
        }
    }

    /// Returns whether the sender is looking for a leader and has an older list than the committed
    /// one. Always false without `reconfigEnabled`.
    fn has_older_list(&self, received: &ReceivedNotification) -> bool {
        let theirs = received.members.as_ref().map(|theirs| theirs.version);
        self.settings.reconfig_enabled
            && received.notification.state == PeerState::Looking
            && theirs.is_some_and(|theirs| theirs < self.electorate.members().version)
    }

    /// Sends the newer list to a server, even if this server is an observer. If all voters in the
    /// receiver's own list were replaced, this server may be the only one that can send the newer
    /// list. The exchange ends, because a receiver that has adopted the list no longer sends an
    /// older one.
    fn send_newer_list(&mut self, to: Sid, now_ms: i64, out: &mut Vec<Action>) {
        let ballot = self.present_ballot();
        if self.answers.admit(to, ballot, now_ms) {
            out.push(self.send(to, ballot));
        }
    }

    /// Answers a voter that is looking for a leader in an earlier round.
    pub(crate) fn answer_with_proposal(&mut self, to: Sid, now_ms: i64, out: &mut Vec<Action>) {
        if let Some(looking) = &self.looking {
            let ballot = Ballot::looking(looking.proposal, self.round);
            self.answer(to, ballot, now_ms, out);
        }
    }

    /// Sends the vote to every voter, including this server.
    pub(crate) fn broadcast_vote(&self, out: &mut Vec<Action>) {
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
