//! Transfer of a tree to a learner, between two packets.

use jute::{Encode, put_str};
use proto::Zxid;
use proto::leader::{LeaderPacket, SNAPSHOT_SIGNATURE};
use proto::packet::QuorumPacket;
use recovery::{TreeReader, TreeReplaced};
use replica::State;

/// A tree that is sent in pieces. Each piece is read during a short hold of the tree, while
/// transactions continue. The tree is therefore fuzzy: it contains everything up to the zxid of the
/// SNAP packet, and parts of later transactions.
#[derive(Debug, Default)]
pub(super) struct TreeSending {
    reader: Option<TreeReader>,
}

impl TreeSending {
    /// Appends the SNAP packet before the tree.
    pub(super) fn begin(zxid: Zxid, out: &mut Vec<u8>) -> Self {
        QuorumPacket::from(LeaderPacket::Snap { zxid }).encode(out);
        Self::default()
    }

    /// Appends the next piece of the tree, about `bytes` bytes long, and the signature after the
    /// last piece. Returns whether there are more pieces.
    ///
    /// # Errors
    /// If the tree was replaced, because the cursor is invalid for the new tree. The connection
    /// will then be closed.
    pub(super) fn next(
        &mut self,
        state: &impl State,
        bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool, TreeReplaced> {
        let more = {
            let tree = state.tree();
            let generation = state.generation();
            let begin = || TreeReader::new(&tree, generation);
            let reader = self.reader.get_or_insert_with(begin);
            reader.read(&tree, generation, bytes, out)?
        };
        if !more {
            put_str(Some(SNAPSHOT_SIGNATURE), out);
        }
        Ok(more)
    }
}
