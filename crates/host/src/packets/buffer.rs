//! Decoding of bytes into packets.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use jute::{Decode, DecodeError, Limits, Reader};
use proto::packet::{Extent, QuorumPacket};

/// Bytes received from another member, and the packets in them.
///
/// It grows with the received bytes, never to an announced length. If the caller reads only while a
/// packet is incomplete, the buffer contains at most one packet and one read.
#[derive(Debug)]
pub struct PacketBuffer {
    bytes: BytesMut,
    limits: Limits,
    /// Limits for the packets after the introduction; `None` once the peer has introduced itself.
    limits_behind: Option<Limits>,
    /// A fault after valid packets, reported after these packets are delivered.
    fault: Option<PacketFault>,
    /// A packet whose identities are too long to be stored.
    long: Option<LongIdentities>,
    /// Returns whether bytes at the position of a packet belong to a different protocol.
    is_foreign: fn(&[u8]) -> bool,
}

/// Reason why bytes are not packets. The start of the next packet is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PacketFault {
    /// The bytes cannot be decoded.
    Malformed(DecodeError),
    /// The bytes belong to a different protocol, according to the host.
    Foreign,
}

impl From<DecodeError> for PacketFault {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}

/// A packet without its identities, which are too long.
///
/// The client's request in it must be refused. Closing the connection would disconnect all clients
/// of the member that forwards it.
#[derive(Debug)]
struct LongIdentities {
    /// Packet without identities.
    packet: QuorumPacket,
    /// Number of strings that must still be skipped.
    strings: u64,
    /// Number of remaining bytes in the current string.
    bytes: usize,
}

impl LongIdentities {
    /// Skips received bytes. Returns whether the packet is complete.
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

/// Packets that were decoded together.
#[derive(Debug)]
pub(super) struct Batch<P> {
    /// Decoded packets, possibly none.
    pub(super) packets: Vec<P>,
    /// Size of the packets on the wire, bytes.
    pub(super) bytes: usize,
}

/// Size from which a frame is copied when it is removed from the buffer, bytes.
const FRAME_COPIED_BYTES: usize = 64 << 10;

impl PacketBuffer {
    /// Creates a buffer for packets within these limits. `is_foreign` returns whether bytes at the
    /// position of a packet belong to a different protocol.
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

    /// Creates a buffer for an unknown peer. The first packet, a short introduction, has separate
    /// limits.
    pub fn of_unknown_peer(first: Limits, behind: Limits, is_foreign: fn(&[u8]) -> bool) -> Self {
        Self {
            limits_behind: Some(behind),
            ..Self::new(first, is_foreign)
        }
    }

    /// Returns whether the peer has not introduced itself yet.
    pub fn is_unknown_peer(&self) -> bool {
        self.limits_behind.is_some()
    }

    /// Returns the received bytes that are still in the buffer.
    pub fn bytes(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    /// Removes and returns the fault after the last removed packets.
    pub fn take_fault(&mut self) -> Option<PacketFault> {
        self.fault.take()
    }

    /// Returns whether there is a fault.
    pub fn has_fault(&self) -> bool {
        self.fault.is_some()
    }

    /// Removes and returns the complete packets, up to and including the first packet for which
    /// `is_last` is true. The result may be empty.
    pub(super) fn take<P>(&mut self, is_last: &mut impl FnMut(&P) -> bool) -> Batch<P>
    where
        P: TryFrom<QuorumPacket, Error = DecodeError>,
    {
        let mut packets = Vec::new();
        let before = self.bytes.len();
        loop {
            match self.take_packet() {
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

    fn take_packet<P>(&mut self) -> Result<Option<P>, PacketFault>
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

    /// Removes and returns the next bytes in the buffer. A long frame is copied. A shared frame
    /// that is kept for long would keep the whole buffer in memory, which has grown in steps beyond
    /// the length of the frame.
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
