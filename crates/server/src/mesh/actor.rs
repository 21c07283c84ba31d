//! The one task that owns the election: receives, calls, carries out.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use config::members::MemberRole;
use config::membership::Membership;
use election::links::{ConnectionId, LinkAction, Links};
use election::{Action, Candidate, Election, Heard, Role, Vote};
use proto::hello::{Endpoint, Hello};
use proto::notification::{Notification, PeerState};
use proto::{Epoch, Sid};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::connections::{Connections, Undecided};
use super::dial::{Call, DialError};
use super::electorate::{self, ElectorateError, Lists};
use super::limits::{IDLE, INPUTS_MAX};
use super::link::LinkEnd;
use super::listener::{self, BindError, Door};
use super::oracle::OracleFile;
use super::refusal::Refusal;
use super::settings::MeshSettings;
use super::{EventSink, MeshEvent, MeshStart};
use crate::clock;
use crate::metrics::Metrics;

/// What comes from the handle. A configuration must be told before what depends on it.
#[derive(Debug)]
pub(super) enum Order {
    Look(Candidate),
    EpochActive(Epoch),
    EndRole,
    Appoint(PeerState, Vote),
    Configure {
        committed: Membership,
        proposed: Option<Membership>,
        role: MemberRole,
    },
    OracleNeeded(bool),
    #[cfg(test)]
    Stop,
}

/// What comes from the tasks around.
#[derive(Debug)]
pub(super) enum Input {
    /// A server connected and said who it is.
    Hello {
        stream: TcpStream,
        peer: SocketAddr,
        hello: Hello,
        /// What came behind the hello.
        rest: Vec<u8>,
    },
    /// A dial ended.
    Dialled {
        sid: Sid,
        result: Result<TcpStream, DialError>,
    },
    /// A message.
    Heard {
        connection: ConnectionId,
        heard: Box<Heard>,
    },
    /// A connection ended.
    Closed {
        connection: ConnectionId,
        end: LinkEnd,
    },
}

/// What is to be done, in turn.
enum Work {
    Election(Action),
    Link(LinkAction),
    /// A message of this server to itself.
    Own(Notification),
    /// A newer list was seen, and maybe the message is still to be heard.
    Adopt(Sid, Box<Heard>),
}

pub(super) struct Actor {
    settings: Arc<MeshSettings>,
    lists: Lists,
    role: Role,
    /// Where this server listens, and what it tells others.
    own: Vec<Endpoint>,
    election: Election,
    links: Links,
    candidate: Candidate,
    oracle: Option<OracleFile>,
    /// When the server began to look, if it does.
    looking_since: Option<i64>,
    work: VecDeque<Work>,
    connections: Connections,
    orders: mpsc::UnboundedReceiver<Order>,
    inputs: mpsc::Receiver<Input>,
    door: Door,
    listeners: JoinSet<BindError>,
    metrics: Arc<Metrics>,
    sink: EventSink,
}

impl Actor {
    pub(super) fn new(
        start: MeshStart,
        orders: mpsc::UnboundedReceiver<Order>,
    ) -> Result<Self, ElectorateError> {
        let settings = Arc::new(start.settings);
        let me = settings.me;
        let lists = Lists::new(start.committed, start.proposed);
        let role = electorate::role_in(&lists.committed, me);
        let candidate = start.candidate;
        let electorate = lists.electorate()?;
        let (sender, inputs) = mpsc::channel(INPUTS_MAX);
        let door = Door {
            settings: settings.clone(),
            inputs: sender,
            complaints: Arc::default(),
        };
        let mut actor = Self {
            role,
            own: lists.own_endpoints(me).unwrap_or_default(),
            election: Election::new(me, role, settings.election, electorate, candidate),
            links: Links::new(me, lists.sids()),
            lists,
            candidate,
            oracle: settings.oracle_path.clone().map(OracleFile::new),
            looking_since: None,
            work: VecDeque::new(),
            connections: Connections::new(door.clone()),
            orders,
            inputs,
            door,
            settings,
            listeners: JoinSet::new(),
            metrics: start.metrics,
            sink: start.sink,
        };
        actor.listen();
        Ok(actor)
    }

