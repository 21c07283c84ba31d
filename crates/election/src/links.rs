//! Connections between servers: which one is kept, and when one is dialled.
//!
//! Two servers share one connection, to the election address. The server with the higher sid owns
//! it, so two simultaneous dials do not result in two connections or none. The other server can
//! only *knock*: it connects, introduces itself and closes the connection. The owner then calls
//! back.
//!
//! ```text
//!            send, connection missing               this side owns it: hello written
//!   nothing ------------------------> dialling ---------------------------------------> open
//!      ^  ^                            |    |                                            |
//!      |  |      fails: pause, doubles |    | peer owns it: hello written, closed        |
//!      |  +----------------------------+    v                                            |
//!      |  pause over, no call             knocked --- peer calls, hello received ------> |
//!      |<---------------------------------- +                                            |
//!      +---------------------------------------------------------------------------------+
//!                                    closed, or the peer knocks again (a new process)
//! ```
//!
//! Without a connection, a notification waits in a queue of one, because a vote makes every older
//! one obsolete. Java dials again with every message. Here an unreachable server is dialled after
//! pauses that double (ZOOKEEPER-2164, 3756), and a knock ends the pause.
//!
//! The host resolves host names at every [`LinkAction::Dial`], and does not cache them.
//!
//! Source: QuorumCnxManager.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use proto::Sid;
use proto::hello::{Endpoint, Hello};
use proto::notification::Notification;

use crate::Ballot;
use crate::limits::{DIAL_PAUSE_MAX_MS, DIAL_PAUSE_MIN_MS, STRANGERS_MAX};

/// Number that the host assigned to a connection. Numbers are not reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// Reason to close a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The dialler has this server's sid, because two servers have the same `myid`.
    OwnSid,
    /// The other server has the higher sid and calls back.
    Knocked,
    /// The dialler has the lower sid. This server calls it back.
    CallBack,
    /// A newer connection to the server replaces this one.
    Replaced,
    /// Too many servers outside the member list are connected.
    TooManyStrangers,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OwnSid => "the other server has this server's own sid",
            Self::Knocked => "the other server connects back",
            Self::CallBack => "this server connects back",
            Self::Replaced => "a newer connection replaces this one",
            Self::TooManyStrangers => "too many servers outside the member list",
        })
    }
}

/// Action of [`Links`] that the host must execute, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkAction {
    /// Connect, authenticate by SASL if configured, and write the hello. Then call
    /// [`Links::handle_dialled`] or [`Links::handle_dial_failed`].
    Dial {
        /// Server to connect to.
        sid: Sid,
        /// Addresses that the server reported. If empty, use the addresses in the configuration.
        at: Vec<Endpoint>,
    },
    /// Pass notifications on this connection to the election, and report that the peer is up.
    Keep {
        /// Connection to use.
        connection: ConnectionId,
        /// Server at its other end.
        sid: Sid,
    },
    /// Close the connection. Do not report its events any more.
    Close {
        /// Connection to close.
        connection: ConnectionId,
        /// Reason for the log.
        reason: CloseReason,
    },
    /// Report to the election that the peer is down.
    Down {
        /// Server that is down.
        sid: Sid,
    },
    /// Write this notification. It replaces one that is not written yet.
    Write {
        /// Connection to write to.
        connection: ConnectionId,
        /// Notification to write.
        notification: Notification,
    },
}

impl fmt::Display for LinkAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dial { sid, at } => {
                write!(f, "dial {sid}")?;
                at.iter().try_for_each(|endpoint| write!(f, " {endpoint}"))
            }
            Self::Keep { connection, sid } => write!(f, "keep {connection} of {sid}"),
            Self::Close { connection, reason } => write!(f, "close {connection}: {reason}"),
            Self::Down { sid } => write!(f, "down: {sid}"),
            Self::Write {
                connection,
                notification,
            } => write!(f, "write {connection}: {}", Ballot::of(notification)),
        }
    }
}

