//! What a learner asks of its host, and why it gives up.

use std::fmt;

use bytes::Bytes;
use proto::learner::LearnerPacket;
use proto::{Epoch, SessionId, Sid, Zxid};

use crate::Record;
use crate::packets::ShowLearner;

/// An order to the host, to be carried out in the order given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send this to the leader.
    Send(LearnerPacket),
    /// Send a PING with this zxid and every session heard from since the last one.
    AnswerPing {
        /// As in the leader's PING.
        zxid: Zxid,
    },
    /// Make the promise durable, then call `handle_accepted_epoch_saved`.
    SaveAcceptedEpoch(Epoch),
    /// Make the epoch of the history durable, then call `handle_current_epoch_saved`.
    SaveCurrentEpoch(Epoch),
    /// Empty the tree, read the snapshot that now comes over the connection, check its signature,
    /// then call `handle_snapshot_received`.
    ReceiveSnapshot {
        /// The last transaction that it is sure to hold.
        zxid: Zxid,
    },
    /// Cut the log behind this zxid and load the tree from what is left, without any snapshot that
    /// goes further; then call `handle_truncated` with where that ends. What stands up to this
    /// zxid must never be lost: if no snapshot and log reach back so far, leave the disk as it is.
    /// If they reach back and do not hold it (nobody's log holds the start of an epoch, which an
    /// Apache leader may ask for), less is left.
    Truncate {
        /// The last one to keep.
        zxid: Zxid,
    },
    /// Write the tree as a durable snapshot, then call `handle_snapshot_written`. Recovery from now
    /// on must read nothing of the old log over it: that may hold, behind the snapshot's zxid,
    /// what was never committed. Nor may learners be caught up from it later
    /// ([`log_whole_from`](crate::leader::LeaderStart::log_whole_from)). Older snapshots must go
    /// with the log: were this one damaged one day, an older one and the log behind this one would
    /// pass for the whole history where that log begins with a later epoch.
    WriteSnapshot,
    /// Append to the log. Once it is on disk, call `handle_synced`.
    Append(Record),
    /// Committed: apply it to the tree.
    Deliver(Record),
    /// A configuration is proposed by this transaction: the last one seen.
    ConfigProposed(Record),
    /// The leader's last configuration seen, as text: the last one seen here from now on.
    ConfigSeen(Bytes),
    /// Use the configuration with this text, if its version is not above `upto`: one above is proposed
    /// only, and is in force when its commit comes. Java uses it at once. If it makes this server
    /// something else than it is, leave.
    InstallConfig {
        /// The configuration.
        text: Bytes,
        /// Up to here the leader has told this server that all is committed.
        upto: Zxid,
    },
    /// The same with the configuration in the transaction, and the leader that goes with it.
    ActivateConfig {
        /// The reconfiguration.
        record: Record,
        /// Who leads from here on.
        designated_leader: Sid,
    },
    /// The history is complete: serve clients.
    Serve {
        /// The epoch, for the votes that this server sends out.
        epoch: Epoch,
    },
    /// The oldest `sync` that was sent up is answered.
    SyncDone,
    /// The leader's word on a session.
    Revalidated {
        /// The session.
        session: SessionId,
        /// Whether it is alive, and lives here now.
        is_valid: bool,
    },
    /// Answer with the digest of the tree by a [`LearnerPacket::Digest`], if this is its last
    /// transaction and there is a digest.
    ReportDigest {
        /// The transaction.
        zxid: Zxid,
    },
    /// The digest that was reported is not the leader's.
    DigestJudged {
        /// The last transaction of the trees that were compared.
        zxid: Zxid,
        /// The digest of a quorum that includes the leader; `None` if there is no such quorum.
        agreed: Option<u64>,
    },
    /// The role is over: close the connection, stop serving, look for a leader. What was appended
    /// and not committed becomes history for the next role; a snapshot that is being written then
    /// must be given up, or it would hold what TRUNC cuts from the log.
    Leave(Fault),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send(packet) => write!(f, "send {}", ShowLearner(packet)),
            Self::AnswerPing { zxid } => write!(f, "answer PING {zxid}"),
            Self::SaveAcceptedEpoch(epoch) => write!(f, "save accepted epoch {epoch}"),
            Self::SaveCurrentEpoch(epoch) => write!(f, "save current epoch {epoch}"),
            Self::ReceiveSnapshot { zxid } => write!(f, "receive snapshot {zxid}"),
            Self::Truncate { zxid } => write!(f, "truncate {zxid}"),
            Self::WriteSnapshot => f.write_str("write snapshot"),
            Self::Append(record) => write!(f, "append {record}"),
            Self::Deliver(record) => write!(f, "deliver {record}"),
            Self::ConfigProposed(record) => write!(f, "config proposed {record}"),
            Self::ConfigSeen(text) => write!(f, "config seen len={}", text.len()),
            Self::InstallConfig { text, upto } => {
                write!(f, "install config len={} upto {upto}", text.len())
            }
            Self::ActivateConfig {
                record,
                designated_leader,
            } => write!(f, "activate config {record} sid={designated_leader}"),
            Self::Serve { epoch } => write!(f, "serve epoch={epoch}"),
            Self::SyncDone => f.write_str("sync done"),
            Self::Revalidated { session, is_valid } => {
                write!(f, "revalidated session={session} valid={is_valid}")
            }
            Self::ReportDigest { zxid } => write!(f, "report digest {zxid}"),
            Self::DigestJudged { zxid, agreed } => {
                write!(f, "digest judged {zxid} agreed={agreed:?}")
            }
            Self::Leave(fault) => write!(f, "leave: {fault}"),
        }
    }
}

