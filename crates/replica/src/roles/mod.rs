//! The current role of the server.
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
//! Between two roles, the log and the tree are made equal: every appended record is on disk and in
//! the tree, committed or not, as after a restart. The next synchronisation cuts the records that
//! the next leader does not have (ZOOKEEPER-1642, FileTxnSnapLog.fastForwardFromEdits).

pub(crate) mod kept_state;
pub(crate) mod leading;
pub(crate) mod learning;
pub(crate) mod master_choice;
pub(crate) mod observer_master;
pub(crate) mod read_only;
pub(crate) mod transitions;

use std::collections::VecDeque;

use proto::leader::LeaderPacket;
use proto::{Sid, Zxid};
use zab::leader::{self, Leader, LinkId, OracleQuestion};
use zab::learner::{self, Learner};

use self::observer_master::Observers;
use crate::forwarding::pending::ForwardedRequests;
use crate::forwarding::renewals::Renewals;
use crate::interface::input::Ticket;

/// The role.
pub(crate) enum Role {
    /// No leader is known.
    Looking,
    /// Elected. It leads once the epoch is established. A standalone server is in this role, too.
    Leading(Box<Leading>),
    /// Following or observing.
    Learning(Box<Learning>),
    /// A role has ended.
    Draining(Draining),
}

/// State of a leader.
pub(crate) struct Leading {
    /// Number of the role.
    pub(crate) attempt: u64,
    pub(crate) leader: Leader,
    /// Time of its election, then time at which the epoch was established, ms.
    pub(crate) since_ms: i64,
    /// The oracle of two; `None` without one.
    pub(crate) oracle: Option<OracleWatch>,
    /// Clients of this server that wait for the answer to a `sync`, oldest first, each with the
    /// zxid that must be applied before.
    pub(crate) own_syncs: VecDeque<(Zxid, Ticket)>,
    /// Whether to request digests from the learners, once every commit is applied.
    pub(crate) compares_digests: bool,
    /// Buffer, empty between uses.
    pub(crate) spare: Vec<leader::Action>,
}

/// State of the queries to the oracle of two.
#[derive(Debug, Default)]
pub(crate) struct OracleWatch {
    /// The last value passed to the elections: whether the oracle is needed.
    pub(crate) is_needed: Option<bool>,
    /// Time of the next query, ms; `None` while an answer is due.
    pub(crate) ask_at_ms: Option<i64>,
    /// The decision that waited for the answer at the last query.
    pub(crate) asked_about: Option<OracleQuestion>,
}

/// State of a learner.
pub(crate) struct Learning {
    /// Number of the role. It distinguishes the events of this role from the events of an earlier
    /// role.
    pub(crate) attempt: u64,
    /// The leader.
    pub(crate) leader: Sid,
    /// The server to learn from: the leader, or a follower that serves observers.
    pub(crate) master: Sid,
    /// Whether the learner is an observer.
    pub(crate) is_observer: bool,
    /// `None` until the connection is open.
    pub(crate) learner: Option<Learner>,
    /// Whether the tree may contain data that is not in the log and not in a snapshot yet.
    pub(crate) is_tree_replaced: bool,
    /// Last transaction before UPTODATE, after which its tree is exact; `None` before UPTODATE.
    /// Until then, a tree from a snapshot may contain transactions after its zxid.
    pub(crate) exact_after: Option<Zxid>,
    /// Buffer, empty between uses.
    pub(crate) spare: Vec<learner::Action>,
    /// Packets that arrived while the tree was being replaced, or the log lagged.
    pub(crate) waiting: VecDeque<LeaderPacket>,
    pub(crate) forwarded: ForwardedRequests,
    /// Requesters that wait for the answer to a `sync`, oldest first.
    pub(crate) syncs: VecDeque<SyncWaiter>,
    pub(crate) renewals: Renewals,
    /// Observers of this server.
    pub(crate) observers: Option<Observers>,
    /// The digest that it reported to its leader last, with the transaction.
    pub(crate) digest_reported: Option<(Zxid, u64)>,
}

impl Learning {
    pub(crate) fn is_live(&self) -> bool {
        self.learner.as_ref().is_some_and(Learner::is_live)
    }
}

/// Requester of a `sync`.
#[derive(Debug)]
pub(crate) enum SyncWaiter {
    /// A client of this server.
    Client(Ticket),
    /// An observer of this server.
    Observer(LinkId),
}

/// State between two roles.
#[derive(Debug)]
pub(crate) struct Draining {
    pub(crate) next: NextRole,
    /// Whether the tree is unreliable, and must first be loaded from disk.
    pub(crate) reloads: bool,
}

/// The next step after a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextRole {
    /// An election.
    Look,
    /// An election after a pause: an immediate one would find this leader again.
    LookLater,
    /// A reconfiguration has named the leader.
    Follow(Sid),
    /// A reconfiguration has named this server.
    Lead,
    /// Nothing: the server stops.
    End,
}
