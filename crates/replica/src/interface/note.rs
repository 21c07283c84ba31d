//! Events for metrics. Decisions do not depend on them.

use proto::leader::LeaderPacket;
use proto::request::WriteRequest;
use proto::txn::Txn;
use proto::{Sid, Zxid};
use zab::leader::LinkId;
use zab::learner::Fault;

/// Work whose duration the host measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Preparation of transactions for this number of requests.
    Preparation(usize),
    /// Preparation of a session's end.
    CloseSession,
    /// Wait of a group of transactions for the readers of the tree, before the group is applied.
    TreeAwaited,
}

/// Event that the host counts or measures.
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
        /// Total size of header, transaction and digest, bytes.
        bytes: usize,
    },
    /// A record of this leader is passed to the log.
    Appended {
        /// Zxid of the record.
        zxid: Zxid,
        /// Time at which the record was created, ms by the leader's wall clock.
        stamp_ms: i64,
    },
    /// A proposal has arrived at this follower and is passed to the log.
    Received {
        /// Zxid of the record.
        zxid: Zxid,
        /// Time at which the record was created, ms by the leader's wall clock.
        stamp_ms: i64,
    },
    /// The log is on disk up to this zxid.
    Synced(Zxid),
    /// A server has acknowledged a measured proposal.
    Acknowledged {
        /// Server that acknowledged it.
        sid: Sid,
        /// Time of the proposal, ms by the leader's wall clock.
        stamp_ms: i64,
    },
    /// A proposal is committed.
    Committed {
        /// Time of the proposal, ms by the leader's wall clock; `None` if it is not measured.
        stamp_ms: Option<i64>,
        /// Whether this server is the leader.
        by_leader: bool,
    },
    /// The leader sends a packet over this learner's link.
    SentByLeader(LinkId, &'a LeaderPacket),
    /// A learner's link has ended or is about to end.
    LearnerGone(LinkId),
    /// This learner has received a packet.
    ReceivedByLearner(&'a LeaderPacket),
    /// A snapshot is sent over this learner's link.
    SnapshotOrdered(LinkId),
    /// A learner's query about a session was answered.
    SessionRevalidated,
    /// A leader's turn ends.
    LeaderTurnEnds {
        /// Number of proposals that learners' `sync` requests wait for.
        pending_syncs: usize,
    },
    /// A learner's turn ends.
    LearnerTurnEnds,
    /// This server starts leading, without outstanding proposals.
    LeadingBegins,
    /// The leader steps down because a voter that elected it is looking for a leader again.
    SupporterLost,
    /// An election is over.
    Elected {
        /// Duration of the search for a leader, ms.
        took_ms: u64,
    },
    /// This learner leaves its leader for this reason.
    LeaderLeft(&'a Fault),
    /// After this committed transaction, the digest of the tree differs from the digest in the
    /// transaction.
    DigestMismatch {
        /// Transaction with the digest.
        zxid: Zxid,
    },
    /// A session expires.
    SessionExpires,
}
