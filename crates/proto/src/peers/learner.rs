//! Packets from a learner to its leader.

use bytes::Bytes;
use jute::{Decode, DecodeError, DecodeRecord, Encode, EncodeRecord, Reader};

use super::packet::{PacketType, QuorumPacket, own};
use crate::{Epoch, Id, OpCode, SessionId, Sid, Zxid};

/// Identification of a learner. Old releases omit the last field, or the last two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LearnerInfo {
    /// Id of the learner (`myid`).
    pub sid: Sid,
    /// Protocol version, if the learner sends one. See [`LearnerInfo::protocol_version`].
    pub protocol_version: Option<i32>,
    /// Version of the configuration that the learner has committed.
    pub config_version: Option<i64>,
}

impl LearnerInfo {
    /// Version that all releases since 3.4 send. Leaders do not distinguish higher versions. Lower
    /// versions support neither LEADERINFO nor ACKEPOCH.
    pub const PROTOCOL_VERSION: i32 = 0x1_0000;

    /// Version announced by a Zoarium member that exchanges the packets of
    /// [`packet::own`](crate::packet::own). Other learners and leaders treat it like
    /// [`LearnerInfo::PROTOCOL_VERSION`].
    pub const REPORTS_DIGESTS: i32 = 0x1_5a4f;

    /// Creates the identification of a learner of this release.
    pub fn new(sid: Sid, config_version: i64) -> Self {
        Self {
            sid,
            protocol_version: Some(Self::PROTOCOL_VERSION),
            config_version: Some(config_version),
        }
    }

    /// Returns the effective version, which is 1 if none is sent.
    pub fn protocol_version(&self) -> i32 {
        self.protocol_version.unwrap_or(1)
    }
}

impl Decode for LearnerInfo {
    const MIN_BYTES: usize = 8;

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let sid = Sid::decode(input)?;
        let protocol_version = optional(input)?;
        let config_version = match protocol_version {
            Some(_) => optional(input)?,
            None => None,
        };
        Ok(Self {
            sid,
            protocol_version,
            config_version,
        })
    }
}

fn optional<T: Decode>(input: &mut Reader) -> Result<Option<T>, DecodeError> {
    if input.is_empty() {
        return Ok(None);
    }
    T::decode(input).map(Some)
}

impl Encode for LearnerInfo {
    fn encode(&self, out: &mut Vec<u8>) {
        self.sid.encode(out);
        if let Some(version) = self.protocol_version {
            version.encode(out);
            if let Some(version) = self.config_version {
                version.encode(out);
            }
        }
    }
}

/// An active session: its id and timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct Touch {
    /// Id of the session.
    pub session: SessionId,
    /// Timeout of the session, ms.
    pub timeout_ms: i32,
}

/// A client's request that a learner forwards to the leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearnerRequest {
    /// Session of the client.
    pub session: SessionId,
    /// Number that the client assigned to the request; 0 for createSession.
    pub cxid: i32,
    /// Opcode. It may be unknown, or an opcode that a learner must not send.
    pub op: i32,
    /// The record as the client sent it, not decoded yet; empty for closeSession.
    pub body: Bytes,
    /// Identities of the client. Null only for createSession, because an Apache leader refuses all
    /// other requests without a list.
    pub authinfo: Option<Vec<Id>>,
}

impl LearnerRequest {
    /// Returns the opcode if it is known.
    pub fn op(&self) -> Option<OpCode> {
        OpCode::from_i32(self.op)
    }
}

/// A decoded packet from a learner.
///
/// Encoding produces the bytes that a 3.9 learner sends. Fields without information (the zxid of a
/// REVALIDATE) are not stored. Source: Learner, Follower, Observer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LearnerPacket {
    /// A follower introduces itself, or a server that is not a voter yet but is to become a voter.
    FollowerInfo {
        /// Highest epoch that the follower has promised to follow.
        accepted_epoch: Epoch,
        /// Identification; `None` if the packet lacks it, as in releases up to 3.3.
        info: Option<LearnerInfo>,
    },
    /// An observer introduces itself.
    ObserverInfo {
        /// Highest epoch that the observer has promised to follow.
        accepted_epoch: Epoch,
        /// Identification, as in `FollowerInfo`.
        info: Option<LearnerInfo>,
    },
    /// The learner has durably accepted the proposed epoch.
    AckEpoch {
        /// Last transaction in the learner's log.
        last_logged: Zxid,
        /// Epoch of the learner's history; `None` if the learner had already accepted this epoch,
        /// so its answer does not count for the quorum.
        current_epoch: Option<Epoch>,
    },
    /// The learner has logged all proposals up to this one. Counter 0 acknowledges NEWLEADER and
    /// UPTODATE.
    Ack {
        /// Zxid of the last logged proposal.
        zxid: Zxid,
    },
    /// The learner responds to a PING.
    Ping {
        /// Zxid in the PING.
        zxid: Zxid,
        /// Sessions that were active since the previous response.
        touched: Vec<Touch>,
    },
    /// A client resumes this session, and the learner queries whether the session is live.
    Revalidate(Touch),
    /// The learner forwards a client's request.
    Request(LearnerRequest),
    /// After a committed transaction, the digest of the learner's tree differs from the digest in
    /// the transaction. Sent only between Zoarium members.
    DigestDiffers {
        /// Zxid of the transaction.
        zxid: Zxid,
        /// Digest of the learner's tree.
        digest: u64,
    },
    /// The learner responds to
    /// [`LeaderPacket::DigestAsked`](crate::leader::LeaderPacket::DigestAsked). Sent only between
    /// Zoarium members.
    Digest {
        /// Last transaction of the tree, as in the request.
        zxid: Zxid,
        /// Digest of the learner's tree.
        digest: u64,
    },
    /// Any other packet, which is ignored because its type is unknown or sent only by leaders.
    Other {
        /// Number of the type.
        packet_type: i32,
    },
}

