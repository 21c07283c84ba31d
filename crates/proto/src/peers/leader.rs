//! Packets from a leader, or from an observer's master, to a learner.

use bytes::Bytes;
use jute::{Decode, DecodeError, Encode};

use super::learner::{LearnerInfo, NO_ZXID, digest_payload, own_packet, payload};
use super::packet::{PacketType, QuorumPacket, own};
use crate::{Epoch, SessionId, Sid, Zxid};

/// String after the snapshot that follows a SNAP packet. Its correct position shows that both sides
/// agree on the end of the snapshot.
pub const SNAPSHOT_SIGNATURE: &str = "BenWasHere";

/// A decoded packet from a leader. Transactions are stored as bytes, because a learner logs exactly
/// the bytes that it receives ([`crate::txn::TxnRecord`] decodes them).
///
/// Encoding produces the bytes of a 3.9 leader. Source: Leader, LearnerHandler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaderPacket {
    /// The leader proposes an epoch.
    LeaderInfo {
        /// Proposed epoch.
        epoch: Epoch,
        /// Protocol version. It shows whether a Zoarium leader compares digests
        /// ([`LearnerInfo::REPORTS_DIGESTS`]). Java learners ignore it.
        protocol_version: i32,
    },
    /// The learner keeps its history, which the following transactions continue.
    Diff {
        /// Last zxid that the leader has committed. The value is unreliable.
        zxid: Zxid,
    },
    /// The learner must truncate its log after this zxid.
    Trunc {
        /// Last zxid to keep.
        zxid: Zxid,
    },
    /// The learner must discard its history. A snapshot follows, as raw bytes instead of a packet.
    Snap {
        /// Zxid of the snapshot, which may also contain some later changes.
        zxid: Zxid,
    },
    /// The committed history is complete. The learner must make it durable, adopt the epoch, and
    /// acknowledge.
    NewLeader {
        /// Epoch with counter 0.
        zxid: Zxid,
        /// Text of the newest configuration that the leader has seen.
        config: Option<Bytes>,
    },
    /// A quorum has the history, so the learner may serve clients.
    UpToDate,
    /// The learner must log this transaction and acknowledge it.
    Proposal {
        /// Zxid of the transaction. The transaction contains it, too.
        zxid: Zxid,
        /// Encoded transaction.
        txn: Bytes,
    },
    /// A proposal is committed.
    Commit {
        /// Zxid of the proposal.
        zxid: Zxid,
    },
    /// A committed transaction, for an observer.
    Inform {
        /// Zxid of the transaction. The transaction contains it, too.
        zxid: Zxid,
        /// Encoded transaction.
        txn: Bytes,
    },
    /// A reconfiguration is committed and in force from now on.
    CommitAndActivate {
        /// Zxid of the proposal.
        zxid: Zxid,
        /// Id of the new leader.
        designated_leader: Sid,
    },
    /// A reconfiguration is committed and in force from now on. Sent to an observer, with the
    /// transaction.
    InformAndActivate {
        /// Zxid of the transaction. The transaction contains it, too.
        zxid: Zxid,
        /// Id of the new leader.
        designated_leader: Sid,
        /// Encoded transaction.
        txn: Bytes,
    },
    /// The leader is running, and requests the active sessions.
    Ping {
        /// Zxid of the last proposal.
        zxid: Zxid,
    },
    /// The leader responds to a REVALIDATE.
    Revalidate {
        /// Session in the request.
        session: SessionId,
        /// Whether the session is live and now belongs to the learner.
        is_valid: bool,
    },
    /// The leader responds to the oldest unanswered sync request.
    Sync,
    /// The learner must report the digest of its tree after the transaction `zxid`. Sent only
    /// between Zoarium members.
    DigestAsked {
        /// Zxid of the last committed transaction.
        zxid: Zxid,
    },
    /// The leader has compared the reported digests. Sent only between Zoarium members.
    DigestJudged {
        /// Last transaction in the compared trees.
        zxid: Zxid,
        /// Digest on which a quorum that includes the leader agrees; `None` without such a quorum.
        agreed: Option<u64>,
    },
    /// Any other packet, which is ignored because its type is unknown or sent only by learners.
    Other {
        /// Number of the type.
        packet_type: i32,
    },
}

impl TryFrom<QuorumPacket> for LeaderPacket {
    type Error = DecodeError;

    /// Decodes the payload.
    ///
    /// # Errors
    /// If the payload is missing or too short for the type. The learner then closes the connection.
    fn try_from(packet: QuorumPacket) -> Result<Self, DecodeError> {
        let QuorumPacket {
            packet_type,
            zxid,
            data,
            ..
        } = packet;
        Ok(match PacketType::from_i32(packet_type) {
            Some(PacketType::LeaderInfo) => Self::LeaderInfo {
                epoch: zxid.epoch(),
                protocol_version: payload(data)?.i32()?,
            },
            Some(PacketType::Diff) => Self::Diff { zxid },
            Some(PacketType::Trunc) => Self::Trunc { zxid },
            Some(PacketType::Snap) => Self::Snap { zxid },
            Some(PacketType::NewLeader) => Self::NewLeader { zxid, config: data },
            Some(PacketType::UpToDate) => Self::UpToDate,
            Some(PacketType::Proposal) => Self::Proposal {
                zxid,
                txn: payload(data)?.rest(),
            },
            Some(PacketType::Commit) => Self::Commit { zxid },
            Some(PacketType::Inform) => Self::Inform {
                zxid,
                txn: payload(data)?.rest(),
            },
            Some(PacketType::CommitAndActivate) => Self::CommitAndActivate {
                zxid,
                designated_leader: Sid::decode(&mut payload(data)?)?,
            },
            Some(PacketType::InformAndActivate) => {
                let mut input = payload(data)?;
                Self::InformAndActivate {
                    zxid,
                    designated_leader: Sid::decode(&mut input)?,
                    txn: input.rest(),
                }
            }
            Some(PacketType::Ping) => Self::Ping { zxid },
            Some(PacketType::Revalidate) => {
                let mut input = payload(data)?;
                Self::Revalidate {
                    session: SessionId::decode(&mut input)?,
                    is_valid: input.bool()?,
                }
            }
            Some(PacketType::Sync) => Self::Sync,
            None if packet_type == own::DIGEST_ASKED => Self::DigestAsked { zxid },
            None if packet_type == own::DIGEST_JUDGED => Self::DigestJudged {
                zxid,
                agreed: match data {
                    Some(_) => Some(payload(data)?.i64()?.cast_unsigned()),
                    None => None,
                },
            },
            _ => Self::Other { packet_type },
        })
    }
}

