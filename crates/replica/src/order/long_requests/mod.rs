//! Long requests at a leader: the limit on their bytes in progress, and the queue for requests
//! above it.
//!
//! A leader keeps several copies of a transaction until it is committed and on disk, for its log
//! and for each learner. The leader's host bounds the requests of its own clients, and Zoarium
//! learners bound the requests of their clients. An Apache ZooKeeper learner forwards every request
//! of its clients. A leader therefore limits the total size of long requests that are ordered and
//! not confirmed. It continues to read packets of its learners, because acknowledgements must not
//! wait after requests that wait for acknowledgements.
//!
//! ```text
//!   a request --> [waiting: long ones, and later ones of their sessions] --> ordered
//!                      | above the bound: only its position waits, answered by ThrottledOp
//!                      v
//!                 in progress: proposed --> committed, in this log, in the followers' logs
//! ```
//!
//! Waiting requests keep their order of arrival. A short request does not wait, except after a
//! waiting request of its session. A learner's `sync` also waits after the waiting `sync` requests
//! of the same connection, because the learner matches each answer with its oldest `sync`.

use std::collections::{HashMap, VecDeque};

use proto::learner::Touch;
use proto::request::WriteRequest;
use proto::{ErrorCode, SessionId, Zxid};
use zab::leader::LinkId;

use super::proposals::ServerRequest;
use crate::interface::input::{ClientRequest, Ticket};
use crate::limits::{
    LONG_BYTES_AHEAD_OF_FOLLOWERS, LONG_BYTES_UNDER_WAY, LONG_BYTES_WAITING,
    LONG_BYTES_WAITING_OF_LINK, LONG_REQUEST_BYTES,
};
use crate::session::Owner;

/// Item that a leader must order.
#[derive(Debug)]
pub(crate) enum OrderItem {
    /// A request that does not come from a client of this server.
    Order(ServerRequest),
    /// A learner's `sync`.
    Sync {
        /// Connection of the learner.
        link: LinkId,
        /// Session that requested the `sync`.
        session: SessionId,
    },
    /// A learner's query about a session. A request that makes the session global may precede it.
    /// The query does not wait for long requests, because a returning client must not wait for
    /// other clients. A session that a waiting request will make global is already known
    /// ([`Sessions::expect`](crate::session::Sessions::expect)).
    Revalidate {
        /// Connection of the learner.
        link: LinkId,
        /// Session that is queried.
        touch: Touch,
    },
    /// A request from a client of this server.
    Client(Box<ClientRequest>),
    /// A `sync` from a client of this server.
    OwnSync {
        /// Connection of the client.
        ticket: Ticket,
        /// Session that requested the `sync`.
        session: SessionId,
    },
}

impl OrderItem {
    fn session(&self) -> SessionId {
        match self {
            Self::Order(order) => order.session,
            Self::Sync { session, .. } | Self::OwnSync { session, .. } => *session,
            Self::Revalidate { touch, .. } => touch.session,
            Self::Client(request) => request.session,
        }
    }

    /// Returns the connection of the learner, if a learner sent the item.
    fn link(&self) -> Option<LinkId> {
        match self {
            Self::Order(order) => order.link,
            Self::Sync { link, .. } | Self::Revalidate { link, .. } => Some(*link),
            Self::Client(_) | Self::OwnSync { .. } => None,
        }
    }