/// Why a learner gives up its leader.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing was heard for `initLimit` or `syncLimit` ticks.
    #[error("nothing heard from the leader for {silent_ms} ms")]
    Silence {
        /// How long.
        silent_ms: i64,
    },
    /// A packet that has no place here.
    #[error("unexpected {packet}")]
    Unexpected {
        /// What it is, in words.
        packet: String,
    },
    /// The leader's epoch is older than one that was promised. Before the next attempt there must
    /// be a pause: the same leader is likely to be found again (Apache ZooKeeper comes back 40 to
    /// 250 times a second).
    #[error("the leader proposes epoch {proposed}, {accepted} is accepted already")]
    EpochBehind {
        /// The leader's.
        proposed: Epoch,
        /// What was promised.
        accepted: Epoch,
    },
    /// The history cannot be cut where the leader wants it. Come back to this leader at once and
    /// without an election, as one that [could not
    /// truncate](super::LearnerStart::truncation_failed_in), and it will send a snapshot. After an
    /// election, which a leader that lacks this voter would need, there is another epoch, in which
    /// it asks for the same again.
    #[error("history up to {end} cannot be cut at {wanted}")]
    CannotTruncate {
        /// The epoch of the leader that wants it.
        epoch: Epoch,
        /// What the leader asked for.
        wanted: Zxid,
        /// Where the history ends instead.
        end: Zxid,
    },
    /// An observer was told to forget what is committed, by a follower that serves it and has heard
    /// less. Before the next attempt there must be a pause.
    #[error("the leader is at {wanted} and behind this observer, which has all up to {last}")]
    LeaderBehind {
        /// Where the history was to be cut.
        wanted: Zxid,
        /// Where it ends.
        last: Zxid,
    },
    /// The snapshot ended wrongly or could not be read.
    #[error("the leader's snapshot is damaged")]
    SnapshotDamaged,
    /// A transaction is missing (ZOOKEEPER-4925).
    #[error("{next} does not follow {last}")]
    Gap {
        /// The last one received.
        last: Zxid,
        /// What came.
        next: Zxid,
    },
    /// A commit of something else than the oldest proposal that waits for one.
    #[error("commit of {zxid}, but {} is next", next.map_or("nothing".into(), |next| next.to_string()))]
    UnmatchedCommit {
        /// What is said to be committed.
        zxid: Zxid,
        /// The oldest proposal that is not.
        next: Option<Zxid>,
    },
    /// The host was told of a change that ends the role (a configuration, a stop).
    #[error("told to leave")]
    Told,
}

impl Fault {
    /// The code that Apache ZooKeeper's process exits with; it leaves the role on all others. A
    /// server that rather stays up must load its tree from disk again.
    pub fn exit_code(&self) -> Option<i32> {
        match self {
            Self::UnmatchedCommit { next: Some(_), .. } => Some(12),
            Self::CannotTruncate { .. } => Some(13),
            _ => None,
        }
    }
}
