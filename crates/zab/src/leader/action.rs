//! Actions that a leader requests from its host, and the reasons to drop a learner or to step down.

use std::fmt;

use proto::leader::LeaderPacket;
use proto::learner::{LearnerRequest, Touch};
use proto::{Epoch, Sid, Zxid};

use crate::Record;
use crate::packets::LeaderPacketText;

/// Number that the host assigned to a learner's connection. Numbers are not reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link {}", self.0)
    }
}

/// Action that the host must execute, in the order of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send a packet to a learner.
    Send {
        /// Learner that receives the packet.
        to: LinkId,
        /// Packet to send.
        packet: LeaderPacket,
    },
    /// Send a SNAP packet with this zxid, then the tree with its signature, before any later packet
    /// to this learner. The tree must contain everything delivered so far. It may contain more.
    /// Then call `handle_snapshot_sent`.
    SendSnapshot {
        /// Learner that receives the tree.
        to: LinkId,
        /// Last transaction that the tree certainly contains.
        zxid: Zxid,
    },
    /// Read the log files, beginning at the last transaction up to `from`. Call
    /// `handle_log_records` with some records each time the connection has room for them. If the
    /// files do not contain such a transaction, or if there are too many records to send, call
    /// `handle_log_unusable`.
    ReadLog {
        /// Learner that needs the records.
        to: LinkId,
        /// Zxid after which the learner needs records.
        from: Zxid,
        /// Last zxid that is needed.
        upto: Zxid,
    },
    /// Drop a learner's connection.
    Close {
        /// Connection to drop.
        link: LinkId,
        /// Reason to log.
        fault: LinkFault,
    },
    /// Make the epoch durable, then call `handle_accepted_epoch_saved`.
    SaveAcceptedEpoch(Epoch),
    /// Make the epoch durable, then call `handle_current_epoch_saved`.
    SaveCurrentEpoch(Epoch),
    /// Append a record to the log. Once it is on disk, call `handle_synced`.
    Append(Record),
    /// Apply the committed record to the tree. A standalone server receives only the zxid of the
    /// last record, which covers all earlier records.
    Deliver(Record),
    /// Start serving, because the epoch is established. Zxids begin after counter 0 of the epoch.
    Lead {
        /// Epoch for the votes of this server.
        epoch: Epoch,
        /// Leader designated by a configuration that comes into force with the epoch.
        designated_leader: Option<Sid>,
    },
    /// Use the configuration of a committed reconfiguration.
    ActivateConfig {
        /// Transaction with the reconfiguration.
        record: Record,
        /// Leader from now on. If it is another server, this server commits nothing more, and this
        /// action follows all packets that the learners still need.
        designated_leader: Sid,
    },
    /// Order a request from a client of a learner.
    Request {
        /// Connection of the learner. The host must check that the session belongs to this learner.
        from: LinkId,
        /// Forwarded request with an undecoded body.
        request: LearnerRequest,
    },
    /// Touch sessions that were active.
    Touch {
        /// Connection of the learner.
        from: LinkId,
        /// Active sessions with their timeouts.
        sessions: Vec<Touch>,
    },
    /// Check whether this session is live, and answer by calling `revalidated`. A live session
    /// moves to the learner.
    Revalidate {
        /// Connection of the learner that asks.
        from: LinkId,
        /// Session and its timeout.
        session: Touch,
    },
    /// Compare digests, because a learner's digest differs from the digest in a transaction. Call
    /// `compare_digests` after everything that was delivered has been applied to the tree. For an
    /// observer of a follower, the follower instead reports the difference to the leader.
    CompareDigests {
        /// Transaction with the differing digest.
        zxid: Zxid,
        /// Digest of the learner's tree.
        digest: u64,
    },
    /// React to a wrong tree: a quorum of voters without this server agrees on a digest, and this
    /// server's tree has a different one.
    OwnDigestDiffers {
        /// Last transaction in the compared trees.
        zxid: Zxid,
        /// Record of that transaction, if it is in memory.
        record: Option<Record>,
        /// Digest of this server's tree.
        own: u64,
        /// Digest on which the quorum agrees.
        theirs: u64,
    },
    /// Stop leading: close all connections, stop serving, and look for a leader.
    StepDown(StepDown),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send { to, packet } => write!(f, "{to}: send {}", LeaderPacketText(packet)),
            Self::SendSnapshot { to, zxid } => write!(f, "{to}: send snapshot {zxid}"),
            Self::ReadLog { to, from, upto } => write!(f, "{to}: read log {from} to {upto}"),
            Self::Close { link, fault } => write!(f, "{link}: close: {fault}"),
            Self::SaveAcceptedEpoch(epoch) => write!(f, "save accepted epoch {epoch}"),
            Self::SaveCurrentEpoch(epoch) => write!(f, "save current epoch {epoch}"),
            Self::Append(record) => write!(f, "append {record}"),
            Self::Deliver(record) => write!(f, "deliver {record}"),
            Self::Lead {
                epoch,
                designated_leader: None,
            } => write!(f, "lead epoch={epoch}"),
            Self::Lead {
                epoch,
                designated_leader: Some(sid),
            } => write!(f, "lead epoch={epoch} sid={sid}"),
            Self::ActivateConfig {
                record,
                designated_leader,
            } => write!(f, "activate config {record} sid={designated_leader}"),
            Self::Request { from, request } => {
                let (session, cxid, op) = (request.session, request.cxid, request.op);
                write!(f, "{from}: request session={session} cxid={cxid} op={op}")
            }
            Self::Touch { from, sessions } => write!(f, "{from}: touch len={}", sessions.len()),
            Self::Revalidate { from, session } => {
                write!(f, "{from}: revalidate session={}", session.session)
            }
            Self::CompareDigests { .. } => f.write_str("compare digests"),
            Self::OwnDigestDiffers {
                zxid, own, theirs, ..
            } => write!(f, "own digest {own:#x} is not {theirs:#x} at {zxid}"),
            Self::StepDown(reason) => write!(f, "step down: {reason}"),
        }
    }
}