    /// Returns the session that a learner's request makes global, its timeout in ms, and its owner.
    pub(crate) fn upgrade(&self) -> Option<(SessionId, i32, Owner)> {
        match self {
            Self::Order(order) => match order.request {
                Ok(WriteRequest::CreateSession { timeout_ms }) => {
                    Some((order.session, timeout_ms, order.owner))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the size of the request, bytes.
    fn bytes(&self) -> usize {
        match self {
            Self::Order(order) => order.bytes,
            Self::Client(request) => request.body.len(),
            Self::Sync { .. } | Self::Revalidate { .. } | Self::OwnSync { .. } => 0,
        }
    }

    /// Returns the size of a long request, bytes; 0 for other items.
    fn long_bytes(&self) -> usize {
        match self {
            Self::Order(order) => order.long_bytes(),
            Self::Client(request) => long_bytes(request.body.len()),
            Self::Sync { .. } | Self::Revalidate { .. } | Self::OwnSync { .. } => 0,
        }
    }
}

/// Returns the size of a request's record if it is long, bytes; otherwise 0.
pub(crate) fn long_bytes(bytes: usize) -> usize {
    if bytes > LONG_REQUEST_BYTES { bytes } else { 0 }
}

/// Long requests that are proposed and not confirmed.
#[derive(Debug)]
struct UnconfirmedRequests {
    bytes_max: usize,
    bytes: usize,
    proposals: VecDeque<(Zxid, usize)>,
}

impl UnconfirmedRequests {
    fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            bytes: 0,
            proposals: VecDeque::new(),
        }
    }

    /// Returns whether a request of this size fits. It always fits if no other request is
    /// unconfirmed.
    fn has_room(&self, bytes: usize) -> bool {
        self.bytes == 0 || self.bytes.saturating_add(bytes) <= self.bytes_max
    }

    fn push(&mut self, zxid: Zxid, bytes: usize) {
        self.bytes += bytes;
        self.proposals.push_back((zxid, bytes));
    }

    fn done(&mut self, upto: Zxid) {
        while let Some((zxid, bytes)) = self.proposals.front()
            && *zxid <= upto
        {
            self.bytes -= bytes;
            self.proposals.pop_front();
        }
    }
}

/// Numbers and size of the waiting items of a learner's connection.
#[derive(Debug, Default)]
struct LinkQueue {
    requests: usize,
    syncs: usize,
    bytes: usize,
}

/// State of the long requests. See the module's documentation.
#[derive(Debug)]
pub(crate) struct LongRequests {
    waiting: VecDeque<OrderItem>,
    /// Number of waiting items per session.
    sessions: HashMap<SessionId, usize>,
    links: HashMap<LinkId, LinkQueue>,
    /// Total size of learners' waiting requests, bytes.
    bytes: usize,
    /// Whether a request has been refused since the queue was last empty.
    has_refused: bool,
    /// Requests that are not yet both committed and in this server's log.
    here: UnconfirmedRequests,
    /// Requests that are not yet in the logs of the followers.
    at_followers: UnconfirmedRequests,
}

impl Default for LongRequests {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            sessions: HashMap::new(),
            links: HashMap::new(),
            bytes: 0,
            has_refused: false,
            here: UnconfirmedRequests::new(LONG_BYTES_UNDER_WAY),
            at_followers: UnconfirmedRequests::new(LONG_BYTES_AHEAD_OF_FOLLOWERS),
        }
    }
}

impl LongRequests {
    /// Returns whether the queue is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns whether any proposed long request is not confirmed yet.
    pub(crate) fn has_unconfirmed(&self) -> bool {
        self.here.bytes > 0 || self.at_followers.bytes > 0
    }

    /// Returns the item if it may be ordered now. Otherwise queues it.
    pub(crate) fn admit(&mut self, incoming: OrderItem) -> Option<OrderItem> {
        let long_bytes = incoming.long_bytes();
        let waits = match long_bytes {
            0 => !self.is_empty() && self.waits_behind_others(&incoming),
            bytes => !self.is_empty() || !self.has_room(bytes),
        };
        if !waits {
            return Some(incoming);
        }
        self.keep(incoming);
        None
    }

    /// Removes and returns the next item if it may be ordered now.
    pub(crate) fn next(&mut self) -> Option<OrderItem> {
        let long_bytes = self.waiting.front()?.long_bytes();
        if long_bytes > 0 && !self.has_room(long_bytes) {
            return None;
        }
        let next = self.waiting.pop_front()?;
        self.forget(&next);
        if self.is_empty() {
            self.has_refused = false;
        }
        Some(next)
    }

    /// Records that a long request was proposed.
    pub(crate) fn proposed(&mut self, zxid: Zxid, bytes: usize) {
        self.here.push(zxid, bytes);
        self.at_followers.push(zxid, bytes);
    }

