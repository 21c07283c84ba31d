//! Packets on a quorum connection, with undecoded payloads.
//!
//! ```text
//! QuorumPacket  type i32 | zxid i64 | data buffer | authinfo vector<Id>
//! ```
//!
//! Packets follow each other without a length, so the end of a packet is known only from the
//! lengths inside it. [`QuorumPacket::extent`] finds the end without allocating memory.
//! [`crate::learner`] and [`crate::leader`] define the payloads.
//!
//! Source: QuorumPacket, Leader.java's constants.

use bytes::Bytes;
use jute::{DecodeError, DecodeRecord, EncodeRecord, Limits};

use crate::{Id, Zxid};

/// A packet with an undecoded payload.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct QuorumPacket {
    /// Type of the packet, a [`PacketType`] or an unknown number.
    pub packet_type: i32,
    /// Zxid whose meaning depends on the type.
    pub zxid: Zxid,
    /// Payload. Null and empty differ.
    pub data: Option<Bytes>,
    /// Identities of the client in a REQUEST, otherwise null.
    pub authinfo: Option<Vec<Id>>,
}

impl QuorumPacket {
    /// Minimum length of a packet (without data and identities), bytes.
    pub const BYTES_MIN: usize = 20;

    /// Creates a packet without identities.
    pub fn new(packet_type: PacketType, zxid: Zxid, data: Option<Bytes>) -> Self {
        Self {
            packet_type: packet_type.number(),
            zxid,
            data,
            authinfo: None,
        }
    }

    /// Returns the extent of the packet at the start of `bytes`; `None` if more bytes are needed.
    ///
    /// Nothing is copied, and no more bytes are requested than the limits allow: one field for the
    /// data, and the length of one field for all identities together. (ZooKeeper limits each string
    /// of the identities but not their number.) Longer identities are reported as
    /// [`Extent::LongIdentities`].
    ///
    /// # Errors
    /// If a length is below -1 or above the limit. The following bytes cannot be interpreted, so
    /// the connection must be closed.
    pub fn extent(bytes: &[u8], limits: Limits) -> Result<Option<Extent>, DecodeError> {
        let mut scan = Scan {
            bytes,
            at: size_of::<i32>() + size_of::<i64>(),
            limit: limits.field_bytes_max,
        };
        if scan.skip_field()?.is_none() {
            return Ok(None);
        }
        let authinfo_at = scan.at;
        let Some(count) = scan.i32() else {
            return Ok(None);
        };
        // A negative count means an empty vector, as everywhere in jute.
        for _ in 0..count.max(0) {
            let both = scan.skip_field()?.and(scan.skip_field()?);
            if scan.at - authinfo_at > scan.limit {
                let identities = u32::try_from(count).unwrap_or(0);
                return Ok(Some(Extent::LongIdentities {
                    at: authinfo_at,
                    identities,
                }));
            }
            if both.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(Extent::Whole(scan.at)))
    }
}

/// Types of packets between Zoarium members that compare their digests. Other servers do not know
/// these types, so they are sent only to a member that has announced
/// [`REPORTS_DIGESTS`](crate::learner::LearnerInfo::REPORTS_DIGESTS).
pub mod own {
    /// A learner reports that the digest of its tree differs from the digest in a transaction.
    pub const DIGEST_DIFFERS: i32 = 0x5a4f_0001;
    /// The leader requests the digest of a learner's tree.
    pub const DIGEST_ASKED: i32 = 0x5a4f_0002;
    /// A learner reports the digest of its tree.
    pub const DIGEST_REPORTED: i32 = 0x5a4f_0003;
    /// The leader reports which digest is correct.
    pub const DIGEST_JUDGED: i32 = 0x5a4f_0004;
}

/// Extent of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The packet is complete. Contains its length in bytes.
    Whole(usize),
    /// The identities together are longer than a field may be. They may continue after the
    /// available bytes and should not be stored. All bytes before the identities are available.
    LongIdentities {
        /// Offset of the identities, which begin with their number.
        at: usize,
        /// Number of identities. Each identity consists of two strings.
        identities: u32,
    },
}

