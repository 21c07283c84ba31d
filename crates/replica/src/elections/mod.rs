//! This server's part in elections. It uses the `election` crate with the current member lists,
//! over connections that the host numbers.
//!
//! Source: QuorumCnxManager, FastLeaderElection, QuorumPeer.

pub(crate) mod guard;
pub(crate) mod results;
pub(crate) mod voting_lists;

use std::collections::{BTreeMap, VecDeque};

use config::members::MemberRole;
use config::membership::Membership;
use election::links::{CloseReason, ConnectionId, LinkAction, Links};
use election::{Action, Candidate, Election, Oracle, ReceivedNotification, Role, Vote};
use proto::hello::{Endpoint, Hello};
use proto::notification::{Notification, PeerState};
use proto::{ConfigVersion, ElectionRound, Epoch, Sid};

use self::guard::Refusal;
use self::voting_lists::{ElectorateError, Lists};

/// Settings of elections, fixed while a server runs.
#[derive(Debug, Clone)]
pub struct ElectionSettings {
    /// Sid of this server.
    pub me: Sid,
    /// Intervals and rules of the election.
    pub election: election::Settings,
    /// Whether servers may have several addresses (`multiAddress.enabled`).
    pub multi_address: bool,
    /// Whether an oracle for a two-voter ensemble is configured (`oraclePath`).
    pub has_oracle: bool,
}

/// Event on the election connections.
#[derive(Debug)]
pub enum ElectionInput {
    /// A server connected and introduced itself. The elections keep or close the connection.
    Hello {
        /// Number of the connection.
        connection: ConnectionId,
        /// Introduction that the server sent.
        hello: Hello,
    },
    /// A server was reached. The elections keep or close the connection.
    Dialled {
        /// Server that was reached.
        sid: Sid,
        /// Number of the connection.
        connection: ConnectionId,
    },
    /// A server could not be reached.
    NotReached {
        /// Server that was not reached.
        sid: Sid,
        /// Whether its host responded by refusing the connection.
        is_refusal: bool,
    },
    /// A notification arrived.
    ReceivedNotification {
        /// Connection on which it arrived.
        connection: ConnectionId,
        /// Received notification.
        notification: Notification,
    },
    /// A connection has ended without a request from this server.
    Closed {
        /// Connection that ended.
        connection: ConnectionId,
    },
}

/// Effect that elections request from the host.
#[derive(Debug)]
pub enum ElectionEffect {
    /// Listen on these endpoints only.
    Listen(Vec<Endpoint>),
    /// Connect to a server and introduce this one.
    Dial {
        /// Server to connect to.
        sid: Sid,
        /// Possible addresses of the server, the most likely one first.
        at: Vec<Endpoint>,
        /// Addresses of this server, from its line in the member list.
        own: Vec<Endpoint>,
        /// Whether a member list contains the server.
        is_member: bool,
    },
    /// Use a connection from now on.
    Keep {
        /// Connection to use.
        connection: ConnectionId,
        /// Server at its other end.
        sid: Sid,
    },
    /// Close a connection.
    Close {
        /// Connection to close.
        connection: ConnectionId,
        /// Reason for the log.
        reason: CloseReason,
    },
    /// Write a notification. It replaces an earlier notification that is not written yet.
    Write {
        /// Connection to write to.
        connection: ConnectionId,
        /// Notification to write.
        notification: Notification,
    },
    /// Query the oracle (`oraclePath`) of a two-voter ensemble.
    QueryOracle,
}