/// Connections of one server to all others.
///
/// Invariant: at most one connection and one dial for each server.
#[derive(Debug)]
pub struct Links {
    me: Sid,
    members: BTreeSet<Sid>,
    /// State of members, and of servers outside the list that are connected or being called back.
    peers: BTreeMap<Sid, Peer>,
    /// Next sid for an observer without a sid: -1, -2 and so on.
    next_anonymous: i64,
}

#[derive(Debug, Default)]
struct Peer {
    connection: Option<ConnectionId>,
    is_dialling: bool,
    /// Time before which the server is not dialled, unless it knocks, ms; `None` without a pause.
    dial_at_ms: Option<i64>,
    pause_ms: i64,
    /// Addresses in the server's last hello. Cleared when a connection is established or a dial
    /// fails.
    at: Vec<Endpoint>,
    waiting: Option<Notification>,
}

impl Links {
    /// Creates the state without connections. `members` are all servers in a configuration,
    /// including observers.
    pub fn new(me: Sid, members: BTreeSet<Sid>) -> Self {
        Self {
            me,
            members,
            peers: BTreeMap::new(),
            next_anonymous: -1,
        }
    }

    /// Sends a notification, or stores it and dials. A notification for a server outside the list
    /// is dropped unless the server is connected or being dialled, because its address is unknown.
    pub fn send(
        &mut self,
        to: Sid,
        notification: Notification,
        now_ms: i64,
        out: &mut Vec<LinkAction>,
    ) {
        if to == self.me || !(self.members.contains(&to) || self.peers.contains_key(&to)) {
            return;
        }
        let peer = self.peers.entry(to).or_default();
        if let Some(connection) = peer.connection {
            out.push(LinkAction::Write {
                connection,
                notification,
            });
            return;
        }
        peer.waiting = Some(notification);
        if !peer.is_dialling && peer.dial_at_ms.is_none_or(|at_ms| at_ms <= now_ms) {
            peer.dial(to, out);
        }
    }

    /// Handles a successful dial, in which the hello was written.
    pub fn handle_dialled(
        &mut self,
        sid: Sid,
        connection: ConnectionId,
        now_ms: i64,
        out: &mut Vec<LinkAction>,
    ) {
        let peer = self.peers.entry(sid).or_default();
        peer.is_dialling = false;
        if self.me > sid {
            return peer.keep(sid, connection, out);
        }
        let reason = CloseReason::Knocked;
        out.push(LinkAction::Close { connection, reason });
        if peer.connection.is_none() {
            // The server should connect back. In case it does not, the next dial is scheduled, as
            // after a failed dial.
            peer.pause(now_ms);
        }
        self.forget_stranger(sid);
    }

    /// Handles a failed dial.
    pub fn handle_dial_failed(&mut self, sid: Sid, now_ms: i64) {
        if let Some(peer) = self.peers.get_mut(&sid) {
            peer.is_dialling = false;
            peer.at.clear();
            peer.pause(now_ms);
            self.forget_stranger(sid);
        }
    }

    /// Handles a server that connected and introduced itself. It need not be a member.
    pub fn handle_hello(
        &mut self,
        connection: ConnectionId,
        hello: &Hello,
        out: &mut Vec<LinkAction>,
    ) {
        let close = |reason| LinkAction::Close { connection, reason };
        if hello.sid == self.me {
            return out.push(close(CloseReason::OwnSid));
        }
        let sid = self.name(hello);
        let is_known = self.members.contains(&sid) || self.peers.contains_key(&sid);
        if !is_known && self.strangers() >= STRANGERS_MAX {
            return out.push(close(CloseReason::TooManyStrangers));
        }
        let peer = self.peers.entry(sid).or_default();
        if sid > self.me {
            return peer.keep(sid, connection, out);
        }
        // The other server would not connect again if it still had the old connection.
        peer.drop_connection(sid, out);
        out.push(close(CloseReason::CallBack));
        peer.at = hello.dial_back().cloned().collect();
        peer.pause_ms = 0;
        let has_address = self.members.contains(&sid) || !peer.at.is_empty();
        if !peer.is_dialling && has_address {
            peer.dial(sid, out);
        }
        self.forget_stranger(sid);
    }