impl TryFrom<QuorumPacket> for LearnerPacket {
    type Error = DecodeError;

    /// Decodes the payload.
    ///
    /// # Errors
    /// If the payload is missing or too short for the type. The leader then closes the connection.
    fn try_from(packet: QuorumPacket) -> Result<Self, DecodeError> {
        let QuorumPacket {
            packet_type,
            zxid,
            data,
            authinfo,
        } = packet;
        Ok(match PacketType::from_i32(packet_type) {
            Some(PacketType::FollowerInfo) => Self::FollowerInfo {
                accepted_epoch: zxid.epoch(),
                info: learner_info(data)?,
            },
            Some(PacketType::ObserverInfo) => Self::ObserverInfo {
                accepted_epoch: zxid.epoch(),
                info: learner_info(data)?,
            },
            Some(PacketType::AckEpoch) => {
                let epoch = payload(data)?.i32()?;
                Self::AckEpoch {
                    last_logged: zxid,
                    current_epoch: (epoch != -1).then_some(Epoch(epoch.into())),
                }
            }
            Some(PacketType::Ack) => Self::Ack { zxid },
            Some(PacketType::Ping) => {
                let mut input = payload(data)?;
                let mut touched = Vec::with_capacity(input.remaining() / Touch::MIN_BYTES);
                while !input.is_empty() {
                    touched.push(Touch::decode(&mut input)?);
                }
                Self::Ping { zxid, touched }
            }
            Some(PacketType::Revalidate) => Self::Revalidate(Touch::decode(&mut payload(data)?)?),
            Some(PacketType::Request) => {
                let mut input = payload(data)?;
                Self::Request(LearnerRequest {
                    session: SessionId::decode(&mut input)?,
                    cxid: input.i32()?,
                    op: input.i32()?,
                    body: input.rest(),
                    authinfo,
                })
            }
            None if packet_type == own::DIGEST_DIFFERS => Self::DigestDiffers {
                zxid,
                digest: payload(data)?.i64()?.cast_unsigned(),
            },
            None if packet_type == own::DIGEST_REPORTED => Self::Digest {
                zxid,
                digest: payload(data)?.i64()?.cast_unsigned(),
            },
            _ => Self::Other { packet_type },
        })
    }
}

fn learner_info(data: Option<Bytes>) -> Result<Option<LearnerInfo>, DecodeError> {
    data.map(|data| LearnerInfo::decode(&mut Reader::new(data)))
        .transpose()
}

/// Returns the payload of a packet that must contain a payload.
pub(crate) fn payload(data: Option<Bytes>) -> Result<Reader, DecodeError> {
    // Offset of the data's length, which follows type and zxid.
    const OFFSET: usize = 12;
    data.map(Reader::new)
        .ok_or(DecodeError::Null { offset: OFFSET })
}

