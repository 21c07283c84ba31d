//! Writing to a learner: packets, and the tree where it is due.

use std::time::Instant;

use hosting::{LinkWriter, Piece, ServerState};

use super::PeerError;
use super::outbox::Outbox;
use crate::limits;

/// What is written to a learner.
///
/// The tree is held shared for a piece at a time while transactions go on, so a snapshot is fuzzy: it has
/// everything up to the zxid of its SNAP packet and parts of what is sent behind it.
///
/// A term that has ended may be followed by another tree in the same place, to which the cursor means
/// nothing. The connection is about to be closed then.
pub(super) struct Writing<'a> {
    state: &'a ServerState,
    writer: LinkWriter,
    buffer: Vec<u8>,
    /// When the tree was begun, and its bytes so far.
    begun: Instant,
    sent: usize,
}

impl<'a> Writing<'a> {
    pub(super) fn new(state: &'a ServerState) -> Self {
        Self {
            state,
            writer: LinkWriter::default(),
            buffer: Vec::new(),
            begun: Instant::now(),
            sent: 0,
        }
    }

    /// Waits for what is to be written next; `None` if all is written and nothing more comes.
    ///
    /// # Errors
    /// If the tree was replaced.
    pub(super) async fn next(&mut self, outbox: &Outbox) -> Result<Option<Piece>, PeerError> {
        let tree_bytes = limits::SNAPSHOT_CHUNK_BYTES;
        loop {
            let take = |buffer: &mut Vec<u8>| outbox.take(buffer);
            let next = self
                .writer
                .next(&mut self.buffer, take, self.state, tree_bytes);
            match next.map_err(|_| PeerError::TreeReplaced)? {
                None => outbox.filled().await,
                Some(Piece::End) => return Ok(None),
                piece => return Ok(piece),
            }
        }
    }

    /// What is to be written.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// This was written. Whether a tree ends with it.
    pub(super) fn has_written(&mut self, piece: Piece) -> bool {
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
