//! What a member writes to another one.

use proto::Zxid;
use recovery::TreeReplaced;
use replica::State;

use super::{NextWrite, TreeSending};

/// Whoever writes to another member: packets, and trees in their places among them.
#[derive(Debug, Default)]
pub struct LinkWriter {
    tree: Option<(Zxid, TreeSending)>,
}

/// What is in the buffer, to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// Packets; the first of them has waited for so long.
    Packets {
        /// Milliseconds.
        waited_ms: u64,
    },
    /// The SNAP packet in front of a tree.
    Head,
    /// Some of the tree with this zxid.
    Tree(Zxid),
    /// The last of it. When that is written, the tree is sent.
    TreeEnd(Zxid),
    /// Nothing: all is written, and nothing more comes.
    End,
}

impl LinkWriter {
    /// What is next, if there is anything: `take` is [`PacketQueue::take`](super::PacketQueue::take), and
    /// is not called within a tree, of which the next piece has about `tree_bytes` bytes. What is to be
    /// written is in `buffer` then; what it held before was written.
    ///
    /// # Errors
    /// If another history has taken the place of the one whose tree is being sent: the connection is
    /// about to be closed.
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
