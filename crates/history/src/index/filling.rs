//! The block that is being filled, in the encoding of its file.

use crate::record::{BlockRow, Change};

/// Number of the field `changes` in `Block`.
const CHANGES: u32 = 1;

/// A growing `Block`. Each change is encoded once, when it is added.
#[derive(Default)]
pub(crate) struct BlockBuilder {
    bytes: Vec<u8>,
    row: BlockRow,
}

impl BlockBuilder {
    pub(crate) fn of(changes: &[Change]) -> Self {
        let mut filling = Self::default();
        for change in changes {
            filling.push(change);
        }
        filling
    }

    pub(crate) fn push(&mut self, change: &Change) {
        prost::encoding::message::encode(CHANGES, change, &mut self.bytes);
        let row = &mut self.row;
        if row.changes == 0 {
            row.first_zxid = change.zxid;
            (row.min_time_ms, row.max_time_ms) = (change.time_ms, change.time_ms);
        }
        row.last_zxid = change.zxid;
        row.min_time_ms = row.min_time_ms.min(change.time_ms);
        row.max_time_ms = row.max_time_ms.max(change.time_ms);
        row.changes += 1;
    }

    /// Returns the number of changes.
    pub(crate) fn changes(&self) -> usize {
        self.row.changes as usize
    }

    /// Returns the encoded `Block`.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the row of the block, without the position in the file.
    pub(crate) fn row(&self) -> BlockRow {
        self.row
    }

    /// Begins the next block.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.row = BlockRow::default();
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::record::Block;

    #[test]
    fn the_block_builder_encodes_like_a_block() {
        let change = |zxid, time_ms| Change {
            zxid,
            time_ms,
            path: format!("/a/{zxid}"),
            ..Change::default()
        };
        // Clocks may have been set back.
        let changes = vec![change(3, 50), change(4, -7), change(4, 20)];
        let mut filling = BlockBuilder::of(&changes[..1]);
        filling.clear();
        changes.iter().for_each(|change| filling.push(change));
        let block = Block { changes };
        assert_eq!(filling.bytes(), block.encode_to_vec());
        let row = filling.row();
        assert_eq!((row.first_zxid, row.last_zxid, row.changes), (3, 4, 3));
        assert_eq!((row.min_time_ms, row.max_time_ms), (-7, 50));
    }
}
