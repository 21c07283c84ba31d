//! What a leader asks of its host, and why it drops learners or gives up.

use std::fmt;

use proto::leader::LeaderPacket;
use proto::learner::{LearnerRequest, Touch};
use proto::{Epoch, Sid, Zxid};

use crate::Record;
use crate::packets::ShowLeader;

/// A connection of a learner, as numbered by the host. Numbers are not used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link {}", self.0)
    }
}

/// An order to the host, to be carried out in the order given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send this to a learner.
    Send {
        /// To whom.
        to: LinkId,
        /// What.
        packet: LeaderPacket,
    },
    /// Send a SNAP packet with this zxid and the tree behind it, signature included, before anything
    /// that is sent to this learner later. The tree must have all that was delivered so far; it
    /// may have more. Then call `handle_snapshot_sent`.
    SendSnapshot {
        /// To whom.
        to: LinkId,
        /// The last transaction that the tree is sure to have.
        zxid: Zxid,
    },
    /// Read the log files from the last transaction that is not behind `from`, and call
    /// `handle_log_records` with some of them; once there is room for them on the connection.
    /// Without such a transaction, or if they are too many to be worth it: `handle_log_unusable`.
    ReadLog {
        /// For whom.
        to: LinkId,
        /// Where to begin.
        from: Zxid,
        /// What stands behind it is not needed.
        upto: Zxid,
    },
    /// Drop the connection.
    Close {
        /// Which.
        link: LinkId,
        /// Why.
        fault: LinkFault,
    },
    /// Make the epoch durable, then call `handle_accepted_epoch_saved`.
    SaveAcceptedEpoch(Epoch),
    /// Make the epoch durable, then call `handle_current_epoch_saved`.
    SaveCurrentEpoch(Epoch),
    /// Append to the log. Once it is on disk, call `handle_synced`.
    Append(Record),
    /// Committed: apply it to the tree. A server that stands alone is told the zxid of the last one
    /// only, which stands for all before it.
    Deliver(Record),
    /// The epoch is established: start to serve. Zxids begin behind counter 0 of it.
    Lead {
        /// The epoch, for the votes that this server sends out.
        epoch: Epoch,
        /// If a configuration comes into force with the epoch: the leader that goes with it.
        designated_leader: Option<Sid>,
    },
    /// A reconfiguration is committed: use the configuration in it.
    ActivateConfig {
        /// The reconfiguration.
        record: Record,
        /// Who leads from here on. If it is not this server, nothing is committed any more, and all
        /// that the learners are still to hear has been sent before.
        designated_leader: Sid,
    },
    /// A client of a learner wants this.
    Request {
        /// Where it came from: the owner of the session must be compared with it.
        from: LinkId,
        /// The request, its body not yet looked at.
        request: LearnerRequest,
    },
    /// These sessions are alive.
    Touch {
        /// Where they live.
        from: LinkId,
        /// Each with its timeout.
        sessions: Vec<Touch>,
    },
    /// Is this session alive? If it is, it moves to the learner; answer by `revalidated`.
    Revalidate {
        /// Where it came to.
        from: LinkId,
        /// The session and its timeout.
        session: Touch,
    },
    /// A learner's tree has another digest than a transaction carries. Once the tree has everything
    /// that was delivered, call `compare_digests`. A follower reports the difference of its observer to the leader.
    CompareDigests {
        /// The transaction.
        zxid: Zxid,
        /// Digest of the learner's tree.
        digest: u64,
    },
    /// A quorum of voters without this server has one and the same digest, and this server's tree has
    /// another one.
    OwnDigestDiffers {
        /// The last transaction of the trees that were compared.
        zxid: Zxid,
        /// That transaction, if it is in memory.
        record: Option<Record>,
        /// Digest of this server's tree.
        own: u64,
        /// Digest of the others.
        theirs: u64,
    },
    /// Leading is over: close all connections, stop serving, look for a leader.
    StepDown(StepDown),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send { to, packet } => write!(f, "{to}: send {}", ShowLeader(packet)),
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
            } => write!(f, "own digest {own:#x} differs from {theirs:#x} at {zxid}"),
            Self::StepDown(reason) => write!(f, "step down: {reason}"),
        }
    }
}

