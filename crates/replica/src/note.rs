//! What is worth counting. Nothing is decided by it.

use proto::leader::LeaderPacket;
use proto::request::WriteRequest;
use proto::txn::Txn;
use proto::{Sid, Zxid};
use zab::leader::LinkId;
use zab::learner::Fault;

/// A piece of work whose length is measured by the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Transactions are made of so many requests.
    Preparation(usize),
    /// The end of a session is prepared.
    CloseSession,
    /// A group that is to be applied waits for those who read the tree.
    TreeAwaited,
}

/// Something that has happened.
#[derive(Debug)]
pub enum Note<'a> {
    /// It begins.
    Begins(Stage),
    /// It is done.
    Ends(Stage),
    /// The request became this transaction, which may be a refusal.
    Became(&'a WriteRequest, &'a Txn),
    /// The leader proposes a record of so many bytes.
    Proposed {
        /// Of header, transaction and digest.
        bytes: usize,
    },
    /// A record of this leader's goes to the log.
    Appended {
        /// Which.
        zxid: Zxid,
        /// When it was made, by the leader's wall clock, ms.
        stamp_ms: i64,
    },
    /// A proposal has come to this follower and goes to the log.
    Received {
        /// Which.
        zxid: Zxid,
        /// When it was made, by the leader's wall clock, ms.
        stamp_ms: i64,
    },
    /// The log is on disk up to here.
    Synced(Zxid),
    /// A server has acknowledged a proposal that is measured.
    Acknowledged {
        /// Who.
        sid: Sid,
        /// When the proposal was made, by the leader's wall clock, ms.
        stamp_ms: i64,
    },
    /// A proposal is committed.
    Committed {
        /// When it was made, by the leader's wall clock, ms; `None` where that is not measured.
        stamp_ms: Option<i64>,
        /// Whether this server leads.
        by_leader: bool,
    },
    /// The leader sends this to the learner of this link.
    SentByLeader(LinkId, &'a LeaderPacket),
    /// The link of a learner has ended or is to end.
    LearnerGone(LinkId),
    /// This learner has received this.
    ReceivedByLearner(&'a LeaderPacket),
    /// A snapshot is sent to the learner of this link.
    SnapshotOrdered(LinkId),
    /// A learner's question about a session was answered.
    SessionRevalidated,
    /// The turn of a leader ends; `sync` requests of learners wait for so many proposals.
    LeaderTurnEnds {
        /// How many.
        pending_syncs: usize,
    },
    /// The turn of a learner ends.
    LearnerTurnEnds,
    /// A new leader begins: it has proposed nothing.
    LeadingBegins,
    /// Leading is over because a voter has changed its mind.
    SupporterLost,
    /// An election is over.
    Elected {
        /// How long this server has looked, ms.
        took_ms: u64,
    },
    /// This learner leaves its leader, for this reason.
    LeaderLeft(&'a Fault),
    /// After this committed transaction the digest of the tree is not the one that the transaction
    /// carries.
    DigestMismatch {
        /// Which transaction.
        zxid: Zxid,
    },
    /// A session expires.
    SessionExpires,
}
