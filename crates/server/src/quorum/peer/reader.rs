//! From bytes to packets.

use bytes::{Buf, BufMut, BytesMut};
use jute::{Decode, DecodeError, Limits, Reader};
use proto::packet::QuorumPacket;
use tokio::io::{AsyncRead, AsyncReadExt};

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
    /// Found behind good packets, to be told once those are delivered.
    fault: Option<DecodeError>,
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
            fault: None,
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
                return Err(fault.into());
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

    fn take_one<P>(&mut self) -> Result<Option<P>, DecodeError>
    where
        P: TryFrom<QuorumPacket, Error = DecodeError>,
    {
        let Some(len) = QuorumPacket::frame_len(&self.buffer, self.limits)? else {
            return Ok(None);
        };
        let frame = self.buffer.split_to(len).freeze();
        let packet = QuorumPacket::decode(&mut Reader::with_limits(frame, self.limits))?;
        P::try_from(packet).map(Some)
    }

    /// Reads some more; 0 at the end of the stream.
    pub(super) async fn fill(&mut self) -> Result<usize, PeerError> {
        if self.buffer.capacity() - self.buffer.len() < limits::PEER_READ_BYTES / 4 {
            self.buffer.reserve(limits::PEER_READ_BYTES);
        }
        let mut some = (&mut self.buffer).limit(limits::PEER_READ_BYTES);
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
