//! Long requests at a leader: how many bytes of them may be under way, and what waits for that.
//!
//! A leader has several copies of a transaction until it is committed and on disk: for its log and
//! for each learner. Its own clients are bounded by their host, other members of this kind bound
//! theirs; a learner of another kind passes on whatever its clients ask for. So a leader does not
//! order a long request before others have made room. It goes on to read what its learners send,
//! or their acknowledgements would wait behind requests that wait for acknowledgements.
//!
//! ```text
//!   a request --> [waiting: long ones, and what the same sessions ask for behind them] --> ordered
//!                      | beyond the bound: only its place waits, to be answered by ThrottledOp
//!                      v
//!                 under way: proposed --> committed, in this server's log, in those of the followers
//! ```
//!
//! What waits keeps the order in which it came. Whoever asks for little does not wait, except behind
//! a long request of the same session, and a learner's `sync` behind those of the same connection:
//! it takes the answers for those of its oldest ones.

use std::collections::{HashMap, VecDeque};

use proto::learner::Touch;
use proto::request::WriteRequest;
use proto::{ErrorCode, OpCode, SessionId, Zxid};
use session::Owner;
use zab::leader::LinkId;

use crate::input::{ClientRequest, Ticket};
use crate::limits::{
    LONG_BYTES_AHEAD_OF_FOLLOWERS, LONG_BYTES_UNDER_WAY, LONG_BYTES_WAITING,
    LONG_BYTES_WAITING_OF_LINK, LONG_REQUEST_BYTES,
};
use crate::ordering::Order;
use crate::requests::may_be_throttled;

/// What a leader is to order.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A request that no client of this server has made.
    Order(Order),
    /// A learner's `sync`.
    Sync {
        /// The connection that it came over.
        link: LinkId,
        /// Who asks.
        session: SessionId,
    },
    /// A learner's question about a session. A request that makes the session global may stand in front
    /// of it. It waits for no long ones: whoever comes back must not wait for others. A session that a
    /// waiting request is about to make global is known from there on
    /// ([`Sessions::expect`](crate::sessions::Sessions::expect)).
    Revalidate {
        /// The connection that it came over.
        link: LinkId,
        /// The session.
        touch: Touch,
    },
    /// A request of a client of this server.
    Client(Box<ClientRequest>),
    /// The `sync` of such a client.
    OwnSync {
        /// Its connection.
        ticket: Ticket,
        /// Who asks.
        session: SessionId,
    },
}

impl Incoming {
    fn session(&self) -> SessionId {
        match self {
            Self::Order(order) => order.session,
            Self::Sync { session, .. } | Self::OwnSync { session, .. } => *session,
            Self::Revalidate { touch, .. } => touch.session,
            Self::Client(request) => request.session,
        }
    }

    /// The learner's connection that it came over.
    fn link(&self) -> Option<LinkId> {
        match self {
            Self::Order(order) => order.link,
            Self::Sync { link, .. } | Self::Revalidate { link, .. } => Some(*link),
            Self::Client(_) | Self::OwnSync { .. } => None,
        }
    }

    /// The session that a learner's request makes global, its timeout in ms and whose request it is.
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

    /// Bytes that it holds.
    fn bytes(&self) -> usize {
        match self {
            Self::Order(order) => order.bytes,
            Self::Client(request) => request.body.len(),
            Self::Sync { .. } | Self::Revalidate { .. } | Self::OwnSync { .. } => 0,
        }
    }

    /// Bytes of a long request; 0 for any other.
    fn long_bytes(&self) -> usize {
        match self {
            Self::Order(order) => order.long_bytes(),
            Self::Client(request) => long_bytes(request.body.len()),
            Self::Sync { .. } | Self::Revalidate { .. } | Self::OwnSync { .. } => 0,
        }
    }
}

/// The bytes of a request's record if it is long; else 0.
pub(crate) fn long_bytes(bytes: usize) -> usize {
    match bytes > LONG_REQUEST_BYTES {
        true => bytes,
        false => 0,
    }
}

/// Long requests that are proposed, until something is known of them.
#[derive(Debug)]
struct UnderWay {
    bytes_max: usize,
    bytes: usize,
    proposals: VecDeque<(Zxid, usize)>,
}

impl UnderWay {
    fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            bytes: 0,
            proposals: VecDeque::new(),
        }
    }

    /// One alone has room, however long it is.
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

/// What of a learner's connection waits.
#[derive(Debug, Default)]
struct OfLink {
    requests: usize,
    syncs: usize,
    bytes: usize,
}

/// See the documentation of the module.
#[derive(Debug)]
pub(crate) struct LongRequests {
    waiting: VecDeque<Incoming>,
    /// How many of each session wait.
    sessions: HashMap<SessionId, usize>,
    links: HashMap<LinkId, OfLink>,
    /// Bytes of learners' requests that wait.
    bytes: usize,
    /// Whether some were refused since the last time that none waited.
    has_refused: bool,
    /// Until they are committed, and in this server's log.
    here: UnderWay,
    /// Until they are in the logs of the followers.
    at_followers: UnderWay,
}

