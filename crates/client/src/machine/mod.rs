//! Session as a state machine. Its inputs are frames, calls and the time. Its outputs are frames,
//! events and instructions to its host.
//!
//! ```text
//!   Pausing --time--> Dialing --handle_dialed(ok)--> Connected --handle_lost--> Pausing
//!      ^                 |                               |
//!      +--- refused -----+                          closeSession
//!                        |                               v
//!                  session ended, login refused   -->  Ended   (with renewal: Pausing, no session)
//! ```
//!
//! The machine does not use a socket, a clock or a task. `now` is the time since an arbitrary fixed
//! moment, and [`HostOrder`] names the server to dial. The machine appends outgoing frames to a
//! buffer of its host. [`crate::driver`] is the host on tokio.

mod calls;
mod hosts;
mod in_flight;
pub(crate) mod watches;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jute::Str;
use parking_lot::Mutex;
use proto::{OpCode, SessionId, Xid, Zxid};
use tokio::sync::{broadcast, mpsc};

use crate::cleanup::{Cleanup, CleanupQueue};
use crate::error::{Call, Error, LossReason, Result};
use crate::frame::put_request;
use crate::handshake::{Accepted, Handshake, Session};
use crate::limits::{IN_FLIGHT_MAX, OUTBOUND_BYTES_MAX};
use crate::options::Options;
use crate::state::{State, WatchEvent};
use crate::state_channel::StateSender;

pub(crate) use calls::Command;
pub(crate) use hosts::Hosts;
use in_flight::InFlight;
pub use in_flight::Reply;
use watches::Watches;
pub use watches::{AddWatchMode, WatchKind};
pub(crate) use watches::{Registration, WatchEffect};

/// Instruction to the host.
#[derive(Debug)]
pub(crate) enum HostOrder {
    /// Connects to this server with this handshake. The result goes to [`Machine::handle_dialed`].
    Dial {
        server: Arc<str>,
        handshake: Box<Handshake>,
    },
}

/// A session and its successive connections.
pub(crate) struct Machine {
    options: Options,
    hosts: Hosts,
    new_servers: NewServers,
    /// Calls that the machine has not yet accepted.
    pub(crate) inbox: mpsc::Receiver<Command>,
    cleanups: Arc<CleanupQueue>,
    /// Background work that waits for a connection.
    undone: VecDeque<Cleanup>,
    /// Background work to send at a later time.
    later: Vec<LaterCleanup>,
    events: broadcast::Sender<WatchEvent>,
    state: StateSender,
    /// Session that the handles see.
    session: Arc<Mutex<Session>>,
    /// Whether the next handshake requests a new session.
    wants_new_session: bool,
    /// Whether a server with a quorum has accepted the session. Other servers do not know the
    /// session of a read-only server. Source: ClientCnxn.seenRwServerBefore.
    is_known_to_quorum: bool,
    timeout: Duration,
    last_zxid: Zxid,
    watches: Watches,
    /// Packets of the successful auth requests, in order.
    auths: Vec<Bytes>,
    next_xid: i32,
    /// Time at which the newest answered request was sent, or the time of the session's end. The
    /// session lasts, or calls wait for the next session, at least one timeout from this time on.
    touched: Duration,
    /// Whether no server was reached for a whole session timeout, so that calls do not wait.
    is_unreachable: bool,
    /// Error of the last connection attempt since the connection was lost.
    dial_error: Option<Error>,
    phase: Phase,
}

/// Background work, and the time at which it is sent.
struct LaterCleanup {
    due: Duration,
    cleanup: Cleanup,
}

enum Phase {
    Pausing { until: Duration },
    Dialing { since: Duration },
    Connected(Box<ServerConnection>),
    Ended,
}

/// One connection and its state.
struct ServerConnection {
    server: Arc<str>,
    in_flight: InFlight,
    /// Number of unanswered auth requests from [`Machine::restore`]. Callers do not wait for them.
    auths_restored: usize,
    /// Times at which the unanswered pings were sent.
    pings: VecDeque<Duration>,
    last_sent: Duration,
    last_heard: Duration,
    /// Whether the server has answered a request or a ping without an error. Before that, the
    /// connection counts as a failed attempt, because a server may accept a session, refuse its
    /// watches, and close the connection, each time again.
    has_served: bool,
    /// Whether a closeSession request was sent. The client sends nothing after it. The server
    /// closes the connection without reading further requests, and an unread request could make the
    /// operating system discard the answer to closeSession.
    is_closing: bool,
    is_closed: bool,
    /// Whether the new list of servers does not contain this server. The client then sends no more
    /// requests, and moves to another server when this server has answered all requests in flight.
    is_removed: bool,
}

impl ServerConnection {
    /// Describes a request that the machine itself sends on this connection.
    fn call(&self, op: OpCode, path: Str) -> Call {
        Call {
            op,
            path: Some(path),
            server: Arc::clone(&self.server),
        }
    }
}

