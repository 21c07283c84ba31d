//! From bytes to packets.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use jute::{Decode, DecodeError, Limits, Reader};
use proto::packet::{Extent, QuorumPacket};

/// Bytes that have come from another member, and the packets in them.
///
/// It grows with the bytes that have come, never by a length that is only announced, and holds one
/// packet and one read at most, if more is read only when there is no packet.
#[derive(Debug)]
pub struct PacketBuffer {
    bytes: BytesMut,
    limits: Limits,
    /// Of all packets behind the first, from somebody who has yet to introduce itself.
    limits_behind: Option<Limits>,
    /// Found behind good packets, to be told once those are delivered.
    fault: Option<PacketFault>,
    /// A packet whose identities are too long to be kept.
    long: Option<LongIdentities>,
    /// Whether bytes that come in the place of a packet are none that can ever be one.
    is_foreign: fn(&[u8]) -> bool,
}

/// Why bytes are no packets; where the next one begins is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PacketFault {
    /// They do not decode.
    Malformed(DecodeError),
    /// They are of something else altogether, as the host knows it.
    Foreign,
}

impl From<DecodeError> for PacketFault {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}

/// What is left of a packet whose identities are not kept.
///
/// A client's request that comes with them must be refused. To close the connection for it would cut
/// off all clients of the member that passes it on.
#[derive(Debug)]
struct LongIdentities {
    /// Without any identities.
    packet: QuorumPacket,
    /// Strings that are still to be stepped over.
    strings: u64,
    /// Bytes of the one that was begun.
    bytes: usize,
}

impl LongIdentities {
    /// Steps over what has come; whether that was all.
    fn skip(&mut self, buffer: &mut BytesMut, limits: Limits) -> Result<bool, DecodeError> {
        loop {
            let some = self.bytes.min(buffer.len());
            buffer.advance(some);
            self.bytes -= some;
            if self.bytes > 0 {
                return Ok(false);
            }
            if self.strings == 0 {
                return Ok(true);
            }
            let Some(prefix) = buffer.first_chunk().copied() else {
                return Ok(false);
            };
            let len = i32::from_be_bytes(prefix);
            let bytes = usize::try_from(len.max(0)).unwrap_or(usize::MAX);
            if len < -1 || bytes > limits.field_bytes_max {
                let (offset, limit) = (0, limits.field_bytes_max);
                return Err(DecodeError::Length { offset, len, limit });
            }
            buffer.advance(prefix.len());
            self.bytes = bytes;
            self.strings -= 1;
        }
    }
}

/// Packets that came together.
#[derive(Debug)]
pub(super) struct Batch<P> {
    /// Maybe none.
    pub(super) packets: Vec<P>,
    /// What they took on the wire.
    pub(super) bytes: usize,
}

/// Frames of so many bytes are copied when they are taken.
const FRAME_COPIED_BYTES: usize = 64 << 10;

impl PacketBuffer {
    /// For packets within these limits. `is_foreign` says of bytes in the place of a packet that they
    /// are of something else.
    pub fn new(limits: Limits, is_foreign: fn(&[u8]) -> bool) -> Self {
        Self {
            bytes: BytesMut::new(),
            limits,
            limits_behind: None,
            fault: None,
            long: None,
            is_foreign,
        }
    }

    /// The same for somebody whose first packet is short, as it only says who it is: that one has
    /// limits of its own.
    pub fn of_stranger(first: Limits, behind: Limits, is_foreign: fn(&[u8]) -> bool) -> Self {
        Self {
            limits_behind: Some(behind),
            ..Self::new(first, is_foreign)
        }
    }

    /// Whether it has yet to introduce itself.
    pub fn is_of_stranger(&self) -> bool {
        self.limits_behind.is_some()
    }

    /// What has come and is not taken yet.
    pub fn bytes(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    /// What was found behind the packets that were taken last.
    pub fn take_fault(&mut self) -> Option<PacketFault> {
        self.fault.take()
    }

    /// Whether there is such a thing.
    pub fn has_fault(&self) -> bool {
        self.fault.is_some()
    }

    /// The packets that are there, up to and including one for which `is_last` is true; maybe none.
    pub(super) fn take<P>(&mut self, is_last: &mut impl FnMut(&P) -> bool) -> Batch<P>
    where
        P: TryFrom<QuorumPacket, Error = DecodeError>,
    {
        let mut packets = Vec::new();
        let before = self.bytes.len();
        loop {
            match self.take_one() {
                Ok(Some(packet)) => {
                    let ends = is_last(&packet);
                    packets.push(packet);
                    if ends {
                        break;
                    }
                }
                Ok(None) => break,
                Err(fault) => {
                    self.fault = Some(fault);
                    break;
                }
            }
        }
        let bytes = before - self.bytes.len();
        Batch { packets, bytes }
    }

    fn take_one<P>(&mut self) -> Result<Option<P>, PacketFault>
    where
        P: TryFrom<QuorumPacket, Error = DecodeError>,
    {
        if self.long.is_none() {
            if (self.is_foreign)(&self.bytes) {
                return Err(PacketFault::Foreign);
            }
            match QuorumPacket::extent(&self.bytes, self.limits)? {
                None => return Ok(None),
                Some(Extent::Whole(len)) => {
                    let frame = self.take_frame(len);
                    let packet = self.decode(frame)?;
                    self.limits = self.limits_behind.take().unwrap_or(self.limits);
                    return Ok(Some(P::try_from(packet)?));
                }
                Some(Extent::LongIdentities { at, identities }) => {
                    let mut head = self.bytes.split_to(at);
                    self.bytes.advance(size_of::<i32>());
                    head.put_i32(-1);
                    self.long = Some(LongIdentities {
                        packet: self.decode(head.freeze())?,
                        strings: 2 * u64::from(identities),
                        bytes: 0,
                    });
                }
            }
        }
        let (bytes, limits) = (&mut self.bytes, self.limits);
        let is_over = match &mut self.long {
            Some(long) => long.skip(bytes, limits)?,
            None => false,
        };
        let whole = self.long.take_if(|_| is_over);
        Ok(match whole {
            Some(long) => Some(P::try_from(long.packet)?),
            None => None,
        })
    }

    /// The next bytes of the buffer. What is long is copied: it may be kept for long, and would keep all
    /// of the buffer, which has grown in steps to more than this.
    fn take_frame(&mut self, len: usize) -> Bytes {
        if len < FRAME_COPIED_BYTES {
            return self.bytes.split_to(len).freeze();
        }
        let frame = self.bytes.get(..len).unwrap_or_default();
        let frame = Bytes::copy_from_slice(frame);
        self.bytes.advance(len);
        if self.bytes.is_empty() {
            self.bytes = BytesMut::new();
        }
        frame
    }

    fn decode(&self, frame: Bytes) -> Result<QuorumPacket, DecodeError> {
        QuorumPacket::decode(&mut Reader::with_limits(frame, self.limits))
    }
}
