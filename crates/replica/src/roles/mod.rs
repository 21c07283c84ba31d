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
//! Between two roles, the log and the tree are made equal: every appended record, committed or not,
//! is on disk and in the tree, as after a restart. The next synchronisation cuts the records that
//! the next leader lacks (ZOOKEEPER-1642, FileTxnSnapLog.fastForwardFromEdits).

pub(crate) mod leading;
pub(crate) mod learning;
pub(crate) mod master_choice;
pub(crate) mod member_state;
pub(crate) mod observer_master;
pub(crate) mod read_only;
pub(crate) mod transitions;
mod view;

use std::collections::VecDeque;

use proto::leader::LeaderPacket;
use proto::{Sid, Zxid};
use zab::leader::{self, Leader, LinkId, OracleQuestion};
use zab::learner::{self, Learner};

use self::observer_master::Observers;
use crate::forwarding::pending::ForwardedRequests;
use crate::forwarding::renewals::Renewals;
use crate::interface::input::Ticket;

/// Role of the server, with its state.
pub(crate) enum Role {
    /// Looks for a leader.
    Looking,
    /// Elected as leader. It leads once the epoch is established. A standalone server is in this
    /// role, too.
    Leading(Box<Leading>),
    /// Following or observing.
    Learning(Box<Learning>),
    /// Finishes the work of a role that has ended.
    Draining(Draining),
}

/// State of a leader.
pub(crate) struct Leading {
    /// Number of this role.
    pub(crate) attempt: u64,
    pub(crate) leader: Leader,
    /// Time of the election, later the time at which the epoch was established, ms.
    pub(crate) since_ms: i64,
    /// State of the queries to the oracle; `None` without an oracle.
    pub(crate) oracle: Option<OracleWatch>,
    /// Clients of this server that wait for the answer to a `sync`, oldest first, each with the
    /// zxid up to which transactions must be applied first.
    pub(crate) own_syncs: VecDeque<(Zxid, Ticket)>,
    /// Whether to request digests from the learners once all commits are applied.
    pub(crate) compares_digests: bool,
    /// Buffer that is empty between uses.
    pub(crate) spare: Vec<leader::Action>,
}

/// State of the queries to the oracle (`oraclePath`) of a two-voter ensemble.
#[derive(Debug, Default)]
pub(crate) struct OracleWatch {
    /// Last value passed to the elections, which states whether the oracle is needed.
    pub(crate) is_needed: Option<bool>,
    /// Time of the next query, ms; `None` while an answer is due.
    pub(crate) query_at_ms: Option<i64>,
    /// Decision that waited for the answer at the last query.
    pub(crate) queried_about: Option<OracleQuestion>,
}

/// State of a learner.
pub(crate) struct Learning {
    /// Number of this role. It distinguishes the events of this role from the events of an earlier
    /// role.
    pub(crate) attempt: u64,
    /// Leader of the ensemble.
    pub(crate) leader: Sid,
    /// Server to learn from: the leader, or a follower that serves observers.
    pub(crate) master: Sid,
    /// Whether the learner is an observer.
    pub(crate) is_observer: bool,
    /// State of the protocol; `None` until the connection is open.
    pub(crate) learner: Option<Learner>,
    /// Whether the tree may contain data that is neither in the log nor in a snapshot yet.
    pub(crate) is_tree_replaced: bool,
    /// Whether the last seen list is written after the log is cut for the leader's snapshot.
    pub(crate) saves_list_after_cut: bool,
    /// Last transaction before UPTODATE, after which the tree is exact; `None` before UPTODATE.
    /// Until this transaction is applied, a tree from a snapshot may contain transactions after the
    /// snapshot's zxid.
    pub(crate) exact_after: Option<Zxid>,
    /// Buffer that is empty between uses.
    pub(crate) spare: Vec<learner::Action>,
    /// Packets that arrived while the tree was being replaced, or the log lagged.
    pub(crate) waiting: VecDeque<LeaderPacket>,
    pub(crate) forwarded: ForwardedRequests,
    /// Requesters that wait for the answer to a `sync`, oldest first.
    pub(crate) syncs: VecDeque<SyncWaiter>,
    pub(crate) renewals: Renewals,
    /// Observers that this server serves.
    pub(crate) observers: Option<Observers>,
    /// Digest that was last reported to the leader, with its transaction.
    pub(crate) digest_reported: Option<(Zxid, u64)>,
}

impl Learning {
    pub(crate) fn is_live(&self) -> bool {
        self.learner.as_ref().is_some_and(Learner::is_live)
    }

    /// Returns whether the leader's snapshot will replace the log.
    pub(crate) fn will_cut_log(&self) -> bool {
        let learner = self.learner.as_ref();
        learner.is_some_and(Learner::is_tree_unsaved)
    }
}

/// Requester of a `sync`.
#[derive(Debug)]
pub(crate) enum SyncWaiter {
    /// A client of this server.
    Client(Ticket),
    /// An observer that this server serves.
    Observer(LinkId),
}

/// State between two roles.
#[derive(Debug)]
pub(crate) struct Draining {
    pub(crate) next: NextRole,
    /// Whether the tree is unreliable and must first be loaded from disk.
    pub(crate) reloads: bool,
}

/// Next step after a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextRole {
    /// An election.
    Look,
    /// An election after a pause, because an immediate election would find the same leader again.
    LookLater,
    /// A reconfiguration has named the leader.
    Follow(Sid),
    /// A reconfiguration has named this server as leader.
    Lead,
    /// No further role, because the server stops.
    End,
}