/// Servers that replace the known servers at the next connection attempt.
pub(crate) type NewServers = Arc<Mutex<Option<Vec<Arc<str>>>>>;

/// Returns whether a new list of servers exists and does not contain this server.
fn is_removed(new_servers: &NewServers, server: &Arc<str>) -> bool {
    let new_servers = new_servers.lock();
    new_servers
        .as_ref()
        .is_some_and(|servers| !servers.contains(server))
}

/// State that a machine shares with the handles of its session.
pub(crate) struct MachineChannels {
    pub(crate) new_servers: NewServers,
    pub(crate) inbox: mpsc::Receiver<Command>,
    pub(crate) cleanups: Arc<CleanupQueue>,
    pub(crate) events: broadcast::Sender<WatchEvent>,
    pub(crate) state: StateSender,
    pub(crate) session: Arc<Mutex<Session>>,
}

impl Machine {
    /// Creates the machine for a new or continued session. A call to
    /// [`handle_dialed`](Self::handle_dialed) must follow.
    pub(crate) fn new(
        options: Options,
        hosts: Hosts,
        ends: MachineChannels,
        dialed: Duration,
    ) -> Self {
        Self {
            is_known_to_quorum: options.session.is_some(),
            options,
            hosts,
            new_servers: ends.new_servers,
            inbox: ends.inbox,
            cleanups: ends.cleanups,
            undone: VecDeque::new(),
            later: Vec::new(),
            events: ends.events,
            state: ends.state,
            session: ends.session,
            wants_new_session: false,
            timeout: Duration::ZERO,
            last_zxid: Zxid::ZERO,
            watches: Watches::default(),
            auths: Vec::new(),
            next_xid: 1,
            touched: dialed,
            is_unreachable: false,
            dial_error: None,
            phase: Phase::Dialing { since: dialed },
        }
    }

    pub(crate) fn session_id(&self) -> SessionId {
        self.session.lock().id
    }

    pub(crate) fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    pub(crate) fn is_connected(&self) -> bool {
        matches!(self.phase, Phase::Connected(_))
    }

    /// Returns the latest time for the next call to [`handle_deadline`](Self::handle_deadline).
    pub(crate) fn deadline(&self) -> Option<Duration> {
        match &self.phase {
            Phase::Connected(link) => {
                let due = self.later.iter().map(|later| later.due).min();
                let at = self.ping_at(link).min(self.dead_at(link));
                Some(due.map_or(at, |due| at.min(due)))
            }
            Phase::Pausing { until } => {
                Some(self.unreachable_at().map_or(*until, |at| at.min(*until)))
            }
            Phase::Dialing { .. } => self.unreachable_at(),
            Phase::Ended => None,
        }
    }

    /// Returns the server to dial, if the pause has ended.
    pub(crate) fn poll_order(&mut self, now: Duration) -> Option<HostOrder> {
        let Phase::Pausing { until } = self.phase else {
            return None;
        };
        if now < until {
            return None;
        }
        if let Some(servers) = self.new_servers.lock().take() {
            self.hosts.replace(servers);
        }
        self.phase = Phase::Dialing { since: now };
        let session = self.offers_session().then(|| self.session.lock().clone());
        // Each server gets its share of the time before the session is lost. Source:
        // ClientCnxn.connectTimeout.
        let servers = u32::try_from(self.hosts.len().max(1)).unwrap_or(u32::MAX);
        let turn = (self.timeout / servers).max(DIAL_TIME_MIN);
        Some(HostOrder::Dial {
            server: self.hosts.current(),
            handshake: Box::new(Handshake {
                session,
                last_zxid_seen: self.last_zxid,
                connect_timeout: self.options.connect_timeout.min(turn),
                ..self.options.handshake()
            }),
        })
    }

    /// Handles the result of a [`HostOrder::Dial`].
    pub(crate) fn handle_dialed(
        &mut self,
        outcome: Result<Accepted>,
        out: &mut Vec<u8>,
        now: Duration,
    ) {
        if self.is_ended() {
            return;
        }
        let error = match outcome {
            Ok(accepted) => return self.connect(accepted, out, now),
            Err(error) => error,
        };
        tracing::debug!(session = %self.session_id(), %error, "not connected");
        match error {
            // If the client wants a new session, the server refuses new sessions. This is a failed
            // attempt like any other.
            Error::SessionExpired { .. } if self.offers_session() => {
                if self.options.is_renewed {
                    self.renew(now);
                } else {
                    self.end(State::Expired);
                }
            }
            // Does not repeat the login. Repeated failures look like an attempt to guess the
            // password.
            Error::Login { server, reason } => {
                tracing::warn!(session = %self.session_id(), %server, %reason, "login refused");
                self.end(State::LoginRefused { server, reason });
            }
            // All handles have been dropped, so a connection would be useless.
            _ if self.inbox.is_closed() && self.inbox.is_empty() => self.end(State::Closed),
            error => {
                if self.is_unreachable && self.refuse_waiting(&error) {
                    return self.end(State::Closed);
                }
                self.dial_error = Some(error);
                let until = now + self.hosts.handle_failed();
                self.phase = Phase::Pausing { until };
            }
        }
    }