impl Default for LongRequests {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            sessions: HashMap::new(),
            links: HashMap::new(),
            bytes: 0,
            has_refused: false,
            here: UnderWay::new(LONG_BYTES_UNDER_WAY),
            at_followers: UnderWay::new(LONG_BYTES_AHEAD_OF_FOLLOWERS),
        }
    }
}

impl LongRequests {
    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether long requests are proposed of which something is still to be heard.
    pub(crate) fn are_under_way(&self) -> bool {
        self.here.bytes > 0 || self.at_followers.bytes > 0
    }

    /// Gives back what may be ordered now, and keeps what has to wait.
    pub(crate) fn admit(&mut self, incoming: Incoming) -> Option<Incoming> {
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

    /// The next that may be ordered, if there is room for it.
    pub(crate) fn next(&mut self) -> Option<Incoming> {
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

    /// A long request was proposed.
    pub(crate) fn proposed(&mut self, zxid: Zxid, bytes: usize) {
        self.here.push(zxid, bytes);
        self.at_followers.push(zxid, bytes);
    }

    /// Up to where all is committed and in this server's log, and up to where it is in the logs of the
    /// followers.
    pub(crate) fn done(&mut self, here: Zxid, at_followers: Zxid) {
        self.here.done(here);
        self.at_followers.done(at_followers);
    }

    /// A learner's connection is gone, and with it those who would hear what became of its requests.
    /// What makes a session global stays: its client may have come back elsewhere.
    pub(crate) fn drop_link(&mut self, link: LinkId) {
        if self.links.contains_key(&link) {
            let is_dropped =
                |incoming: &Incoming| incoming.link() == Some(link) && incoming.upgrade().is_none();
            let (dropped, kept) = std::mem::take(&mut self.waiting)
                .into_iter()
                .partition::<Vec<_>, _>(is_dropped);
            dropped.iter().for_each(|incoming| self.forget(incoming));
            self.waiting = kept.into();
        }
    }

    /// The role ends: all that waits.
    pub(crate) fn end(&mut self) -> VecDeque<Incoming> {
        std::mem::take(self).waiting
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.here.has_room(bytes) && self.at_followers.has_room(bytes)
    }

    fn waits_behind_others(&self, incoming: &Incoming) -> bool {
        let has_syncs = || match incoming {
            Incoming::Sync { link, .. } => {
                let of_link = self.links.get(link);
                of_link.is_some_and(|of_link| of_link.syncs > 0)
            }
            _ => false,
        };
        let is_question = matches!(incoming, Incoming::Revalidate { .. });
        !is_question && (self.sessions.contains_key(&incoming.session()) || has_syncs())
    }

    fn keep(&mut self, mut incoming: Incoming) {
        if let Incoming::Order(order) = &mut incoming {
            self.refuse_if_too_much(order);
        }
        *self.sessions.entry(incoming.session()).or_default() += 1;
        if let Some(link) = incoming.link() {
            let of_link = self.links.entry(link).or_default();
            of_link.requests += 1;
            of_link.syncs += usize::from(matches!(incoming, Incoming::Sync { .. }));
            of_link.bytes += incoming.bytes();
            self.bytes += incoming.bytes();
        }
        self.waiting.push_back(incoming);
    }

    /// The answer has to come in its place, so that takes its place among those that wait.
    fn refuse_if_too_much(&mut self, order: &mut Order) {
        let Some(link) = order.link else {
            return;
        };
        let of_link = self.links.get(&link).map_or(0, |of_link| of_link.bytes);
        let is_bounded = of_link > 0
            && of_link + order.bytes > LONG_BYTES_WAITING_OF_LINK
            && self.bytes + order.bytes > LONG_BYTES_WAITING;
        let may_be_refused = may_be_throttled(order.op) && order.op != OpCode::CreateSession;
        if !is_bounded || !may_be_refused {
            return;
        }
        if !std::mem::replace(&mut self.has_refused, true) {
            tracing::warn!(
                link = link.0,
                bytes = self.bytes,
                "a learner passes on more long requests at once than this leader keeps, refusing some of them (ThrottledOp); lower globalOutstandingLimit or the number of clients that write long data at the same time"
            );
        }
        order.request = Err(ErrorCode::ThrottledOp);
        order.identities = Vec::new();
        order.bytes = 0;
    }

    fn forget(&mut self, incoming: &Incoming) {
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
            of_link.syncs -= usize::from(matches!(incoming, Incoming::Sync { .. }));
            of_link.bytes -= incoming.bytes();
            self.bytes -= incoming.bytes();
            if of_link.requests == 0 {
                self.links.remove(&link);
            }
        }
    }
}

#[cfg(test)]
#[path = "long_requests_tests.rs"]
mod tests;