    /// Records up to which zxid everything is committed and in this server's log, and up to which
    /// zxid everything is in the logs of the followers.
    pub(crate) fn done(&mut self, here: Zxid, at_followers: Zxid) {
        self.here.done(here);
        self.at_followers.done(at_followers);
    }

    /// Drops the waiting requests of a learner's closed connection, because their answers could not
    /// be delivered. A request that makes a session global stays, because its client may have
    /// returned elsewhere.
    pub(crate) fn drop_link(&mut self, link: LinkId) {
        if self.links.contains_key(&link) {
            let is_dropped = |incoming: &OrderItem| {
                incoming.link() == Some(link) && incoming.upgrade().is_none()
            };
            let (dropped, kept) = std::mem::take(&mut self.waiting)
                .into_iter()
                .partition::<Vec<_>, _>(is_dropped);
            dropped.iter().for_each(|incoming| self.forget(incoming));
            self.waiting = kept.into();
        }
    }

    /// Clears the state at the end of the role. Returns the waiting items.
    pub(crate) fn end(&mut self) -> VecDeque<OrderItem> {
        std::mem::take(self).waiting
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.here.has_room(bytes) && self.at_followers.has_room(bytes)
    }

    fn waits_behind_others(&self, incoming: &OrderItem) -> bool {
        let has_syncs = || match incoming {
            OrderItem::Sync { link, .. } => {
                let of_link = self.links.get(link);
                of_link.is_some_and(|of_link| of_link.syncs > 0)
            }
            _ => false,
        };
        let is_question = matches!(incoming, OrderItem::Revalidate { .. });
        !is_question && (self.sessions.contains_key(&incoming.session()) || has_syncs())
    }

    fn keep(&mut self, mut incoming: OrderItem) {
        if let OrderItem::Order(order) = &mut incoming {
            self.refuse_if_too_much(order);
        }
        *self.sessions.entry(incoming.session()).or_default() += 1;
        if let Some(link) = incoming.link() {
            let of_link = self.links.entry(link).or_default();
            of_link.requests += 1;
            of_link.syncs += usize::from(matches!(incoming, OrderItem::Sync { .. }));
            of_link.bytes += incoming.bytes();
            self.bytes += incoming.bytes();
        }
        self.waiting.push_back(incoming);
    }

    /// Turns the request into a refusal if too much waits. The refusal keeps its position in the
    /// queue, because answers must stay in order.
    fn refuse_if_too_much(&mut self, order: &mut ServerRequest) {
        let Some(link) = order.link else {
            return;
        };
        let of_link = self.links.get(&link).map_or(0, |of_link| of_link.bytes);
        let is_bounded = of_link > 0
            && of_link + order.bytes > LONG_BYTES_WAITING_OF_LINK
            && self.bytes + order.bytes > LONG_BYTES_WAITING;
        if !is_bounded || !order.op.may_be_throttled() {
            return;
        }
        if !std::mem::replace(&mut self.has_refused, true) {
            tracing::warn!(
                link = link.0,
                bytes = self.bytes,
                "a learner forwards too many long requests, refusing some of them (ThrottledOp); lower globalOutstandingLimit or the number of clients that write long data concurrently"
            );
        }
        order.request = Err(ErrorCode::ThrottledOp);
        order.identities = Vec::new();
        order.bytes = 0;
    }

    fn forget(&mut self, incoming: &OrderItem) {
        let session = incoming.session();
        if let Some(count) = self.sessions.get_mut(&session) {
            *count -= 1;
            if *count == 0 {
                self.sessions.remove(&session);
            }
        }
        let Some(link) = incoming.link() else { return };
        if let Some(of_link) = self.links.get_mut(&link) {
            of_link.requests -= 1;
            of_link.syncs -= usize::from(matches!(incoming, OrderItem::Sync { .. }));
            of_link.bytes -= incoming.bytes();
            self.bytes -= incoming.bytes();
            if of_link.requests == 0 {
                self.links.remove(&link);
            }
        }
    }
}

#[cfg(test)]
mod tests;