impl LeaderPacket {
    /// Creates a LEADERINFO of this release.
    pub fn leader_info(epoch: Epoch) -> Self {
        Self::LeaderInfo {
            epoch,
            protocol_version: LearnerInfo::PROTOCOL_VERSION,
        }
    }
}

impl From<LeaderPacket> for QuorumPacket {
    fn from(packet: LeaderPacket) -> Self {
        use LeaderPacket as P;
        use PacketType as T;
        match packet {
            P::LeaderInfo {
                epoch,
                protocol_version,
            } => {
                let data = Some(protocol_version.to_bytes());
                Self::new(T::LeaderInfo, Zxid::new(epoch, 0), data)
            }
            P::Diff { zxid } => Self::new(T::Diff, zxid, None),
            P::Trunc { zxid } => Self::new(T::Trunc, zxid, None),
            P::Snap { zxid } => Self::new(T::Snap, zxid, None),
            P::NewLeader { zxid, config } => Self::new(T::NewLeader, zxid, config),
            P::UpToDate => Self::new(T::UpToDate, NO_ZXID, None),
            P::Proposal { zxid, txn } => Self::new(T::Proposal, zxid, Some(txn)),
            P::Commit { zxid } => Self::new(T::Commit, zxid, None),
            P::Inform { zxid, txn } => Self::new(T::Inform, zxid, Some(txn)),
            P::CommitAndActivate {
                zxid,
                designated_leader,
            } => Self::new(
                T::CommitAndActivate,
                zxid,
                Some(designated_leader.to_bytes()),
            ),
            P::InformAndActivate {
                zxid,
                designated_leader,
                txn,
            } => {
                let mut data = Vec::with_capacity(Sid::MIN_BYTES + txn.len());
                designated_leader.encode(&mut data);
                data.extend_from_slice(&txn);
                Self::new(T::InformAndActivate, zxid, Some(data.into()))
            }
            P::Ping { zxid } => Self::new(T::Ping, zxid, None),
            P::Revalidate { session, is_valid } => {
                let mut data = Vec::with_capacity(9);
                session.encode(&mut data);
                is_valid.encode(&mut data);
                Self::new(T::Revalidate, NO_ZXID, Some(data.into()))
            }
            P::Sync => Self::new(T::Sync, Zxid::ZERO, None),
            P::DigestAsked { zxid } => own_packet(own::DIGEST_ASKED, zxid, None),
            P::DigestJudged { zxid, agreed } => {
                own_packet(own::DIGEST_JUDGED, zxid, agreed.map(digest_payload))
            }
            P::Other { packet_type } => own_packet(packet_type, NO_ZXID, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(packet_type: PacketType, data: Option<&[u8]>) -> Result<LeaderPacket, DecodeError> {
        let data = data.map(Bytes::copy_from_slice);
        QuorumPacket::new(packet_type, Zxid(0x5_0000_0007), data).try_into()
    }

    #[test]
    fn payloads_that_are_missing_or_cut_short_are_errors() {
        for packet_type in [
            PacketType::LeaderInfo,
            PacketType::CommitAndActivate,
            PacketType::InformAndActivate,
            PacketType::Revalidate,
        ] {
            let missing = Err(DecodeError::Null { offset: 12 });
            assert_eq!(read(packet_type, None), missing, "{packet_type:?}");
            assert!(read(packet_type, Some(&[0; 3])).is_err(), "{packet_type:?}");
        }
        for packet_type in [PacketType::Proposal, PacketType::Inform] {
            assert!(read(packet_type, None).is_err(), "{packet_type:?}");
        }
        assert!(read(PacketType::Revalidate, Some(&[0; 8])).is_err());
    }

    #[test]
    fn newleader_may_come_without_a_configuration() {
        let zxid = Zxid(0x5_0000_0007);
        assert_eq!(
            read(PacketType::NewLeader, None),
            Ok(LeaderPacket::NewLeader { zxid, config: None })
        );
    }

    #[test]
    fn packets_that_only_learners_send_are_ignored() {
        let packet_type = PacketType::Request.number();
        assert_eq!(
            read(PacketType::Request, Some(&[1, 2])),
            Ok(LeaderPacket::Other { packet_type })
        );
    }

    #[test]
    fn leaderinfo_has_the_recorded_bytes() {
        let bytes = QuorumPacket::from(LeaderPacket::leader_info(Epoch(5))).to_bytes();
        let recorded = [
            &[0, 0, 0, 0x11][..],
            &[0, 0, 0, 5, 0, 0, 0, 0],
            &[0, 0, 0, 4, 0, 1, 0, 0],
            &[0xff; 4],
        ];
        assert_eq!(bytes[..], recorded.concat());
    }
}