    /// Runs until told to stop, or until the handle is gone.
    pub(super) async fn run(mut self) {
        loop {
            self.handle_due().await;
            let pause = self.pause();
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    #[cfg(test)]
                    Some(Order::Stop) => break,
                    None => break,
                    Some(order) => self.handle_order(order).await,
                },
                input = self.inputs.recv() => {
                    if let Some(input) = input {
                        self.handle_input(input);
                    }
                }
                () = self.connections.reap() => continue,
                Some(ended) = self.listeners.join_next(), if !self.listeners.is_empty() => {
                    self.handle_listener_end(ended.ok());
                }
                () = sleep(pause) => continue,
            }
            self.carry_out().await;
        }
        self.listeners.shutdown().await;
        self.connections.shutdown().await;
    }

    fn pause(&self) -> Duration {
        let deadlines = [self.election.next_deadline(), self.links.next_deadline()];
        let Some(next_ms) = deadlines.into_iter().flatten().min() else {
            return IDLE;
        };
        let pause_ms = next_ms.saturating_sub(clock::session_ms());
        Duration::from_millis(u64::try_from(pause_ms).unwrap_or(0)).min(IDLE)
    }

    /// Also looked at between messages, so that a talkative server does not hold up an election.
    async fn handle_due(&mut self) {
        let now_ms = clock::session_ms();
        let is_due = |at_ms: Option<i64>| at_ms.is_some_and(|at_ms| at_ms <= now_ms);
        if is_due(self.links.next_deadline()) {
            let mut out = Vec::new();
            self.links.handle_deadline(now_ms, &mut out);
            self.queue_links(out);
        }
        if is_due(self.election.next_deadline()) {
            if let Some(oracle) = &mut self.oracle {
                let said = oracle.ask().await;
                self.election.handle_oracle(Some(said), now_ms);
            }
            let mut out = Vec::new();
            self.election.handle_deadline(now_ms, &mut out);
            self.queue_actions(out);
        }
        self.carry_out().await;
    }

    async fn handle_order(&mut self, order: Order) {
        match order {
            Order::Look(candidate) => {
                self.candidate = candidate;
                self.looking_since = Some(clock::session_ms());
                self.start_round();
            }
            Order::EpochActive(epoch) => self.election.handle_epoch_active(epoch),
            Order::EndRole => self.election.end_role(),
            Order::Appoint(state, vote) => {
                self.looking_since = None;
                self.election.appoint(state, vote);
            }
            Order::Configure {
                committed,
                proposed,
                role,
            } => {
                let role = electorate::role(role);
                self.configure(Lists::new(committed, proposed), role).await;
            }
            Order::OracleNeeded(is_needed) => {
                if let Some(oracle) = &mut self.oracle {
                    oracle.set_needed(is_needed);
                }
            }
            #[cfg(test)]
            Order::Stop => {}
        }
    }

    fn start_round(&mut self) {
        let mut out = Vec::new();
        self.election
            .start(self.candidate, clock::session_ms(), &mut out);
        self.queue_actions(out);
    }

    async fn configure(&mut self, lists: Lists, role: Role) {
        let electorate = match lists.electorate() {
            Ok(electorate) => electorate,
            Err(error) => {
                let version = lists.committed.version;
                return tracing::error!(%version, err = %error, "member list not used in elections");
            }
        };
        self.install(lists).await;
        let has_changed = std::mem::replace(&mut self.role, role) != role;
        if has_changed && self.election.proposal().is_some() {
            self.election.reset(role, electorate, self.candidate);
            self.start_round();
        } else {
            self.election.set_role(role);
            self.election
                .set_electorate(electorate, clock::session_ms());
        }
    }

    /// All but the election itself.
    async fn install(&mut self, lists: Lists) {
        self.links.set_members(lists.sids());
        self.connections.forget_unreachable(|_| true);
        let own = lists.own_endpoints(self.settings.me);
        self.lists = lists;
        if let Some(own) = own.filter(|own| *own != self.own) {
            self.own = own;
            self.listeners.shutdown().await;
            self.listen();
        }
    }

    /// A newer list was seen while this server looks.
    async fn adopt(&mut self, from: Sid, heard: Heard) {
        let multi_address = self.settings.multi_address;
        let seen = electorate::read_list(&heard.notification, multi_address);
        let is_newer = |seen: &Membership| seen.version > self.lists.committed.version;
        let Some(seen) = seen.filter(is_newer) else {
            return;
        };
        let lists = Lists::new(seen.clone(), self.lists.proposed.clone());
        let electorate = match lists.electorate() {
            Ok(electorate) => electorate,
            Err(error) => {
                if let Some(left_out) = self.door.complaints.admit() {
                    tracing::warn!(%from, version = %seen.version, err = %error, left_out, "member list of another server not taken over");
                }
                return;
            }
        };
        tracing::info!(%from, version = %seen.version, "newer member list of another server taken over");
        let is_different = !self.lists.committed.has_same_members(&seen);
        self.install(lists).await;
        self.role = electorate::role_in(&seen, self.settings.me);
        let membership = seen;
        (self.sink)(MeshEvent::ConfigSeen { from, membership });
        if is_different {
            let has_started = self.election.proposal().is_some();
            self.election.reset(self.role, electorate, self.candidate);
            if has_started {
                self.start_round();
            }
        } else {
            self.election
                .set_electorate(electorate, clock::session_ms());
            self.hear(from, heard);
        }
    }

    fn handle_input(&mut self, input: Input) {
        let mut out = Vec::new();
        let now_ms = clock::session_ms();
        match input {
            Input::Hello {
                stream,
                peer,
                hello,
                rest,
            } => {
                tracing::debug!(%peer, sid = %hello.sid, "election connection");
                let peer = Some(peer);
                let connection = self.connections.number(Undecided { stream, peer, rest });
                self.links.handle_hello(connection, &hello, &mut out);
            }
            Input::Dialled { sid, result } => match result {
                Ok(stream) => {
                    self.connections
                        .forget_unreachable(|unreachable| unreachable == sid);
                    let (peer, rest) = (None, Vec::new());
                    let connection = self.connections.number(Undecided { stream, peer, rest });
                    self.links.handle_dialled(sid, connection, now_ms, &mut out);
                }
                Err(error) => {
                    if self.lists.sids().contains(&sid) {
                        self.connections.tell_unreachable(sid, &error);
                    }
                    self.links.handle_dial_failed(sid, now_ms);
                    if error.is_refusal() {
                        self.election.handle_peer_refused(sid, now_ms);
                    }
                }
            },
            Input::Heard { connection, heard } => {
                // A replaced connection may still have had something to say.
                if let Some(sid) = self.connections.sid(connection) {
                    tracing::trace!(%sid, notification = ?heard.notification, "heard");
                    self.hear(sid, *heard);
                }
            }
            Input::Closed { connection, end } => {
                if self.connections.handle_end(connection, &end) {
                    self.links.handle_closed(connection, &mut out);
                }
            }
        }
        self.queue_links(out);
    }

    fn hear(&mut self, from: Sid, heard: Heard) {
        let mut out = Vec::new();
        let now_ms = clock::session_ms();
        self.election
            .handle_notification(from, &heard, now_ms, &mut out);
        let is_config = |action: &Action| matches!(action, Action::ConfigSeen { .. });
        if out.iter().any(is_config) {
            self.work.push_back(Work::Adopt(from, Box::new(heard)));
        }
        self.queue_actions(out);
    }

    fn queue_actions(&mut self, actions: Vec<Action>) {
        self.work.extend(actions.into_iter().map(Work::Election));
    }

    fn queue_links(&mut self, actions: Vec<LinkAction>) {
        self.work.extend(actions.into_iter().map(Work::Link));
    }

    /// In turn: what an action brings about stands behind what was there before it.
    async fn carry_out(&mut self) {
        while let Some(work) = self.work.pop_front() {
            match work {
                Work::Election(action) => self.obey_election(action),
                Work::Link(action) => self.obey_link(action),
                Work::Own(notification) => self.hear(self.settings.me, notification.into()),
                Work::Adopt(from, heard) => self.adopt(from, *heard).await,
            }
        }
    }

    fn obey_election(&mut self, action: Action) {
        match action {
            Action::Send { to, notification } if to == self.settings.me => {
                self.work.push_back(Work::Own(notification));
            }
            Action::Send { to, notification } => {
                let mut out = Vec::new();
                let now_ms = clock::session_ms();
                self.links.send(to, notification, now_ms, &mut out);
                self.queue_links(out);
            }
            Action::Elected { state, vote, round } => {
                let since_ms = self.looking_since.take();
                let took_ms = since_ms.map_or(0, |since_ms| clock::session_ms() - since_ms);
                let took_ms = u64::try_from(took_ms).unwrap_or(0);
                self.metrics.election_time.record(took_ms);
                let leader = vote.leader;
                tracing::info!(role = role_name(state), %leader, %vote, %round, took_ms, "elected");
                (self.sink)(MeshEvent::Elected { state, vote, round });
            }
            // Comes with the message, as `Work::Adopt`.
            Action::ConfigSeen { .. } => {}
            Action::SupporterLooks { sid } => (self.sink)(MeshEvent::SupporterLooks { sid }),
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

    fn obey_link(&mut self, action: LinkAction) {
        match action {
            LinkAction::Dial { sid, mut at } => {
                at.extend(self.lists.election_endpoints(sid));
                self.connections.dial(Call {
                    sid,
                    at,
                    own: self.own.clone(),
                    settings: self.settings.clone(),
                });
            }
            LinkAction::Keep { connection, sid } => {
                self.connections.keep(connection, sid);
                let mut out = Vec::new();
                self.election.handle_peer_up(sid, &mut out);
                self.queue_actions(out);
            }
            LinkAction::Close { connection, reason } => self.connections.close(connection, reason),
            LinkAction::Down { sid } => {
                self.election.handle_peer_down(sid, clock::session_ms());
            }
            LinkAction::Write {
                connection,
                notification,
            } => self.connections.write(connection, notification),
        }
    }

    fn listen(&mut self) {
        for place in listener::places(&self.own, self.settings.listen_on_all_ips) {
            self.listeners
                .spawn(listener::listen(place, self.door.clone()));
        }
    }

    /// One of several addresses is enough.
    fn handle_listener_end(&mut self, ended: Option<BindError>) {
        let Some(error) = ended else {
            return;
        };
        tracing::error!(err = %error, "election port not bound");
        if self.listeners.is_empty() {
            (self.sink)(MeshEvent::Failed { error });
        }
    }
}

/// ZooKeeper's word for a role.
fn role_name(state: PeerState) -> &'static str {
    match state {
        PeerState::Leading => "LEADING",
        PeerState::Observing => "OBSERVING",
        PeerState::Following | PeerState::Looking | PeerState::Unknown(_) => "FOLLOWING",
    }
}
