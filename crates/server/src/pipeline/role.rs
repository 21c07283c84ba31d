//! What the server is at the moment, as the core thread sees it.
//!
//! ```text
//!              elected: leading          epoch established
//!           +------------------> Leading ------------------> serves, orders
//!           |                       |
//!   Looking +                       +---- role over ----> Draining: log synced, tail applied --+
//!      ^    |                       |                                                          |
//!      |    +------------------> Learning -----------------> serves, forwards                  |
//!      |      elected: following            up to date                                         |
//!      +---------------------------------------------------------------------------------------+
//! ```
//!
//! Between two roles the history is made whole: every record that was appended is on disk and in
//! the tree, committed or not, as it would be after a restart. What the next leader does not have
//! is cut off again by synchronisation (ZOOKEEPER-1642, FileTxnSnapLog.fastForwardFromEdits).

use std::collections::VecDeque;
use std::sync::Arc;

use proto::leader::LeaderPacket;
use proto::{Sid, Zxid};
use zab::broadcast::Proposals;
use zab::leader::{self, Leader, LinkId};
use zab::learner::{self, Learner};

use super::forwarded::ForwardedRequests;
use super::observers::Observers;
use super::oracle::Watching;
use super::revalidation::Revalidations;
use crate::metrics::Ages;
use crate::net::connection::Connection;
use crate::peer::{LeaderConnection, ReadAheadPermit};

/// The role.
pub(super) enum Role {
    /// There is no other server: a quorum of one.
    Alone(Box<Proposals>),
    /// No leader is known.
    Looking,
    /// Elected, and leading once the epoch is established.
    Leading(Box<Leading>),
    /// Following or observing.
    Learning(Box<Learning>),
    /// A role has ended.
    Draining(Draining),
}

/// A leader at work.
pub(super) struct Leading {
    pub(super) leader: Leader,
    /// When it was elected, and then when the epoch was established, on the monotonic clock.
    pub(super) since_ms: u64,
    /// The oracle of an ensemble of two.
    pub(super) oracle: Option<Watching>,
    pub(super) ages: Ages,
    /// Clients of this server that wait for the answer to a `sync`, oldest first, and up to where all
    /// must be applied before.
    pub(super) own_syncs: VecDeque<(Zxid, Arc<Connection>)>,
    /// Emptied and used again.
    pub(super) spare: Vec<leader::Action>,
}

/// A learner at work.
pub(super) struct Learning {
    /// Tells this role's events from those of an earlier one.
    pub(super) attempt: u64,
    /// Whom it follows.
    pub(super) leader: Sid,
    /// Whom it learns from: the leader, or a follower that serves observers.
    pub(super) master: Sid,
    /// Whether it observes.
    pub(super) is_observer: bool,
    pub(super) connection: LeaderConnection,
    /// `None` until the connection is up.
    pub(super) learner: Option<Learner>,
    /// Whether the tree may hold what is neither in the log nor in a snapshot yet.
    pub(super) is_tree_replaced: bool,
    /// Emptied and used again.
    pub(super) spare: Vec<learner::Action>,
    /// Packets that came while the tree was being replaced.
    pub(super) waiting: VecDeque<LeaderPacket>,
    pub(super) ages: Ages,
    /// What they take of what the leader may have sent ahead.
    pub(super) permits: Vec<ReadAheadPermit>,
    pub(super) forwarded: ForwardedRequests,
    /// Who waits for the answer to a `sync`, oldest first.
    pub(super) syncs: VecDeque<SyncWaiter>,
    pub(super) revalidations: Revalidations,
    /// The observers that it serves.
    pub(super) observers: Option<Observers>,
}

/// Whom the answer to a `sync` is for.
pub(super) enum SyncWaiter {
    /// A client of this server.
    Client(Arc<Connection>),
    /// An observer of this server.
    Observer(LinkId),
}

/// The end of a role.
pub(super) struct Draining {
    pub(super) next: Next,
    /// The tree is not to be trusted: it is loaded from disk before anything else happens.
    pub(super) reloads: bool,
}

/// What follows a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// An election.
    Look,
    /// An election after a pause: the same leader would be found again at once.
    LookLater,
    /// A reconfiguration has named the leader.
    Follow(Sid),
    /// A reconfiguration has named this server.
    Lead,
    /// Nothing: the server ends.
    End,
}
