//! Events for metrics. Decisions do not depend on them.

use proto::leader::LeaderPacket;
use proto::request::WriteRequest;
use proto::txn::Txn;
use proto::{Sid, Zxid};
use zab::leader::LinkId;
use zab::learner::Fault;

/// A piece of work whose duration the host measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Preparation of transactions for this number of requests.
    Preparation(usize),
    /// Preparation of a session's end.
    CloseSession,
    /// A group of transactions waits for readers of the tree before it is applied.
    TreeAwaited,
}

/// Event for metrics.
#[derive(Debug)]
pub enum Note<'a> {
    /// The work begins.
    Begins(Stage),
    /// The work ends.
    Ends(Stage),
    /// The request became this transaction, which may be a refusal.
    Became(&'a WriteRequest, &'a Txn),
    /// The leader proposes a record.
    Proposed {
        /// Size of header, transaction and digest.
        bytes: usize,
    },
    /// A record of this leader is passed to the log.
    Appended {
        /// The record's zxid.
        zxid: Zxid,
        /// Time of its creation, by the leader's wall clock, ms.
        stamp_ms: i64,
    },
    /// A proposal has arrived at this follower and is passed to the log.
    Received {
        /// The record's zxid.
        zxid: Zxid,
        /// Time of its creation, by the leader's wall clock, ms.
        stamp_ms: i64,
    },
    /// The log is on disk up to this zxid.
    Synced(Zxid),
    /// A server has acknowledged a measured proposal.
    Acknowledged {
        /// The server.
        sid: Sid,
        /// Time of the proposal, by the leader's wall clock, ms.
        stamp_ms: i64,
    },
    /// A proposal is committed.
    Committed {
        /// Time of the proposal, by the leader's wall clock, ms; `None` if it is not measured.
        stamp_ms: Option<i64>,
        /// Whether this server leads.
        by_leader: bool,
    },
    /// The leader sends a packet to the learner of this link.
    SentByLeader(LinkId, &'a LeaderPacket),
    /// The link of a learner has ended or is to end.
    LearnerGone(LinkId),
    /// This learner has received a packet.
    ReceivedByLearner(&'a LeaderPacket),
    /// A snapshot is sent to the learner of this link.
    SnapshotOrdered(LinkId),
    /// A learner's query about a session was answered.
    SessionRevalidated,
    /// The turn of a leader ends.
    LeaderTurnEnds {
        /// Number of proposals that `sync` requests of learners wait for.
        pending_syncs: usize,
    },
    /// The turn of a learner ends.
    LearnerTurnEnds,
    /// A new leader begins without proposals.
    LeadingBegins,
    /// The leader steps down because a voter that elected it looks for a leader again.
    SupporterLost,
    /// An election is over.
    Elected {
        /// Duration of the search, ms.
        took_ms: u64,
    },
    /// This learner leaves its leader for this reason.
    LeaderLeft(&'a Fault),
    /// After this committed transaction, the digest of the tree differs from the digest in the
    /// transaction.
    DigestMismatch {
        /// The transaction.
        zxid: Zxid,
    },
    /// A session expires.
    SessionExpires,
}