/// Why a learner is dropped. It is welcome to come back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkFault {
    /// A packet that has no place here: no introduction to begin with, no ACKEPOCH after
    /// LEADERINFO, no acknowledgement of NEWLEADER.
    #[error("unexpected {packet}")]
    Unexpected {
        /// What it is, in words.
        packet: String,
    },
    /// It knows neither LEADERINFO nor ACKEPOCH (before 3.4; ours refuses it, Apache's serves).
    #[error("protocol version {version:#x} is not spoken any more")]
    ProtocolVersion {
        /// What it speaks.
        version: i32,
    },
    /// Its configuration is newer: this server has no business leading it.
    #[error("its configuration {theirs:#x} is newer than {ours:#x}")]
    ConfigAhead {
        /// The learner's version.
        theirs: i64,
        /// The leader's.
        ours: i64,
    },
    /// It has the leader's own number: two servers with one `myid`. Its acknowledgements would count
    /// as the leader's.
    #[error("it has this server's own sid {sid}")]
    OwnSid {
        /// The number.
        sid: Sid,
    },
    /// An epoch from which no next one can be made, so it was never anybody's.
    #[error("its accepted epoch {accepted} cannot be")]
    EpochImplausible {
        /// What it claims.
        accepted: Epoch,
    },
    /// Its history is ahead of the leader's, and no quorum has said yet that this does not matter.
    #[error("its history {current_epoch}, {last_logged} is ahead")]
    HistoryAhead {
        /// Its current epoch.
        current_epoch: Epoch,
        /// Its last transaction.
        last_logged: Zxid,
    },
    /// It acknowledges what was never proposed.
    #[error(transparent)]
    NeverProposed(#[from] crate::broadcast::NeverProposed),
    /// Nothing was heard in time.
    #[error("nothing heard for {silent_ms} ms")]
    Silence {
        /// How long.
        silent_ms: i64,
    },
    /// It answers, but does not acknowledge.
    #[error("{zxid} not acknowledged after {lag_ms} ms")]
    AckLag {
        /// The oldest proposal that waits for it.
        zxid: Zxid,
        /// How long.
        lag_ms: i64,
    },
    /// Too many are being synchronised, and this one is an observer.
    #[error("too many learners are being synchronised")]
    Throttled,
    /// The same server is here again over a newer connection.
    #[error("server {sid} has come again")]
    Replaced {
        /// Which.
        sid: Sid,
    },
    /// It passes on a request that does not decode, which an Apache leader would stop at for ever.
    #[error("it passes on a request that does not decode")]
    UndecodableRequest,
    /// The log files ended or broke off while it was caught up from them.
    #[error("the log files cannot be read to the end")]
    LogUnusable,
}

impl LinkFault {
    /// Whether no healthy learner would have sent what it is dropped for.
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

/// Why leading is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StepDown {
    /// Not enough voters came within `initLimit`.
    #[error("no quorum of voters for a new epoch")]
    NoEpochQuorum,
    /// No quorum came for long, and a voter that elected this server looks for a leader again
    /// (`leader.maxTimeToWaitForEpoch`).
    #[error("a voter has changed its mind before there was a quorum for a new epoch")]
    SupporterLooks,
    /// Not enough voters accepted the epoch within `initLimit`.
    #[error("no quorum of voters accepted the epoch")]
    NoEpochAckQuorum,
    /// Not enough voters took on the history within `initLimit`.
    #[error("no quorum of voters acknowledged the history")]
    NoNewLeaderQuorum,
    /// Not enough voters are in touch.
    #[error("no quorum of voters is in touch")]
    LostQuorum,
    /// The counter of the epoch is used up: a new epoch is needed. Sessions live on.
    #[error("the epoch has no zxid left")]
    CounterExhausted,
    /// A voter comes back and has accepted a later epoch, that of a leader-to-be which never led. It
    /// must not accept an earlier one, so it would stay outside for as long as this server leads, and the next
    /// server that fails may be the one too many. The next epoch has to be above that one: to be
    /// given to every later role as [`accepted_floor`](super::LeaderStart::accepted_floor), which
    /// is also what makes this happen once.
    #[error("voter {sid} has accepted epoch {accepted}, a later one is needed for it")]
    VoterAhead {
        /// Who it is.
        sid: Sid,
        /// What it has accepted.
        accepted: Epoch,
    },
    /// A quorum of voters holds other data than this server.
    #[error("a quorum of voters holds other data")]
    DataDiffers,
    /// The host ends the role.
    #[error("told to leave")]
    Told,
}
