//! Finds a child by its parent and name: one table for the whole tree.
//!
//! The table is cut into shards that grow one by one. Growing means to hash every name again, and
//! for a table of a million znodes that would hold the lock for a tenth of a second.

use std::hash::{BuildHasher, Hasher};

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::arena::{Arena, NodeId};

const SHARD_BITS: u32 = 8;
/// The hash's lowest bits choose a bucket and its highest seven mark it, so the shard is chosen
/// by bits between them.
const SHARD_SHIFT: u32 = 40;

/// The table.
#[derive(Debug)]
pub(crate) struct Index {
    shards: Box<[HashTable<NodeId>]>,
    hasher: DefaultHashBuilder,
}

impl Index {
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..1 << SHARD_BITS).map(|_| HashTable::new()).collect(),
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// The child of `parent` with this name.
    pub(crate) fn find(&self, arena: &Arena, parent: NodeId, name: &str) -> Option<NodeId> {
        let hash = hash(&self.hasher, parent, name.as_bytes());
        let is_it = |id: &NodeId| {
            let node = &arena[*id];
            node.parent == parent && node.name.as_bytes() == name.as_bytes()
        };
        self.shards[shard(hash)].find(hash, is_it).copied()
    }

    /// Enters a znode that is linked to its parent and was not in the table.
    pub(crate) fn insert(&mut self, arena: &Arena, id: NodeId) {
        let hasher = &self.hasher;
        let hash_of = |id: &NodeId| {
            let node = &arena[*id];
            hash(hasher, node.parent, node.name.as_bytes())
        };
        let hash = hash_of(&id);
        self.shards[shard(hash)].insert_unique(hash, id, hash_of);
    }

    /// Takes a znode out; its parent and name must still be there.
    pub(crate) fn remove(&mut self, arena: &Arena, id: NodeId) {
        let node = &arena[id];
        let hash = hash(&self.hasher, node.parent, node.name.as_bytes());
        if let Ok(entry) = self.shards[shard(hash)].find_entry(hash, |other| *other == id) {
            entry.remove();
        }
    }

    /// Memory of the table, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.shards.iter().map(HashTable::allocation_size).sum()
    }
}

fn hash(hasher: &DefaultHashBuilder, parent: NodeId, name: &[u8]) -> u64 {
    let mut state = hasher.build_hasher();
    state.write_u32(parent.0);
    state.write(name);
    state.finish()
}

fn shard(hash: u64) -> usize {
    (hash >> SHARD_SHIFT) as usize & ((1 << SHARD_BITS) - 1)
}