/// Reason to drop a learner. The learner may connect again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkFault {
    /// The packet is not valid in the learner's state. For example, the first packet is not an
    /// introduction, or another packet than ACKEPOCH follows LEADERINFO.
    #[error("unexpected {packet}")]
    Unexpected {
        /// Text form of the packet.
        packet: String,
    },
    /// The learner does not support LEADERINFO and ACKEPOCH (before 3.4). Zoarium refuses such a
    /// learner, whereas Apache ZooKeeper serves it.
    #[error("protocol version {version:#x} is no longer supported")]
    ProtocolVersion {
        /// Protocol version of the learner.
        version: i32,
    },
    /// The learner's configuration is newer than the leader's, so this server must not lead it.
    #[error(
        "the learner's member list has version {theirs:#x}, which is newer than this server's version {ours:#x}"
    )]
    ConfigAhead {
        /// Configuration version of the learner.
        theirs: i64,
        /// Configuration version of the leader.
        ours: i64,
    },
    /// The learner has the leader's own sid, because two servers have the same `myid`. The leader
    /// would count this learner's acknowledgements as its own.
    #[error("the learner has this server's own sid {sid}")]
    OwnSid {
        /// Sid of both servers.
        sid: Sid,
    },
    /// The learner's accepted epoch is negative or does not have a valid successor.
    #[error("the learner's accepted epoch {accepted} is implausibly high")]
    EpochImplausible {
        /// Reported epoch.
        accepted: Epoch,
    },
    /// The learner's log is newer than the leader's, and the additional records are not known to be
    /// uncommitted.
    #[error(
        "the learner's log is newer than the leader's log: current epoch {current_epoch}, last zxid {last_logged}"
    )]
    HistoryAhead {
        /// Current epoch of the learner.
        current_epoch: Epoch,
        /// Last transaction in the learner's log.
        last_logged: Zxid,
    },
    /// The learner acknowledged a zxid that was never proposed.
    #[error(transparent)]
    NeverProposed(#[from] crate::broadcast::NeverProposed),
    /// No packet arrived in time.
    #[error("no packet received for {silent_ms} ms")]
    Silence {
        /// Duration of the silence.
        silent_ms: i64,
    },
    /// The learner sends packets but has not acknowledged a proposal in time.
    #[error("the learner has not acknowledged {zxid} after {lag_ms} ms")]
    AckLag {
        /// Oldest proposal that it has not acknowledged.
        zxid: Zxid,
        /// Time since that proposal was sent.
        lag_ms: i64,
    },
    /// Too many learners are being synchronised, and this one is an observer.
    #[error("too many learners are syncing")]
    Throttled,
    /// The server has opened a newer connection.
    #[error("server {sid} has connected again")]
    Replaced {
        /// Server that connected again.
        sid: Sid,
    },
    /// The learner forwarded a request that cannot be decoded. Such a request stops an Apache
    /// leader permanently.
    #[error("the learner forwarded a request that cannot be decoded")]
    UndecodableRequest,
    /// The log files ended or could not be read further while the learner was being synchronised
    /// from them.
    #[error("cannot read the log files to the end")]
    LogUnusable,
}

