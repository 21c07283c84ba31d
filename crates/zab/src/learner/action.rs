//! Actions that a learner requests from its host, and the reasons to leave the leader.

use std::fmt;

use bytes::Bytes;
use proto::learner::LearnerPacket;
use proto::{Epoch, SessionId, Sid, Zxid};

use crate::Record;
use crate::packets::LearnerPacketText;

/// Action that the host must execute, in the order of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send a packet to the leader.
    Send(LearnerPacket),
    /// Send a PING with this zxid and every session that was active since the last PING.
    AnswerPing {
        /// Zxid in the leader's PING.
        zxid: Zxid,
    },
    /// Make the promised epoch durable, then call `handle_accepted_epoch_saved`.
    SaveAcceptedEpoch(Epoch),
    /// Make the epoch of the log durable, then call `handle_current_epoch_saved`.
    SaveCurrentEpoch(Epoch),
    /// Empty the tree, read the snapshot that follows on the connection, check its signature, then
    /// call `handle_snapshot_received`.
    ReceiveSnapshot {
        /// Last transaction that the snapshot certainly contains.
        zxid: Zxid,
    },
    /// Cut the log after this zxid, and load the tree from the rest, without any later snapshot.
    /// Then call `handle_truncated` with the end of the rest. Records up to this zxid must never be
    /// lost. If the snapshots and logs do not reach back so far, leave the disk unchanged. If they
    /// do but lack this zxid, the rest ends earlier. (An Apache leader may request the start of an
    /// epoch, which no log contains.)
    Truncate {
        /// Last transaction to keep.
        zxid: Zxid,
    },
    /// Write the tree as a durable snapshot, then call `handle_snapshot_written`. From now on,
    /// recovery must not replay the old log over it, because after the snapshot's zxid, that log
    /// may contain records that were never committed. Learners must not be synchronised from that
    /// log either ([`log_whole_from`](crate::leader::LeaderStart::log_whole_from)). Older snapshots
    /// must be removed with the log. If the new snapshot became corrupt later, recovery could
    /// combine an older snapshot with the newer log, without noticing the gap if that log begins
    /// with a later epoch.
    WriteSnapshot,
    /// Append a record to the log. Once the record is on disk, call `handle_synced`.
    Append(Record),
    /// Apply the committed record to the tree.
    Deliver(Record),
    /// Store the configuration in this transaction as this server's last seen configuration. It is
    /// proposed, not committed.
    ConfigProposed(Record),
    /// Store this text, the leader's last seen configuration, as this server's last seen
    /// configuration.
    ConfigSeen(Bytes),
    /// Use this configuration if its version is not above `upto`. A configuration with a version
    /// above `upto` is only proposed, and comes into force when it is committed. Java uses it
    /// immediately. If the configuration changes this server's role, leave.
    InstallConfig {
        /// Text of the configuration.
        text: Bytes,
        /// Zxid up to which the leader has reported everything as committed.
        upto: Zxid,
    },
    /// Use the configuration in the committed transaction and the leader that it designates.
    ActivateConfig {
        /// Transaction with the reconfiguration.
        record: Record,
        /// Leader from now on.
        designated_leader: Sid,
    },
    /// Start serving clients, because the log is complete.
    Serve {
        /// Epoch for the votes of this server.
        epoch: Epoch,
    },
    /// Answer the oldest forwarded `sync`.
    SyncDone,
    /// Use the leader's answer to a query about a session.
    Revalidated {
        /// Session in the query.
        session: SessionId,
        /// Whether the session is live and now belongs to this server.
        is_valid: bool,
    },
    /// Answer with the digest of the tree in a [`LearnerPacket::Digest`], if `zxid` is the tree's
    /// last transaction and a digest exists.
    ReportDigest {
        /// Transaction at which the digest is requested.
        zxid: Zxid,
    },
    /// Compare the reported digest with the leader's decision.
    DigestJudged {
        /// Last transaction in the compared trees.
        zxid: Zxid,
        /// Digest of a quorum that includes the leader; `None` without such a quorum.
        agreed: Option<u64>,
    },
    /// Stop following: close the connection, stop serving, and look for a leader. Appended,
    /// uncommitted records remain in the log of the next role. The host must abort a snapshot that
    /// is being written, because it would contain records that a TRUNC cuts from the log.
    Leave(Fault),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send(packet) => write!(f, "send {}", LearnerPacketText(packet)),
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

/// Reason to leave a leader.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// No packet arrived for `initLimit` or `syncLimit` ticks.
    #[error("no packet received from the leader for {silent_ms} ms")]
    Silence {
        /// Duration of the silence.
        silent_ms: i64,
    },
    /// The packet is not valid in the current state.
    #[error("unexpected {packet}")]
    Unexpected {
        /// Text form of the packet.
        packet: String,
    },
    /// The leader's epoch is lower than the epoch that this server has promised. Pause before the
    /// next attempt, because the election is likely to find this leader again (Apache ZooKeeper
    /// retries 40 to 250 times per second).
    #[error("the leader proposes epoch {proposed}, but this server has accepted epoch {accepted}")]
    EpochBehind {
        /// Epoch of the leader.
        proposed: Epoch,
        /// Promised epoch.
        accepted: Epoch,
    },
    /// The log cannot be cut at the zxid that the leader requests. Connect to this leader again
    /// immediately, without an election, with
    /// [`truncation_failed_in`](super::LearnerStart::truncation_failed_in) set. The leader will
    /// then send a snapshot. A retry through an election would begin another epoch, in which the
    /// leader repeats the request, because it may need this voter for its quorum.
    #[error("cannot truncate the log, which ends at {end}, to {wanted}")]
    CannotTruncate {
        /// Epoch of the leader.
        epoch: Epoch,
        /// Zxid that the leader requested.
        wanted: Zxid,
        /// Actual end of the log.
        end: Zxid,
    },
    /// The follower that serves this observer has fewer transactions than the observer and
    /// requested a cut of committed transactions. Pause before the next attempt.
    #[error("the leader's last zxid {wanted} is lower than {last}, the last zxid of this observer")]
    LeaderBehind {
        /// Requested end of the log.
        wanted: Zxid,
        /// Actual end of the log.
        last: Zxid,
    },
    /// The snapshot is incomplete or cannot be decoded.
    #[error("the leader's snapshot is damaged")]
    SnapshotDamaged,
    /// A transaction is missing between two received transactions (ZOOKEEPER-4925).
    #[error("transaction {next} does not follow {last}")]
    Gap {
        /// Last transaction before the gap.
        last: Zxid,
        /// Transaction that arrived after it.
        next: Zxid,
    },
    /// A commit does not match the oldest uncommitted proposal.
    #[error("the leader commits {zxid}, but {}", next.map_or("no proposal is outstanding".into(), |next| format!("the next proposal is {next}")))]
    UnmatchedCommit {
        /// Committed zxid.
        zxid: Zxid,
        /// Oldest uncommitted proposal.
        next: Option<Zxid>,
    },
    /// The host has ended the role (because of a configuration or a stop).
    #[error("the server ends this role")]
    LeaveRequested,
}

impl Fault {
    /// Returns the code with which Apache ZooKeeper's process exits after this fault; `None` if
    /// Java only leaves the role. After a fault with a code, a server that does not exit must load
    /// its tree from disk again.
    pub fn exit_code(&self) -> Option<i32> {
        match self {
            Self::UnmatchedCommit { next: Some(_), .. } => Some(12),
            Self::CannotTruncate { .. } => Some(13),
            _ => None,
        }
    }
}