/// Decoder that skips fields.
struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    limit: usize,
}

impl Scan<'_> {
    fn i32(&mut self) -> Option<i32> {
        let chunk = self.bytes.get(self.at..)?.first_chunk()?;
        self.at += chunk.len();
        Some(i32::from_be_bytes(*chunk))
    }

    /// Skips a buffer or string. Returns `None` if it is incomplete.
    fn skip_field(&mut self) -> Result<Option<()>, DecodeError> {
        let offset = self.at;
        let Some(len) = self.i32() else {
            return Ok(None);
        };
        if len == -1 {
            return Ok(Some(()));
        }
        let wanted = usize::try_from(len).map_err(|_| self.unreasonable(offset, len))?;
        self.check(offset, wanted)?;
        self.at += wanted;
        Ok((self.at <= self.bytes.len()).then_some(()))
    }

    fn check(&self, offset: usize, wanted: usize) -> Result<(), DecodeError> {
        if wanted > self.limit {
            let len = i32::try_from(wanted).unwrap_or(i32::MAX);
            return Err(self.unreasonable(offset, len));
        }
        Ok(())
    }

    fn unreasonable(&self, offset: usize, len: i32) -> DecodeError {
        DecodeError::Length {
            offset,
            len,
            limit: self.limit,
        }
    }
}

