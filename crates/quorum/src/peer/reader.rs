//! Reader of packets from a stream.

use std::io;

use bytes::{BufMut, BytesMut};
use host::{LinkName, LinkReader, PacketBuffer, ReceivedTree};
use jute::Limits;
use replica::Input;
use storage::log::scan::limits_of_existing;
use tokio::io::{AsyncRead, AsyncReadExt};
use transport::tls::looks_like_tls;

use super::error::PeerError;
use super::receive::Receiving;
use crate::limits;

/// Reader of packets and trees from a stream.
#[derive(Debug)]
pub(super) struct PacketReader<R> {
    stream: R,
    link: LinkReader,
}

impl<R: AsyncRead + Unpin> PacketReader<R> {
    pub(super) fn of_leader(attempt: u64, stream: R, limits: Limits) -> Self {
        // No packet type begins like a TLS record.
        let buffer = PacketBuffer::new(limits_of_existing(limits), looks_like_tls);
        let link = LinkReader::new(LinkName::Leader(attempt), buffer);
        Self { stream, link }
    }

    /// Creates a reader for a learner. The limits of its first packet are low, because this packet
    /// only identifies the learner.
    pub(super) fn of_learner(learner: LinkName, stream: R, limits: Limits) -> Self {
        let first = Limits {
            field_bytes_max: limits::INTRODUCTION_BYTES_MAX,
        };
        let buffer = PacketBuffer::of_unknown_peer(first, limits, looks_like_tls);
        let link = LinkReader::new(learner, buffer);
        Self { stream, link }
    }

    /// Waits for packets. Returns all that are available, up to a packet that precedes a tree, and
    /// their length in bytes.
    ///
    /// # Errors
    /// If the stream ends or breaks, or the bytes are not a packet.
    pub(super) async fn read(&mut self) -> Result<(Input, usize), PeerError> {
        loop {
            if let Some(fault) = self.link.buffer.take_fault() {
                return Err(fault.into());
            }
            if let Some(packets) = self.link.take() {
                return Ok(packets);
            }
            if !self.link.buffer.has_fault() && self.fill().await? == 0 {
                return Err(match self.link.buffer.bytes().len() {
                    0 => PeerError::Closed,
                    bytes => PeerError::CutOff { bytes },
                });
            }
        }
    }

    async fn fill(&mut self) -> io::Result<usize> {
        let wanted = if self.link.buffer.is_unknown_peer() {
            limits::INTRODUCTION_BYTES_MAX
        } else {
            limits::PEER_READ_BYTES
        };
        fill(&mut self.stream, self.link.buffer.bytes(), wanted).await
    }

    /// Returns whether a tree follows.
    pub(super) fn is_at_tree(&self) -> bool {
        self.link.is_at_tree()
    }

    /// Receives the tree that follows, on a thread that may block.
    ///
    /// # Errors
    /// If the connection ends or breaks, or the bytes are not a tree.
    pub(super) fn receive_tree(
        &mut self,
        mut receiving: Receiving,
    ) -> Result<ReceivedTree, PeerError> {
        let (limits, settings) = (receiving.limits, receiving.tree.clone());
        let stream = &mut self.stream;
        let fill = |bytes: &mut BytesMut| {
            let filling = fill(stream, bytes, limits::PEER_READ_BYTES);
            receiving.wait_for(filling)
        };
        let received = self.link.receive_tree(fill, limits, settings);
        received.map_err(PeerError::Snapshot)
    }
}

/// Reads more bytes. Returns 0 at the end of the stream.
async fn fill<R: AsyncRead + Unpin>(
    stream: &mut R,
    bytes: &mut BytesMut,
    wanted: usize,
) -> io::Result<usize> {
    if bytes.capacity() - bytes.len() < wanted / 4 {
        bytes.reserve(wanted);
    }
    let mut some = bytes.limit(wanted);
    stream.read_buf(&mut some).await
}
