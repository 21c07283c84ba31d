//! Output from a member to another member.

use proto::Zxid;
use recovery::TreeReplaced;
use replica::State;

use super::{NextWrite, TreeSending};

/// Writer of packets, and of trees at their positions among the packets.
#[derive(Debug, Default)]
pub struct LinkWriter {
    tree: Option<(Zxid, TreeSending)>,
}

/// Kind of content in the buffer that must be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// Packets.
    Packets {
        /// Time for which the first packet has waited, ms.
        waited_ms: u64,
    },
    /// The SNAP packet before a tree.
    Head,
    /// A piece of the tree with this zxid.
    Tree(Zxid),
    /// The last piece of a tree. The tree is sent once the piece is written.
    TreeEnd(Zxid),
    /// Nothing, because everything is written and the queue is finished.
    End,
}

impl LinkWriter {
    /// Returns the next piece, if any. `buffer` receives its bytes; the previous content has been
    /// written. `take` is [`PacketQueue::take`](super::PacketQueue::take), and is not called within
    /// a tree. The next piece of a tree has about `tree_bytes` bytes.
    ///
    /// # Errors
    /// If the tree that is being sent was replaced. The connection will be closed.
    pub fn next(
        &mut self,
        buffer: &mut Vec<u8>,
        take: impl FnOnce(&mut Vec<u8>) -> Option<NextWrite>,
        state: &impl State,
        tree_bytes: usize,
    ) -> Result<Option<Piece>, TreeReplaced> {
        if let Some((zxid, tree)) = &mut self.tree {
            buffer.clear();
            let (zxid, more) = (*zxid, tree.next(state, tree_bytes, buffer)?);
            if more {
                return Ok(Some(Piece::Tree(zxid)));
            }
            self.tree = None;
            return Ok(Some(Piece::TreeEnd(zxid)));
        }
        Ok(take(buffer).map(|next| match next {
            NextWrite::Write { waited_ms } => Piece::Packets { waited_ms },
            NextWrite::Snapshot(zxid) => {
                buffer.clear();
                self.tree = Some((zxid, TreeSending::begin(zxid, buffer)));
                Piece::Head
            }
            NextWrite::End => Piece::End,
        }))
    }
}