macro_rules! packet_types {
    ($( $(#[doc = $doc:literal])+ $name:ident = $number:literal $wire:literal; )+) => {
        /// Type of a packet.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(i32)]
        pub enum PacketType { $( $(#[doc = $doc])+ $name = $number, )+ }

        impl PacketType {
            /// All types, ordered by number.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the type with this number. Both sides ignore unknown types.
            pub fn from_i32(number: i32) -> Option<Self> {
                match number { $( $number => Some(Self::$name), )+ _ => None }
            }

            /// Returns ZooKeeper's name for the type.
            pub fn name(self) -> &'static str {
                match self { $( Self::$name => $wire, )+ }
            }

            /// Returns the purpose as a sentence.
            pub fn description(self) -> &'static str {
                match self { $( Self::$name => concat!($($doc),+).trim_ascii_start(), )+ }
            }
        }
    };
}

packet_types! {
    /// A learner forwards the request of a client.
    Request = 1 "REQUEST";
    /// The leader proposes a transaction.
    Proposal = 2 "PROPOSAL";
    /// A learner has logged a proposal, or has finished its synchronisation.
    Ack = 3 "ACK";
    /// A proposal is committed.
    Commit = 4 "COMMIT";
    /// The sender is alive. A learner also lists its active sessions.
    Ping = 5 "PING";
    /// A learner asks whether the session of a new connection is alive, and the leader answers.
    Revalidate = 6 "REVALIDATE";
    /// The leader has sent all transactions before a sync.
    Sync = 7 "SYNC";
    /// The leader sends a committed transaction to an observer.
    Inform = 8 "INFORM";
    /// A reconfiguration is committed, and the learner uses the new member list.
    CommitAndActivate = 9 "COMMITANDACTIVATE";
    /// The leader has sent all earlier transactions. The learner accepts the new epoch.
    NewLeader = 10 "NEWLEADER";
    /// A follower introduces itself.
    FollowerInfo = 11 "FOLLOWERINFO";
    /// The learner is up to date and may serve clients.
    UpToDate = 12 "UPTODATE";
    /// The following transactions continue the learner's log.
    Diff = 13 "DIFF";
    /// The learner must remove the end of its log.
    Trunc = 14 "TRUNC";
    /// A snapshot follows.
    Snap = 15 "SNAP";
    /// An observer introduces itself.
    ObserverInfo = 16 "OBSERVERINFO";
    /// The leader proposes an epoch.
    LeaderInfo = 17 "LEADERINFO";
    /// A learner accepts the epoch.
    AckEpoch = 18 "ACKEPOCH";
    /// The leader sends a committed reconfiguration to an observer.
    InformAndActivate = 19 "INFORMANDACTIVATE";
}

impl PacketType {
    /// Returns the number on the wire.
    pub fn number(self) -> i32 {
        self as i32
    }
}

#[cfg(test)]
mod tests {
    use jute::{Decode, Encode, Reader};
    use proptest::prelude::*;

    use super::*;

    fn packet(data: Option<&'static [u8]>, ids: Option<Vec<(&str, &str)>>) -> QuorumPacket {
        let id = |(scheme, id): (&str, &str)| Id {
            scheme: scheme.into(),
            id: id.into(),
        };
        QuorumPacket {
            packet_type: 1,
            zxid: Zxid(-1),
            data: data.map(Bytes::from_static),
            authinfo: ids.map(|ids| ids.into_iter().map(id).collect()),
        }
    }

    fn extent(bytes: &[u8]) -> Result<Option<Extent>, DecodeError> {
        QuorumPacket::extent(
            bytes,
            Limits {
                field_bytes_max: 60,
            },
        )
    }

    #[test]
    fn the_end_of_a_packet_is_found_byte_by_byte() {
        for packet in [
            packet(None, None),
            packet(Some(b""), Some(vec![])),
            packet(
                Some(b"data"),
                Some(vec![("ip", "127.0.0.1"), ("super", "")]),
            ),
        ] {
            let bytes = packet.to_bytes();
            for cut in 0..bytes.len() {
                assert_eq!(extent(&bytes[..cut]), Ok(None), "{cut} of {packet:?}");
            }
            let with_more = [&bytes[..], b"next"].concat();
            assert_eq!(extent(&with_more), Ok(Some(Extent::Whole(bytes.len()))));
            assert_eq!(QuorumPacket::decode(&mut Reader::new(bytes)), Ok(packet));
        }
        assert_eq!(packet(None, None).to_bytes().len(), QuorumPacket::BYTES_MIN);
    }

    #[test]
    fn a_length_above_the_limit_is_refused_before_its_bytes_arrive() {
        let mut head = vec![0; 12];
        for (len, fits) in [(60, true), (61, false), (i32::MAX, false), (-2, false)] {
            head.truncate(12);
            len.encode(&mut head);
            assert_eq!(extent(&head).is_ok(), fits, "{len}");
        }
    }

    #[test]
    fn many_small_identities_together_are_too_long() {
        let mut bytes = packet(None, Some(vec![])).to_bytes().to_vec();
        bytes.truncate(16);
        i32::MAX.encode(&mut bytes);
        bytes.extend_from_slice(&[0; 8 * 6]);
        assert_eq!(extent(&bytes), Ok(None));
        bytes.extend_from_slice(&[0; 8 * 4]);
        let identities = i32::MAX.cast_unsigned();
        let long = Extent::LongIdentities { at: 16, identities };
        assert_eq!(extent(&bytes), Ok(Some(long)));
        bytes.truncate(20);
        61i32.encode(&mut bytes);
        assert!(extent(&bytes).is_err(), "no string may be as long");
    }

    #[test]
    fn numbers_and_names_are_unique() {
        for (at, one) in PacketType::ALL.iter().enumerate() {
            assert_eq!(one.number(), i32::try_from(at).unwrap() + 1);
            assert_eq!(PacketType::from_i32(one.number()), Some(*one));
            let same_name = |other: &&PacketType| other.name() == one.name();
            assert_eq!(PacketType::ALL.iter().filter(same_name).count(), 1);
        }
        assert_eq!(PacketType::from_i32(0), None);
        assert_eq!(PacketType::from_i32(20), None);
    }

    proptest! {
        #[test]
        fn packets_with_a_length_decode_to_that_length(bytes in proptest::collection::vec(
            prop_oneof![Just(0u8), Just(0xff), any::<u8>()], 0..120)) {
            if let Ok(Some(Extent::Whole(len))) = extent(&bytes) {
                let mut input = Reader::new(bytes);
                // The only possible errors are null strings in the identities.
                match QuorumPacket::decode(&mut input) {
                    Ok(_) => prop_assert_eq!(input.position(), len),
                    Err(error) => {
                        let is_null = matches!(error, DecodeError::Null { .. });
                        prop_assert!(is_null, "{}", error);
                    }
                }
            }
        }
    }
}
