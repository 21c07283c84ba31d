//! A tree on its way to a learner: what stands between two packets.

use jute::{Encode, put_str};
use proto::Zxid;
use proto::leader::{LeaderPacket, SNAPSHOT_SIGNATURE};
use proto::packet::QuorumPacket;
use recovery::{TreeReader, TreeReplaced};
use replica::State;

/// A tree that is sent piece by piece, each read under a short hold of it, while transactions go on. So
/// it is fuzzy: it has everything up to the zxid of the SNAP packet and parts of what is sent behind it.
#[derive(Debug, Default)]
pub(super) struct TreeSending {
    reader: Option<TreeReader>,
}

impl TreeSending {
    /// Adds the SNAP packet that stands in front of the tree.
    pub(super) fn begin(zxid: Zxid, out: &mut Vec<u8>) -> Self {
        QuorumPacket::from(LeaderPacket::Snap { zxid }).encode(out);
        Self::default()
    }

    /// Adds the next `bytes` bytes of the tree, or a little more, and its signature behind the last of
    /// them; whether there are more.
    ///
    /// # Errors
    /// If another history has taken the place of the one that was being sent: the cursor means nothing
    /// to its tree, and the connection is about to be closed.
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