/// Action that results from a call to the elections.
#[derive(Debug)]
pub enum ElectionAction {
    /// The host must execute an effect.
    Carry(ElectionEffect),
    /// The election is over.
    Elected {
        /// Role of this server: leading, following or observing.
        state: PeerState,
        /// Elected leader, with the zxid and epoch of its vote.
        vote: Vote,
        /// Election round.
        round: ElectionRound,
        /// Duration of the search for a leader, ms.
        took_ms: u64,
    },
    /// Another server has committed a newer member list while this server was looking for a leader.
    /// The elections already use the list. The rest of the server must install it.
    ListSeen {
        /// Server that sent the list.
        from: Sid,
        /// Newer member list.
        list: Membership,
    },
    /// A server that voted for this leader is looking for a leader again.
    SupporterLooks {
        /// Server that looks for a leader.
        sid: Sid,
    },
}

/// Queued work, in order.
enum ElectionWork {
    Election(Action),
    Link(LinkAction),
    /// A notification from this server to itself.
    Own(Notification),
    /// A newer list was seen. The notification that contained the list may still have to be
    /// handled.
    Adopt(Sid, Box<ReceivedNotification>, Box<Membership>),
}

/// State of a server's elections.
pub struct Elections {
    settings: ElectionSettings,
    lists: Lists,
    role: Role,
    /// Endpoints on which this server listens, and which it sends to others.
    own: Vec<Endpoint>,
    election: Election,
    links: Links,
    candidate: Candidate,
    /// Connections in use, with their servers.
    kept: BTreeMap<ConnectionId, Sid>,
    /// Whether the oracle is queried. This is the case initially, and on a leader as long as it
    /// lacks a follower.
    is_oracle_needed: bool,
    /// Whether the election waits for the oracle's answer.
    is_oracle_queried: bool,
    /// Time at which the server began to look for a leader, ms; `None` if it is not looking.
    looking_since_ms: Option<i64>,
    /// Sender and version of the last list that could not be adopted.
    refused_list: Option<(Sid, ConfigVersion)>,
    work: VecDeque<ElectionWork>,
}

impl Elections {
    /// Creates the elections of a server that answers others and is not looking for a leader yet.
    /// `proposed` is used if it is newer than `committed`. Servers that query this one before its
    /// first round receive `candidate`.
    ///
    /// # Errors
    /// If one of the lists contains no participant, or if the encoded committed list is too long.
    pub fn new(
        settings: ElectionSettings,
        committed: Membership,
        proposed: Option<Membership>,
        candidate: Candidate,
    ) -> Result<Self, ElectorateError> {
        let me = settings.me;
        let lists = Lists::new(committed, proposed);
        let role = voting_lists::role_in(&lists.committed, me);
        let electorate = lists.electorate()?;
        Ok(Self {
            role,
            own: lists.own_endpoints(me).unwrap_or_default(),
            election: Election::new(me, role, settings.election, electorate, candidate),
            links: Links::new(me, lists.sids()),
            lists,
            candidate,
            kept: BTreeMap::new(),
            is_oracle_needed: true,
            is_oracle_queried: false,
            looking_since_ms: None,
            refused_list: None,
            work: VecDeque::new(),
            settings,
        })
    }

    /// Sets a minimum version. See [`Election::set_min_config_version`].
    pub(crate) fn set_min_config_version(&mut self, version: ConfigVersion) {
        self.election.set_min_config_version(version);
    }

    /// Starts listening.
    pub fn begin(&mut self, out: &mut Vec<ElectionAction>) {
        out.push(ElectionAction::Carry(ElectionEffect::Listen(
            self.own.clone(),
        )));
    }

    /// Begins a round, because the server has started or its role has ended. `candidate` describes
    /// the current log.
    pub fn start_election(
        &mut self,
        candidate: Candidate,
        now_ms: i64,
        out: &mut Vec<ElectionAction>,
    ) {
        self.candidate = candidate;
        self.looking_since_ms = Some(now_ms);
        self.start_round(now_ms);
        self.carry_out(now_ms, out);
    }

    /// Stores the leader's epoch after it has been established.
    pub fn handle_epoch_active(&mut self, epoch: Epoch) {
        self.election.handle_epoch_active(epoch);
    }