    /// Handles the end of a connection in use, closed by either side.
    pub fn handle_closed(&mut self, connection: ConnectionId, out: &mut Vec<LinkAction>) {
        let mut peers = self.peers.iter_mut();
        let Some((sid, peer)) = peers.find(|(_, peer)| peer.connection == Some(connection)) else {
            return;
        };
        let sid = *sid;
        peer.connection = None;
        out.push(LinkAction::Down { sid });
        self.forget_stranger(sid);
    }

    /// Handles the deadline returned by [`Links::next_deadline`].
    pub fn handle_deadline(&mut self, now_ms: i64, out: &mut Vec<LinkAction>) {
        for (sid, peer) in &mut self.peers {
            if peer.wants_dial().is_some_and(|at_ms| at_ms <= now_ms) {
                peer.dial(*sid, out);
            }
        }
    }

    /// Returns the time of the next scheduled dial, ms.
    pub fn next_deadline(&self) -> Option<i64> {
        self.peers.values().filter_map(Peer::wants_dial).min()
    }

    /// Returns whether the server is connected.
    pub fn is_up(&self, sid: Sid) -> bool {
        let peer = self.peers.get(&sid);
        peer.is_some_and(|peer| peer.connection.is_some())
    }

    /// Sets the members. Connections remain open, because a removed server may still need answers.
    pub fn set_members(&mut self, members: BTreeSet<Sid>) {
        self.members = members;
        let members = &self.members;
        self.peers
            .retain(|sid, peer| members.contains(sid) || peer.is_busy());
    }

    fn strangers(&self) -> usize {
        let sids = self.peers.keys();
        sids.filter(|sid| !self.members.contains(sid)).count()
    }

    /// Removes the state of a server outside the list unless it is connected or being dialled.
    fn forget_stranger(&mut self, sid: Sid) {
        let is_busy = self.peers.get(&sid).is_some_and(Peer::is_busy);
        if !is_busy && !self.members.contains(&sid) {
            self.peers.remove(&sid);
        }
    }

    fn name(&mut self, hello: &Hello) -> Sid {
        if !hello.is_anonymous() {
            return hello.sid;
        }
        let sid = Sid(self.next_anonymous);
        self.next_anonymous = self.next_anonymous.checked_sub(1).unwrap_or(-1);
        sid
    }
}

impl Peer {
    fn dial(&mut self, sid: Sid, out: &mut Vec<LinkAction>) {
        self.is_dialling = true;
        self.dial_at_ms = None;
        let at = self.at.clone();
        out.push(LinkAction::Dial { sid, at });
    }

    fn is_busy(&self) -> bool {
        self.connection.is_some() || self.is_dialling
    }

    fn pause(&mut self, now_ms: i64) {
        let doubled_ms = self.pause_ms.saturating_mul(2);
        self.pause_ms = doubled_ms.clamp(DIAL_PAUSE_MIN_MS, DIAL_PAUSE_MAX_MS);
        self.dial_at_ms = Some(now_ms.saturating_add(self.pause_ms));
    }

    /// Returns the time at which to dial for a waiting notification, ms.
    fn wants_dial(&self) -> Option<i64> {
        let is_wanted = !self.is_busy() && self.waiting.is_some();
        self.dial_at_ms.filter(|_| is_wanted)
    }

    fn drop_connection(&mut self, sid: Sid, out: &mut Vec<LinkAction>) {
        if let Some(connection) = self.connection.take() {
            let reason = CloseReason::Replaced;
            out.push(LinkAction::Close { connection, reason });
            out.push(LinkAction::Down { sid });
        }
    }

    fn keep(&mut self, sid: Sid, connection: ConnectionId, out: &mut Vec<LinkAction>) {
        self.drop_connection(sid, out);
        self.connection = Some(connection);
        self.dial_at_ms = None;
        self.pause_ms = 0;
        self.at.clear();
        out.push(LinkAction::Keep { connection, sid });
        if let Some(notification) = self.waiting.take() {
            out.push(LinkAction::Write {
                connection,
                notification,
            });
        }
    }
}
