//! What the server is at the moment.
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

use proto::leader::LeaderPacket;
use proto::{Sid, Zxid};
use zab::leader::{self, Leader, LinkId, OracleQuestion};
use zab::learner::{self, Learner};

use crate::forwarded::ForwardedRequests;
use crate::input::Ticket;
use crate::observers::Observers;
use crate::revalidation::Renewals;

/// The role.
pub(crate) enum Role {
    /// No leader is known.
    Looking,
    /// Elected, and leading once the epoch is established; or there is no ensemble.
    Leading(Box<Leading>),
    /// Following or observing.
    Learning(Box<Learning>),
    /// A role has ended.
    Draining(Draining),
}

/// A leader at work.
pub(crate) struct Leading {
    /// Numbers the role.
    pub(crate) attempt: u64,
    pub(crate) leader: Leader,
    /// When it was elected, and then when the epoch was established, ms.
    pub(crate) since_ms: i64,
    /// The oracle of two; `None` without one.
    pub(crate) oracle: Option<OracleWatch>,
    /// Clients of this server that wait for the answer to a `sync`, oldest first, and up to where all
    /// must be applied before.
    pub(crate) own_syncs: VecDeque<(Zxid, Ticket)>,
    /// Whether it is to ask the learners for their digests, once everything committed is applied.
    pub(crate) compares_digests: bool,
    /// Emptied and used again.
    pub(crate) spare: Vec<leader::Action>,
}

/// The oracle of two is being asked.
#[derive(Debug, Default)]
pub(crate) struct OracleWatch {
    /// What the election was told of whether it is needed.
    pub(crate) is_needed: Option<bool>,
    /// When it is asked again, ms; `None` while the answer is waited for.
    pub(crate) ask_at_ms: Option<i64>,
    /// What waited for the answer when it was asked last.
    pub(crate) asked_about: Option<OracleQuestion>,
}

/// A learner at work.
pub(crate) struct Learning {
    /// Numbers the role, and tells its events from those of an earlier one.
    pub(crate) attempt: u64,
    /// Whom it follows.
    pub(crate) leader: Sid,
    /// Whom it learns from: the leader, or a follower that serves observers.
    pub(crate) master: Sid,
    /// Whether it observes.
    pub(crate) is_observer: bool,
    /// `None` until the connection is up.
    pub(crate) learner: Option<Learner>,
    /// Whether the tree may hold what is neither in the log nor in a snapshot yet.
    pub(crate) is_tree_replaced: bool,
    /// Last transaction that came before UPTODATE, since which its tree is exact; `None` before UPTODATE. A tree that
    /// came as a snapshot is ahead of its zxid until then.
    pub(crate) exact_after: Option<Zxid>,
    /// Emptied and used again.
    pub(crate) spare: Vec<learner::Action>,
    /// Packets that came while the tree was being replaced, or the log was behind.
    pub(crate) waiting: VecDeque<LeaderPacket>,
    pub(crate) forwarded: ForwardedRequests,
    /// Who waits for the answer to a `sync`, oldest first.
    pub(crate) syncs: VecDeque<SyncWaiter>,
    pub(crate) renewals: Renewals,
    /// The observers that it serves.
    pub(crate) observers: Option<Observers>,
    /// The digest that it reported to its leader last, and at which transaction.
    pub(crate) digest_reported: Option<(Zxid, u64)>,
}

impl Learning {
    pub(crate) fn is_live(&self) -> bool {
        self.learner.as_ref().is_some_and(Learner::is_live)
    }
}

/// Whom the answer to a `sync` is for.
#[derive(Debug)]
pub(crate) enum SyncWaiter {
    /// A client of this server.
    Client(Ticket),
    /// An observer of this server.
    Observer(LinkId),
}

/// The end of a role.
#[derive(Debug)]
pub(crate) struct Draining {
    pub(crate) next: Next,
    /// The tree is not to be trusted: it is loaded from disk before anything else happens.
    pub(crate) reloads: bool,
}

/// What follows a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
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
