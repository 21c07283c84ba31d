//! Output to a learner: packets, and the tree when it is due.

use std::time::Instant;

use host::{LinkWriter, Piece, SNAPSHOT_CHUNK_BYTES, ServerState};

use crate::peer::error::PeerError;
use crate::peer::outbox::Outbox;

/// Output to a learner.
///
/// The tree is locked only for one part at a time and transactions continue, so a snapshot is
/// fuzzy. It contains all transactions up to the zxid of its SNAP packet, and parts of the
/// transactions that are sent after it.
///
/// After the end of a term, another tree may replace this one. The position in the tree is then
/// invalid, and the connection is about to be closed.
pub(super) struct TreeWriter<'a> {
    state: &'a ServerState,
    writer: LinkWriter,
    buffer: Vec<u8>,
    /// Time at which the first part of the current tree was written, and the number of bytes of the
    /// tree written so far.
    begun: Instant,
    sent: usize,
}

impl<'a> TreeWriter<'a> {
    pub(super) fn new(state: &'a ServerState) -> Self {
        Self {
            state,
            writer: LinkWriter::default(),
            buffer: Vec::new(),
            begun: Instant::now(),
            sent: 0,
        }
    }

    /// Waits for the next output. Returns `None` if all output has been written and the queue is
    /// finished.
    ///
    /// # Errors
    /// If the tree has been replaced.
    pub(super) async fn next(&mut self, outbox: &Outbox) -> Result<Option<Piece>, PeerError> {
        let tree_bytes = SNAPSHOT_CHUNK_BYTES;
        loop {
            let take = |buffer: &mut Vec<u8>| outbox.take(buffer);
            let next = self
                .writer
                .next(&mut self.buffer, take, self.state, tree_bytes);
            match next.map_err(|_| PeerError::TreeReplaced)? {
                None => outbox.wait_for_packets().await,
                Some(Piece::End) => return Ok(None),
                piece => return Ok(piece),
            }
        }
    }

    /// Returns the bytes to write.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// Records that this part has been written. Returns whether it ends a tree.
    pub(super) fn note_written(&mut self, piece: Piece) -> bool {
        match piece {
            Piece::Head => (self.begun, self.sent) = (Instant::now(), self.buffer.len()),
            Piece::Tree(_) => self.sent += self.buffer.len(),
            Piece::TreeEnd(zxid) => {
                let (bytes, elapsed_ms) = (
                    self.sent + self.buffer.len(),
                    self.begun.elapsed().as_millis(),
                );
                tracing::debug!(%zxid, bytes, elapsed_ms, "snapshot written to a connection");
                return true;
            }
            Piece::Packets { .. } | Piece::End => {}
        }
        false
    }
}