    /// Ends the role. [`start_election`](Self::start_election) must follow once the log is on disk.
    pub fn end_role(&mut self) {
        self.election.end_role();
    }

    /// Sets a role without an election, as a reconfiguration can require.
    pub fn appoint(&mut self, state: PeerState, vote: Vote) {
        self.looking_since_ms = None;
        self.election.appoint(state, vote);
    }

    /// Sets whether the oracle is queried before the election acts on a deadline.
    pub fn set_oracle_needed(&mut self, is_needed: bool) {
        self.is_oracle_needed = is_needed;
    }

    /// Uses new member lists: `committed`, which is in force, and `proposed`, the last one seen,
    /// which is used if it is newer. `role` is this server's role in the committed list. A round in
    /// progress restarts if this server gains or loses its vote. Otherwise it continues.
    ///
    /// If the lists cannot be used for an election, the error is logged, and the old lists stay in
    /// force.
    pub fn configure(
        &mut self,
        committed: Membership,
        proposed: Option<Membership>,
        role: MemberRole,
        now_ms: i64,
        out: &mut Vec<ElectionAction>,
    ) {
        let (lists, role) = (Lists::new(committed, proposed), voting_lists::role(role));
        let electorate = match lists.electorate() {
            Ok(electorate) => electorate,
            Err(error) => {
                let version = lists.committed.version;
                return tracing::error!(%version, err = %error, "cannot use this member list in elections");
            }
        };
        self.install(lists, out);
        let has_changed = std::mem::replace(&mut self.role, role) != role;
        if has_changed && self.election.proposal().is_some() {
            self.election.reset(role, electorate, self.candidate);
            self.start_round(now_ms);
        } else {
            self.election.set_role(role);
            self.election.set_electorate(electorate, now_ms);
        }
        self.carry_out(now_ms, out);
    }

    /// Handles an event on a connection.
    pub fn handle(&mut self, input: ElectionInput, now_ms: i64, out: &mut Vec<ElectionAction>) {
        let mut links = Vec::new();
        match input {
            ElectionInput::Hello { connection, hello } => {
                self.links.handle_hello(connection, &hello, &mut links);
            }
            ElectionInput::Dialled { sid, connection } => {
                self.links
                    .handle_dialled(sid, connection, now_ms, &mut links);
            }
            ElectionInput::NotReached { sid, is_refusal } => {
                self.links.handle_dial_failed(sid, now_ms);
                if is_refusal {
                    self.election.handle_peer_refused(sid, now_ms);
                }
            }
            ElectionInput::ReceivedNotification {
                connection,
                notification,
            } => {
                // A replaced connection may still deliver a notification, which is ignored.
                if let Some(sid) = self.kept.get(&connection).copied() {
                    tracing::trace!(%sid, ?notification, "heard");
                    self.handle_notification(sid, notification, now_ms);
                }
            }
            ElectionInput::Closed { connection } => {
                if self.kept.remove(&connection).is_some() {
                    self.links.handle_closed(connection, &mut links);
                }
            }
        }
        self.queue_links(links);
        self.carry_out(now_ms, out);
    }

    /// Handles the oracle's answer.
    pub fn handle_oracle(&mut self, grants: bool, now_ms: i64, out: &mut Vec<ElectionAction>) {
        if std::mem::take(&mut self.is_oracle_queried) {
            self.finish_wait(grants, now_ms);
            self.carry_out(now_ms, out);
        }
    }

