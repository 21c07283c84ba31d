//! From bytes to packets.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use jute::{Decode, DecodeError, Limits, Reader};
use proto::packet::{Extent, QuorumPacket};
use tokio::io::{AsyncRead, AsyncReadExt};
use transport::tls::looks_like_tls;

use super::PeerError;
use crate::limits;

/// Takes packets off a stream.
///
/// The buffer grows with the bytes that have come, never by a length that is only announced, and
/// holds one packet and one read at most.
#[derive(Debug)]
pub(super) struct PacketReader<R> {
    stream: R,
    buffer: BytesMut,
    limits: Limits,
    /// Of all packets behind the first, from somebody who has yet to introduce itself.
    limits_behind: Option<Limits>,
    /// Found behind good packets, to be told once those are delivered.
    fault: Option<PeerError>,
    /// A packet whose identities are too long to be kept.
    long: Option<LongIdentities>,
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
    /// At least one.
    pub(super) packets: Vec<P>,
    /// What they took on the wire.
    pub(super) bytes: usize,
}

impl<R: AsyncRead + Unpin> PacketReader<R> {
    pub(super) fn new(stream: R, limits: Limits) -> Self {
        Self {
            stream,
            buffer: BytesMut::new(),
            limits,
            limits_behind: None,
            fault: None,
            long: None,
        }
    }

    /// The same for somebody whose first packet is short, as it only says who it is.
    pub(super) fn of_stranger(stream: R, limits: Limits) -> Self {
        let first = Limits {
            field_bytes_max: limits::INTRODUCTION_BYTES_MAX,
        };
        Self {
            limits_behind: Some(limits),
            ..Self::new(stream, first)
        }
    }

    /// The next packets: all that are there, up to and including one for which `is_last` is true.
    ///
    /// # Errors
    /// If the stream ends, breaks, or holds what is no packet.
    pub(super) async fn read<P>(
        &mut self,
        mut is_last: impl FnMut(&P) -> bool,
    ) -> Result<Batch<P>, PeerError>
    where
        P: TryFrom<QuorumPacket, Error = DecodeError>,
    {
        loop {
            if let Some(fault) = self.fault.take() {
                return Err(fault);
            }
            let batch = self.take(&mut is_last);
            if !batch.packets.is_empty() {
                return Ok(batch);
            }
            if self.fault.is_none() && self.fill().await? == 0 {
                return Err(match self.buffer.len() {
                    0 => PeerError::Closed,
                    bytes => PeerError::CutOff { bytes },
                });
            }
        }
    }

    fn take<P>(&mut self, is_last: &mut impl FnMut(&P) -> bool) -> Batch<P>
    where
        P: TryFrom<QuorumPacket, Error = DecodeError>,
    {
        let mut packets = Vec::new();
        let before = self.buffer.len();
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
        let bytes = before - self.buffer.len();
        Batch { packets, bytes }
    }

    fn take_one<P>(&mut self) -> Result<Option<P>, PeerError>
    where
        P: TryFrom<QuorumPacket, Error = DecodeError>,
    {
        if self.long.is_none() {
            // No type of a packet begins like that.
            if looks_like_tls(&self.buffer) {
                return Err(PeerError::Tls);
            }
            match QuorumPacket::extent(&self.buffer, self.limits)? {
                None => return Ok(None),
                Some(Extent::Whole(len)) => {
                    let frame = self.buffer.split_to(len).freeze();
                    let packet = self.decode(frame)?;
                    self.limits = self.limits_behind.take().unwrap_or(self.limits);
                    return Ok(Some(P::try_from(packet)?));
                }
                Some(Extent::LongIdentities { at, identities }) => {
                    let mut head = self.buffer.split_to(at);
                    self.buffer.advance(size_of::<i32>());
                    head.put_i32(-1);
                    self.long = Some(LongIdentities {
                        packet: self.decode(head.freeze())?,
                        strings: 2 * u64::from(identities),
                        bytes: 0,
                    });
                }
            }
        }
        let (buffer, limits) = (&mut self.buffer, self.limits);
        let is_over = match &mut self.long {
            Some(long) => long.skip(buffer, limits)?,
            None => false,
        };
        let whole = self.long.take_if(|_| is_over);
        Ok(match whole {
            Some(long) => Some(P::try_from(long.packet)?),
            None => None,
        })
    }

    fn decode(&self, frame: Bytes) -> Result<QuorumPacket, DecodeError> {
        QuorumPacket::decode(&mut Reader::with_limits(frame, self.limits))
    }

    /// Reads some more; 0 at the end of the stream.
    pub(super) async fn fill(&mut self) -> Result<usize, PeerError> {
        let wanted = match self.limits_behind {
            Some(_) => limits::INTRODUCTION_BYTES_MAX,
            None => limits::PEER_READ_BYTES,
        };
        if self.buffer.capacity() - self.buffer.len() < wanted / 4 {
            self.buffer.reserve(wanted);
        }
        let mut some = (&mut self.buffer).limit(wanted);
        Ok(self.stream.read_buf(&mut some).await?)
    }

    /// What was read and is not taken yet.
    pub(super) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Takes the next `N` bytes as they are.
    ///
    /// # Errors
    /// If the stream ends or breaks before.
    pub(super) async fn take_array<const N: usize>(&mut self) -> Result<[u8; N], PeerError> {
        loop {
            if let Some(bytes) = self.buffer.first_chunk().copied() {
                self.buffer.advance(N);
                return Ok(bytes);
            }
            if self.fill().await? == 0 {
                let bytes = self.buffer.len();
                return Err(PeerError::CutOff { bytes });
            }
        }
    }
}
