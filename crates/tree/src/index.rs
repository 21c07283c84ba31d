//! Finds a child by its parent and name: one table for the whole tree.
//!
//! A lookup in a big tree is waiting for memory, so the table is built to be waited for once: a
//! slot holds a znode and half of its hash side by side, probing goes to the next slot, and only
//! a znode whose half fits is visited. (A table with its marks and its entries apart costs one
//! wait more.) Deleting moves what follows back, so there are no gravestones to step over.
//!
//! The table is cut into shards that grow one by one, from the hashes in the slots: growing all
//! at once would hold the lock for tens of milliseconds in a tree of millions.

use std::hash::{BuildHasher, Hasher};

use hashbrown::DefaultHashBuilder;

use crate::arena::{Arena, NodeId};

const SHARD_BITS: u32 = 8;
/// Slots of a shard that holds something, at first. A power of two.
const SLOTS_MIN: usize = 8;

/// The table.
#[derive(Debug)]
pub(crate) struct Index {
    shards: Box<[Shard]>,
    hasher: DefaultHashBuilder,
}

#[derive(Debug, Default)]
struct Shard {
    /// None, or a power of two; at least a quarter is free.
    slots: Box<[Slot]>,
    len: usize,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    id: NodeId,
    hash: u32,
}

const FREE: Slot = Slot {
    id: NodeId::NIL,
    hash: 0,
};

impl Index {
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..1 << SHARD_BITS).map(|_| Shard::default()).collect(),
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// The child of `parent` with this name.
    pub(crate) fn find(&self, arena: &Arena, parent: NodeId, name: &[u8]) -> Option<NodeId> {
        let (shard, hash) = self.place(parent, name);
        self.shards[shard].find(hash, |id| {
            let node = &arena[id];
            node.parent == parent && node.name.as_bytes() == name
        })
    }

    /// Enters a znode that is linked to its parent and was not in the table.
    pub(crate) fn insert(&mut self, arena: &Arena, id: NodeId) {
        let node = &arena[id];
        let (shard, hash) = self.place(node.parent, node.name.as_bytes());
        self.shards[shard].insert(Slot { id, hash });
    }

    /// Takes a znode out; its parent and name must still be there.
    pub(crate) fn remove(&mut self, arena: &Arena, id: NodeId) {
        let node = &arena[id];
        let (shard, hash) = self.place(node.parent, node.name.as_bytes());
        self.shards[shard].remove(Slot { id, hash });
    }

    /// Memory of the table, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let slots: usize = self.shards.iter().map(|shard| shard.slots.len()).sum();
        slots * size_of::<Slot>()
    }

    /// The shard, and the half of the hash that is kept.
    fn place(&self, parent: NodeId, name: &[u8]) -> (usize, u32) {
        let mut state = self.hasher.build_hasher();
        state.write_u32(parent.0);
        state.write(name);
        let hash = state.finish();
        let shard = hash >> (u64::BITS - SHARD_BITS);
        (shard as usize, (hash & 0xffff_ffff) as u32)
    }
}

impl Shard {
    fn find(&self, hash: u32, is_it: impl Fn(NodeId) -> bool) -> Option<NodeId> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot.hash == hash && slot.id != NodeId::NIL && is_it(slot.id) {
                return Some(slot.id);
            }
            if slot.id == NodeId::NIL {
                return None;
            }
            at = (at + 1) & mask;
        }
    }

    fn insert(&mut self, slot: Slot) {
        if (self.len + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        self.len += 1;
        self.put(slot);
    }

    fn put(&mut self, slot: Slot) {
        let mask = self.slots.len() - 1;
        let mut at = slot.hash as usize & mask;
        while self.slots[at].id != NodeId::NIL {
            at = (at + 1) & mask;
        }
        self.slots[at] = slot;
    }

    fn grow(&mut self) {
        let len = (self.slots.len() * 2).max(SLOTS_MIN);
        let old = std::mem::replace(&mut self.slots, vec![FREE; len].into());
        for slot in old {
            if slot.id != NodeId::NIL {
                self.put(slot);
            }
        }
    }

    fn remove(&mut self, gone: Slot) {
        let Some(mask) = self.slots.len().checked_sub(1) else {
            return;
        };
        let mut hole = gone.hash as usize & mask;
        while self.slots[hole].id != gone.id {
            if self.slots[hole].id == NodeId::NIL {
                return;
            }
            hole = (hole + 1) & mask;
        }
        self.len -= 1;
        // What follows without a gap moves into the hole, unless it stands where it wants to be
        // or behind the hole already.
        let mut at = (hole + 1) & mask;
        while self.slots[at].id != NodeId::NIL {
            let wanted = self.slots[at].hash as usize & mask;
            let from_wanted = at.wrapping_sub(wanted) & mask;
            let from_hole = at.wrapping_sub(hole) & mask;
            if from_wanted >= from_hole {
                self.slots[hole] = self.slots[at];
                hole = at;
            }
            at = (at + 1) & mask;
        }
        self.slots[hole] = FREE;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Few hashes, so that everything collides and wraps around.
        #[test]
        fn a_shard_holds_what_a_map_holds(
            steps in proptest::collection::vec((any::<bool>(), 0..40u32), 1..200),
        ) {
            let (mut shard, mut map) = (Shard::default(), BTreeMap::new());
            let hash_of = |id: u32| (id % 7).wrapping_mul(0x3fff_ffff);
            for (is_insert, id) in steps {
                let slot = Slot { id: NodeId(id), hash: hash_of(id) };
                if !is_insert {
                    shard.remove(slot);
                    map.remove(&id);
                } else if map.insert(id, ()).is_none() {
                    shard.insert(slot);
                }
                prop_assert_eq!(shard.len, map.len());
                for id in 0..40 {
                    let found = shard.find(hash_of(id), |found| found.0 == id);
                    prop_assert_eq!(found.is_some(), map.contains_key(&id));
                }
            }
        }
    }
}