impl LinkFault {
    /// Returns whether a healthy learner never causes this fault.
    pub fn is_wrong_input(&self) -> bool {
        match self {
            Self::Unexpected { .. }
            | Self::ProtocolVersion { .. }
            | Self::OwnSid { .. }
            | Self::EpochImplausible { .. }
            | Self::NeverProposed(_)
            | Self::UndecodableRequest => true,
            Self::ConfigAhead { .. }
            | Self::HistoryAhead { .. }
            | Self::Silence { .. }
            | Self::AckLag { .. }
            | Self::Throttled
            | Self::Replaced { .. }
            | Self::LogUnusable => false,
        }
    }
}

/// Reason to stop leading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StepDown {
    /// Too few voters connected within `initLimit`.
    #[error("no quorum of voters joined the new epoch")]
    NoEpochQuorum,
    /// The wait for a quorum has lasted longer than `leader.maxTimeToWaitForEpoch`, and a voter
    /// that elected this server is looking for a leader again.
    #[error("a voter searched for another leader before a quorum joined the new epoch")]
    SupporterLooks,
    /// Too few voters accepted the epoch within `initLimit`.
    #[error("no quorum of voters accepted the epoch")]
    NoEpochAckQuorum,
    /// Too few voters acknowledged NEWLEADER within `initLimit`.
    #[error("no quorum of voters acknowledged the history")]
    NoNewLeaderQuorum,
    /// Too few voters are connected.
    #[error("the connection to a quorum of voters was lost")]
    LostQuorum,
    /// The counter of the epoch is exhausted, so a new epoch is needed. Sessions survive.
    #[error("the zxids of this epoch are used up")]
    CounterExhausted,
    /// A voter has accepted a later epoch from a prospective leader that never led. The voter must
    /// not accept an earlier epoch, so it would stay excluded as long as this server leads. The
    /// loss of one more server could then cost the quorum. The next epoch must be above the
    /// accepted epoch. Pass the accepted epoch to every later role as
    /// [`accepted_floor`](super::LeaderStart::accepted_floor). This also ensures that the leader
    /// steps down only once.
    #[error("voter {sid} has accepted epoch {accepted}, so the leader needs a later epoch")]
    VoterAhead {
        /// Voter that accepted the later epoch.
        sid: Sid,
        /// Epoch that the voter has accepted.
        accepted: Epoch,
    },
    /// A quorum of voters has different data from this server.
    #[error("a quorum of voters holds different data")]
    DataDiffers,
    /// The host ends the role.
    #[error("the server ends this role")]
    LeaveRequested,
}