impl From<LearnerPacket> for QuorumPacket {
    fn from(packet: LearnerPacket) -> Self {
        use PacketType as T;
        match packet {
            LearnerPacket::FollowerInfo {
                accepted_epoch,
                info,
            } => {
                let data = info.map(|info| info.to_bytes());
                Self::new(T::FollowerInfo, Zxid::new(accepted_epoch, 0), data)
            }
            LearnerPacket::ObserverInfo {
                accepted_epoch,
                info,
            } => {
                let data = info.map(|info| info.to_bytes());
                Self::new(T::ObserverInfo, Zxid::new(accepted_epoch, 0), data)
            }
            LearnerPacket::AckEpoch {
                last_logged,
                current_epoch,
            } => {
                let epoch = current_epoch.map_or(-1, Epoch::lower_half);
                Self::new(T::AckEpoch, last_logged, Some(epoch.to_bytes()))
            }
            LearnerPacket::Ack { zxid } => Self::new(T::Ack, zxid, None),
            LearnerPacket::Ping { zxid, touched } => {
                let mut data = Vec::with_capacity(touched.len() * Touch::MIN_BYTES);
                touched.iter().for_each(|touch| touch.encode(&mut data));
                Self::new(T::Ping, zxid, Some(data.into()))
            }
            LearnerPacket::Revalidate(touch) => {
                Self::new(T::Revalidate, NO_ZXID, Some(touch.to_bytes()))
            }
            LearnerPacket::Request(request) => {
                let mut data = Vec::with_capacity(16 + request.body.len());
                request.session.encode(&mut data);
                request.cxid.encode(&mut data);
                request.op.encode(&mut data);
                data.extend_from_slice(&request.body);
                Self {
                    authinfo: request.authinfo,
                    ..Self::new(T::Request, NO_ZXID, Some(data.into()))
                }
            }
            LearnerPacket::DigestDiffers { zxid, digest } => {
                own_packet(own::DIGEST_DIFFERS, zxid, Some(digest_payload(digest)))
            }
            LearnerPacket::Digest { zxid, digest } => {
                own_packet(own::DIGEST_REPORTED, zxid, Some(digest_payload(digest)))
            }
            LearnerPacket::Other { packet_type } => own_packet(packet_type, NO_ZXID, None),
        }
    }
}

/// Creates a packet whose type need not be a [`PacketType`].
pub(crate) fn own_packet(packet_type: i32, zxid: Zxid, data: Option<Bytes>) -> QuorumPacket {
    QuorumPacket {
        packet_type,
        zxid,
        data,
        authinfo: None,
    }
}

pub(crate) fn digest_payload(digest: u64) -> Bytes {
    digest.cast_signed().to_bytes()
}

/// Value of the zxid field in packets without a zxid.
pub(crate) const NO_ZXID: Zxid = Zxid(-1);

#[cfg(test)]
mod tests {
    use super::*;

    fn read(packet_type: PacketType, data: Option<&[u8]>) -> Result<LearnerPacket, DecodeError> {
        let data = data.map(Bytes::copy_from_slice);
        QuorumPacket::new(packet_type, Zxid(0x5_0000_0007), data).try_into()
    }

    #[test]
    fn shorter_introductions_of_old_releases_are_understood() {
        let full = LearnerInfo::new(Sid(9), 3).to_bytes();
        let info = |len| match read(PacketType::FollowerInfo, Some(&full[..len])) {
            Ok(LearnerPacket::FollowerInfo { info, .. }) => info,
            other => panic!("{other:?}"),
        };
        assert_eq!(info(20), Some(LearnerInfo::new(Sid(9), 3)));
        assert_eq!(info(12).and_then(|info| info.config_version), None);
        assert_eq!(info(12).map(|info| info.protocol_version()), Some(0x1_0000));
        assert_eq!(info(8).map(|info| info.protocol_version()), Some(1));
        assert_eq!(
            read(PacketType::ObserverInfo, None),
            Ok(LearnerPacket::ObserverInfo {
                accepted_epoch: Epoch(5),
                info: None
            })
        );
        assert!(read(PacketType::FollowerInfo, Some(&full[..7])).is_err());
        assert!(read(PacketType::FollowerInfo, Some(&full[..10])).is_err());
        assert!(read(PacketType::FollowerInfo, Some(&full[..19])).is_err());
    }

    #[test]
    fn payloads_that_are_missing_or_cut_short_are_errors() {
        for packet_type in [
            PacketType::AckEpoch,
            PacketType::Ping,
            PacketType::Revalidate,
            PacketType::Request,
        ] {
            assert_eq!(
                read(packet_type, None),
                Err(DecodeError::Null { offset: 12 }),
                "{packet_type:?}"
            );
            let cut = read(packet_type, Some(&[0; 3]));
            assert!(cut.is_err(), "{packet_type:?}: {cut:?}");
        }
        assert!(read(PacketType::Ping, Some(&[0; 13])).is_err());
        assert!(read(PacketType::Request, Some(&[0; 15])).is_err());
    }

    #[test]
    fn an_epoch_of_minus_one_is_not_an_epoch() {
        let epoch = |number: i32| match read(PacketType::AckEpoch, Some(&number.to_bytes())) {
            Ok(LearnerPacket::AckEpoch { current_epoch, .. }) => current_epoch,
            other => panic!("{other:?}"),
        };
        assert_eq!((epoch(-1), epoch(4)), (None, Some(Epoch(4))));
    }

    #[test]
    fn packets_that_only_leaders_send_are_ignored() {
        for packet_type in [PacketType::Proposal, PacketType::UpToDate] {
            let packet_type_number = packet_type.number();
            assert_eq!(
                read(packet_type, Some(&[1, 2])),
                Ok(LearnerPacket::Other {
                    packet_type: packet_type_number
                })
            );
        }
    }
}