    /// Returns whether a handshake continues the session.
    fn offers_session(&self) -> bool {
        !self.wants_new_session && self.is_known_to_quorum
    }

    fn connect(&mut self, accepted: Accepted, out: &mut Vec<u8>, now: Duration) {
        if let Phase::Dialing { since } = self.phase {
            self.touched = since;
        }
        self.is_unreachable = false;
        self.dial_error = None;
        self.is_known_to_quorum |= !accepted.read_only;
        let connected = State::connected(self.hosts.current(), &accepted);
        self.timeout = accepted.session_timeout;
        *self.session.lock() = accepted.session;
        self.wants_new_session = false;
        let mut link = ServerConnection {
            server: self.hosts.current(),
            in_flight: InFlight::default(),
            auths_restored: self.auths.len(),
            pings: VecDeque::new(),
            last_sent: now,
            last_heard: now,
            has_served: false,
            is_closing: false,
            is_closed: false,
            is_removed: is_removed(&self.new_servers, &self.hosts.current()),
        };
        self.restore(out);
        self.watches.handle_reconnect();
        self.state.send(connected);
        while let Some(cleanup) = self.undone.pop_front() {
            self.send_cleanup(&mut link, cleanup, out, now);
        }
        self.phase = Phase::Connected(Box::new(link));
    }

    /// Appends the requests that restore credentials and watches on a new connection.
    fn restore(&self, out: &mut Vec<u8>) {
        for packet in &self.auths {
            put_request(Xid::AUTH, OpCode::Auth.number(), out, |out| {
                out.extend_from_slice(packet);
            });
        }
        for request in self.watches.set_again(self.last_zxid) {
            // Servers before 3.6 close the connection after a setWatches2.
            let op = request.op();
            put_request(Xid::SET_WATCHES, op.number(), out, |out| {
                request.encode(op, out);
            });
        }
    }

    /// Records whether a new list of servers omits the connected server.
    pub(crate) fn handle_new_servers(&mut self) {
        if let Phase::Connected(link) = &mut self.phase {
            link.is_removed = is_removed(&self.new_servers, &link.server);
        }
    }

    /// Checks whether the client must leave a server that was removed from the list. The client
    /// stays until the server has answered all requests.
    ///
    /// # Errors
    /// [`LossReason::ServerRemoved`] if the client must connect to another server.
    pub(crate) fn leave_removed_server(&self) -> Result<(), LossReason> {
        match &self.phase {
            Phase::Connected(link) if link.is_removed && link.in_flight.len() == 0 => {
                Err(LossReason::ServerRemoved)
            }
            _ => Ok(()),
        }
    }

    /// Handles the loss of the connection.
    pub(crate) fn handle_lost(&mut self, reason: &LossReason, now: Duration) {
        let Phase::Connected(link) = &mut self.phase else {
            return;
        };
        let cleanups = link.in_flight.fail_all(reason);
        let (is_closed, has_served) = (link.is_closed, link.has_served);
        self.undone.extend(cleanups);
        if is_closed {
            return self.end(State::Closed);
        }
        tracing::debug!(session = %self.session_id(), %reason, "connection lost");
        let pause = if has_served {
            self.hosts.handle_lost();
            Duration::ZERO
        } else {
            self.hosts.handle_failed()
        };
        self.phase = Phase::Pausing { until: now + pause };
        self.state.send(State::Reconnecting);
        if self.inbox.is_closed() && self.inbox.is_empty() {
            self.end(State::Closed);
        }
    }

    /// Sends a ping or background work if it is due. Without a connection, handles the end of the
    /// session timeout.
    ///
    /// # Errors
    /// If the connection is dead.
    pub(crate) fn handle_deadline(
        &mut self,
        out: &mut Vec<u8>,
        now: Duration,
    ) -> Result<(), LossReason> {
        if self.unreachable_at().is_some_and(|at| now >= at) {
            self.give_up_waiting(now);
        }
        let Phase::Connected(link) = &self.phase else {
            return Ok(());
        };
        if now >= self.dead_at(link) {
            let silent = now.saturating_sub(link.last_heard);
            return Err(LossReason::Silent { silent });
        }
        if now >= self.ping_at(link) {
            self.ping(out, now);
        }
        self.send_due_cleanups(out, now);
        Ok(())
    }