    /// Returns the time at which to call [`handle_deadline`](Self::handle_deadline).
    pub fn deadline_ms(&self) -> Option<i64> {
        let election = self.election.next_deadline();
        let election = election.filter(|_| !self.is_oracle_queried);
        [election, self.links.next_deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Handles the time of [`deadline_ms`](Self::deadline_ms). A call at any other time is
    /// harmless.
    pub fn handle_deadline(&mut self, now_ms: i64, out: &mut Vec<ElectionAction>) {
        let is_due = |at_ms: Option<i64>| at_ms.is_some_and(|at_ms| at_ms <= now_ms);
        if is_due(self.links.next_deadline()) {
            let mut links = Vec::new();
            self.links.handle_deadline(now_ms, &mut links);
            self.queue_links(links);
        }
        if is_due(self.election.next_deadline()) && !self.is_oracle_queried {
            if self.settings.has_oracle && self.is_oracle_needed {
                self.is_oracle_queried = true;
                out.push(ElectionAction::Carry(ElectionEffect::QueryOracle));
            } else {
                self.finish_wait(false, now_ms);
            }
        }
        self.carry_out(now_ms, out);
    }

    /// Ends the current wait of the election. `grants` is the oracle's answer, or false if the
    /// oracle was not queried.
    fn finish_wait(&mut self, grants: bool, now_ms: i64) {
        if self.settings.has_oracle {
            let is_needed = self.is_oracle_needed;
            let grants = grants && is_needed;
            let said = Oracle { is_needed, grants };
            self.election.handle_oracle(Some(said), now_ms);
        }
        let mut actions = Vec::new();
        self.election.handle_deadline(now_ms, &mut actions);
        self.queue_actions(actions);
    }

    fn start_round(&mut self, now_ms: i64) {
        let mut actions = Vec::new();
        self.election.start(self.candidate, now_ms, &mut actions);
        self.queue_actions(actions);
    }

    /// Installs lists everywhere except in the election itself.
    fn install(&mut self, lists: Lists, out: &mut Vec<ElectionAction>) {
        self.links.set_members(lists.sids());
        let own = lists.own_endpoints(self.settings.me);
        self.lists = lists;
        if let Some(own) = own.filter(|own| *own != self.own) {
            self.own = own;
            self.begin(out);
        }
    }

    fn handle_notification(&mut self, from: Sid, notification: Notification, now_ms: i64) {
        let (received, list) = voting_lists::read(notification, self.settings.multi_address);
        let mut actions = Vec::new();
        self.election
            .handle_notification(from, &received, now_ms, &mut actions);
        let is_seen = |action: &Action| matches!(action, Action::ConfigSeen { .. });
        if actions.iter().any(is_seen)
            && let Some(list) = list
        {
            let work = ElectionWork::Adopt(from, Box::new(received), Box::new(list));
            self.work.push_back(work);
        }
        self.queue_actions(actions);
    }

    /// Adopts a newer list that was seen while this server was looking for a leader.
    fn adopt(
        &mut self,
        from: Sid,
        received: &ReceivedNotification,
        seen: Membership,
        now_ms: i64,
        out: &mut Vec<ElectionAction>,
    ) {
        if seen.version <= self.lists.committed.version {
            return;
        }
        let version = seen.version;
        let lists = Lists::new(seen.clone(), self.lists.proposed.clone());
        let electorate = match lists.electorate() {
            Ok(electorate) => electorate,
            Err(error) => {
                // The error is logged once only, because every notification from that server
                // repeats the list.
                if self.refused_list.replace((from, version)) != Some((from, version)) {
                    log_limiter::limited!(warn, %from, %version, err = %error, "cannot adopt the member list of another server");
                }
                return;
            }
        };
        log_limiter::limited!(info, %from, %version, "adopted the newer member list of another server");
        let is_different = !self.lists.committed.has_same_members(&seen);
        self.install(lists, out);
        self.role = voting_lists::role_in(&seen, self.settings.me);
        out.push(ElectionAction::ListSeen { from, list: seen });
        if is_different {
            let has_started = self.election.proposal().is_some();
            self.election.reset(self.role, electorate, self.candidate);
            if has_started {
                self.start_round(now_ms);
            }
        } else {
            self.election.set_electorate(electorate, now_ms);
            self.handle_notification(from, received.notification.clone(), now_ms);
        }
    }

    fn queue_actions(&mut self, actions: Vec<Action>) {
        self.work
            .extend(actions.into_iter().map(ElectionWork::Election));
    }

    fn queue_links(&mut self, actions: Vec<LinkAction>) {
        self.work
            .extend(actions.into_iter().map(ElectionWork::Link));
    }

    /// Executes the queued work in order. New work is appended to the queue.
    fn carry_out(&mut self, now_ms: i64, out: &mut Vec<ElectionAction>) {
        while let Some(work) = self.work.pop_front() {
            match work {
                ElectionWork::Election(action) => self.carry_out_election(action, now_ms, out),
                ElectionWork::Link(action) => self.carry_out_link(action, now_ms, out),
                ElectionWork::Own(notification) => {
                    self.handle_notification(self.settings.me, notification, now_ms);
                }
                ElectionWork::Adopt(from, received, list) => {
                    self.adopt(from, &received, *list, now_ms, out);
                }
            }
        }
    }

    fn carry_out_election(&mut self, action: Action, now_ms: i64, out: &mut Vec<ElectionAction>) {
        match action {
            Action::Send { to, notification } if to == self.settings.me => {
                self.work.push_back(ElectionWork::Own(notification));
            }
            Action::Send { to, notification } => {
                let mut links = Vec::new();
                self.links.send(to, notification, now_ms, &mut links);
                self.queue_links(links);
            }
            Action::Elected { state, vote, round } => {
                let since_ms = self.looking_since_ms.take();
                let took_ms = since_ms.map_or(0, |since_ms| now_ms.saturating_sub(since_ms));
                let took_ms = took_ms.max(0).unsigned_abs();
                let leader = vote.leader;
                tracing::debug!(role = role_name(state), %leader, %vote, %round, took_ms, "elected");
                out.push(ElectionAction::Elected {
                    state,
                    vote,
                    round,
                    took_ms,
                });
            }
            // The list is handled together with its notification, as `ElectionWork::Adopt`.
            Action::ConfigSeen { .. } => {}
            Action::SupporterLooks { sid } => out.push(ElectionAction::SupporterLooks { sid }),
            Action::Refused {
                candidate,
                leader,
                witness,
                theirs,
                ours,
            } => Refusal {
                candidate,
                leader,
                witness,
                theirs: &theirs,
                ours: &ours,
            }
            .log(),
        }
    }

    fn carry_out_link(&mut self, action: LinkAction, now_ms: i64, out: &mut Vec<ElectionAction>) {
        let effect = match action {
            LinkAction::Dial { sid, mut at } => {
                at.extend(self.lists.election_endpoints(sid));
                let own = self.own.clone();
                let is_member = self.lists.sids().contains(&sid);
                ElectionEffect::Dial {
                    sid,
                    at,
                    own,
                    is_member,
                }
            }
            LinkAction::Keep { connection, sid } => {
                self.kept.insert(connection, sid);
                let mut actions = Vec::new();
                self.election.handle_peer_up(sid, &mut actions);
                self.queue_actions(actions);
                ElectionEffect::Keep { connection, sid }
            }
            LinkAction::Close { connection, reason } => {
                self.kept.remove(&connection);
                ElectionEffect::Close { connection, reason }
            }
            LinkAction::Down { sid } => {
                let mut actions = Vec::new();
                self.election.handle_peer_down(sid, now_ms, &mut actions);
                return self.queue_actions(actions);
            }
            LinkAction::Write {
                connection,
                notification,
            } => ElectionEffect::Write {
                connection,
                notification,
            },
        };
        out.push(ElectionAction::Carry(effect));
    }
}

/// Returns ZooKeeper's name for a role.
fn role_name(state: PeerState) -> &'static str {
    match state {
        PeerState::Leading => "LEADING",
        PeerState::Observing => "OBSERVING",
        PeerState::Following | PeerState::Looking | PeerState::Unknown(_) => "FOLLOWING",
    }
}