    fn ping(&mut self, out: &mut Vec<u8>, now: Duration) {
        let Phase::Connected(link) = &mut self.phase else {
            return;
        };
        put_request(Xid::PING, OpCode::Ping.number(), out, |_| ());
        link.last_sent = now;
        link.pings.push_back(now);
        // Limits the memory used when a server answers other requests, but not pings.
        if link.pings.len() > IN_FLIGHT_MAX {
            link.pings.pop_front();
        }
    }

    fn send_due_cleanups(&mut self, out: &mut Vec<u8>, now: Duration) {
        let phase = std::mem::replace(&mut self.phase, Phase::Ended);
        if let Phase::Connected(mut link) = phase {
            for later in std::mem::take(&mut self.later) {
                if later.due <= now {
                    self.send_cleanup(&mut link, later.cleanup, out, now);
                } else {
                    self.later.push(later);
                }
            }
            self.phase = Phase::Connected(link);
        } else {
            self.phase = phase;
        }
    }

    /// Refuses the calls that wait for a connection. Reports that the session may have ended,
    /// unless a server has already reported its end.
    fn give_up_waiting(&mut self, now: Duration) {
        tracing::info!(session = %self.session_id(), "no server was reached for a whole session timeout");
        self.is_unreachable = true;
        if !self.wants_new_session {
            self.state.send(State::Lost);
        }
        let last = self.dial_error.clone().unwrap_or_else(|| {
            // No attempt has failed, so the first attempt is still waiting for its answer.
            let waited = match self.phase {
                Phase::Dialing { since } => now.saturating_sub(since),
                _ => Duration::ZERO,
            };
            Error::ConnectTimeout {
                server: self.hosts.current(),
                timeout: waited,
            }
        });
        if self.refuse_waiting(&last) {
            self.end(State::Closed);
        }
    }

    /// Returns the time from which calls do not wait for a connection, or `None` if the client is
    /// connected or this time has passed.
    fn unreachable_at(&self) -> Option<Duration> {
        let is_waiting = matches!(self.phase, Phase::Pausing { .. } | Phase::Dialing { .. });
        (is_waiting && !self.is_unreachable).then_some(self.touched + self.timeout)
    }

    /// Returns the time at which a silent connection is dead. A third of the session timeout
    /// remains to find another connection.
    fn dead_at(&self, link: &ServerConnection) -> Duration {
        (link.last_heard + self.timeout * 2 / 3).min(self.touched + self.timeout)
    }

    /// Returns the time of the next ping, which keeps the session alive.
    fn ping_at(&self, link: &ServerConnection) -> Duration {
        link.last_sent + self.ping_interval()
    }

    fn ping_interval(&self) -> Duration {
        (self.timeout / 3).min(Duration::from_secs(10))
    }

    /// Handles the end of the session. The next handshake requests a new session.
    fn renew(&mut self, now: Duration) {
        let session = self.session_id();
        tracing::info!(%session, "the session has expired, opening a new one");
        self.watches
            .end(&State::Expired.refusal(OpCode::Ping, session));
        self.last_zxid = Zxid::ZERO;
        self.wants_new_session = true;
        self.is_known_to_quorum = false;
        // A server was reached, so the calls may wait for a whole session timeout again.
        self.touched = now;
        self.is_unreachable = false;
        self.dial_error = None;
        self.state.send(State::Expired);
        self.phase = Phase::Pausing { until: now };
    }

    fn end(&mut self, state: State) {
        self.phase = Phase::Ended;
        let session = self.session_id();
        self.watches.end(&state.refusal(OpCode::AddWatch, session));
        self.state.send(state.clone());
        self.inbox.close();
        while let Ok(command) = self.inbox.try_recv() {
            let refusal = state.refusal(command.op, session);
            command.refuse(refusal);
        }
    }

    /// Ends the machine without closing the session. The session times out, or another process
    /// continues it.
    pub(crate) fn abandon(&mut self) {
        if let Phase::Connected(link) = &mut self.phase {
            link.in_flight.fail_all(&LossReason::ClosedByServer);
        }
        if !self.is_ended() {
            self.end(State::Closed);
        }
    }

    /// Returns whether the machine accepts more requests.
    pub(crate) fn has_room(&self, unsent: usize) -> bool {
        match &self.phase {
            Phase::Connected(link) => {
                !link.is_removed
                    && link.in_flight.len() < IN_FLIGHT_MAX
                    && unsent < OUTBOUND_BYTES_MAX
            }
            _ => false,
        }
    }

    /// Returns whether background work remains on the connection: requests without answers, or
    /// searches to repeat.
    pub(crate) fn has_cleanups(&self) -> bool {
        match &self.phase {
            Phase::Connected(link) => !self.later.is_empty() || link.in_flight.has_cleanups(),
            _ => false,
        }
    }
}

/// Minimum time for a server to accept the session, even with a short session timeout.
const DIAL_TIME_MIN: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests;
