//! A hash table of all znodes by parent and name.
//!
//! A lookup in a large tree mostly waits for memory, so the table is designed for one cache miss. A
//! slot contains a znode's id next to half of its hash, probing continues at the next slot, and a
//! znode is read only if its half hash matches. (A table with separate control bytes and entries
//! costs one more miss.)
//!
//! Slots are ordered by hash. The home of a hash is the upper half of its product with the number
//! of homes. Inserting into an occupied slot moves the greater hashes to the right. An unsuccessful
//! lookup therefore ends as early as a successful one, a full table stays fast, and growing copies
//! sequentially. Any length is possible, so the table grows by a seventh to a quarter. If its
//! length doubled, half of it could be empty. Deleting moves the following slots back, so
//! tombstones are not needed.
//!
//! The table is divided into shards that grow separately, using the hashes in the slots. Growing
//! the whole table would hold the lock for tens of milliseconds in a tree of millions of znodes.
//! The load at which a shard grows increases slightly with the shard's number. Therefore the shards
//! do not all grow at about the same time, and the memory that one shard frees is reused by other
//! shards. Otherwise freed memory of the table's size would remain unused.

use std::hash::{BuildHasher, Hasher};

use hashbrown::DefaultHashBuilder;

use super::arena::{Arena, NodeId};

mod pending;

pub(crate) use pending::{Duplicate, Pending};

const SHARD_BITS: u32 = u8::BITS;
/// Maximum load of the first shard in 256ths, which corresponds to 0.72. The maximum load of the
/// last shard is 0.86. The ratio of the two is about the ratio of two consecutive lengths.
const LIMIT_MIN: u8 = 184;
/// Initial number of slots of a non-empty shard, a power of two.
const SLOTS_MIN: usize = 16;
/// Number of additional slots after the homes, for entries that are moved beyond the last home.
/// When they are full, the same number is added again.
const TAIL: usize = 8;

/// The hash table.
#[derive(Debug)]
pub(crate) struct Index {
    shards: Box<[Shard]>,
    hasher: DefaultHashBuilder,
}

#[derive(Debug)]
struct Shard {
    /// Slots, either none or ordered by hash with free slots in between. The last slot is free.
    slots: Vec<Slot>,
    /// Number of slots that are homes, which are all except the tail.
    homes: usize,
    len: usize,
    /// Maximum load of the homes, in 256ths.
    limit: u8,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    hash: u32,
    id: NodeId,
}

/// A free slot. Its hash is the maximum, so a search in order ends at it.
const FREE: Slot = Slot {
    hash: u32::MAX,
    id: NodeId::NIL,
};

impl Index {
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..=u8::MAX).map(Shard::new).collect(),
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// Returns the child of `parent` with this name.
    pub(crate) fn find(&self, arena: &Arena, parent: NodeId, name: &[u8]) -> Option<NodeId> {
        let (shard, hash) = self.place(parent, name);
        self.shards[shard].find(hash, |id| {
            let node = &arena[id];
            node.parent == parent && node.body.name_bytes() == name
        })
    }

    /// Adds a znode that is linked to its parent and not in the table.
    pub(crate) fn insert(&mut self, arena: &Arena, id: NodeId) {
        let node = &arena[id];
        let (shard, hash) = self.place(node.parent, node.body.name_bytes());
        self.shards[shard].insert(Slot { hash, id });
    }

    /// Removes a znode. Its parent and name must still be valid.
    pub(crate) fn remove(&mut self, arena: &Arena, id: NodeId) {
        let node = &arena[id];
        let (shard, hash) = self.place(node.parent, node.body.name_bytes());
        self.shards[shard].remove(Slot { hash, id });
    }

    /// Returns the memory of the table, bytes.
    pub(crate) fn bytes(&self) -> usize {
        let slots: usize = self.shards.iter().map(|shard| shard.slots.capacity()).sum();
        slots * size_of::<Slot>()
    }

    /// Returns the shard, and the half of the hash that is stored.
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
    fn new(number: u8) -> Self {
        Self {
            slots: Vec::new(),
            homes: 0,
            len: 0,
            limit: LIMIT_MIN + number / 7,
        }
    }

    fn find(&self, hash: u32, is_it: impl Fn(NodeId) -> bool) -> Option<NodeId> {
        let slots = self.slots.get(self.home(hash)..)?;
        for slot in slots {
            if slot.hash < hash {
                continue;
            }
            if slot.hash > hash || slot.id == NodeId::NIL {
                break;
            }
            if is_it(slot.id) {
                return Some(slot.id);
            }
        }
        None
    }

    /// Returns the home of a hash. Homes are in the order of their hashes.
    fn home(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.homes as u64) >> u32::BITS) as usize
    }

    fn insert(&mut self, slot: Slot) {
        if (self.len + 1) << 8 > self.homes * usize::from(self.limit) {
            self.grow();
        }
        self.len += 1;
        let mut at = self.home(slot.hash);
        while self.slots[at].id != NodeId::NIL && self.slots[at].hash < slot.hash {
            at += 1;
        }
        let mut free = at;
        while self.slots[free].id != NodeId::NIL {
            free += 1;
        }
        self.slots.copy_within(at..free, at + 1);
        self.slots[at] = slot;
        if free + 1 == self.slots.len() {
            self.slots.reserve_exact(TAIL);
            self.slots.extend([FREE; TAIL]);
        }
    }

    /// Grows to 4, 5, 6 or 7 times a power of two, because these are the size classes of
    /// allocators.
    fn grow(&mut self) {
        let len = match self.homes {
            0 => SLOTS_MIN,
            homes => homes + TAIL + (1 << (homes + TAIL).ilog2()) / 4,
        };
        self.homes = len - TAIL;
        let room = Vec::with_capacity(len);
        let old = std::mem::replace(&mut self.slots, room);
        for slot in old {
            if slot.id != NodeId::NIL {
                let home = self.home(slot.hash);
                if self.slots.len() < home {
                    self.slots.resize(home, FREE);
                }
                self.slots.push(slot);
            }
        }
        let len = len.max(self.slots.len() + 1);
        self.slots.resize(len, FREE);
    }

    fn remove(&mut self, gone: Slot) {
        let mut at = self.home(gone.hash);
        while self.slots.get(at).is_some_and(|slot| slot.id != gone.id) {
            if self.slots[at].id == NodeId::NIL {
                return;
            }
            at += 1;
        }
        if at >= self.slots.len() {
            return;
        }
        self.len -= 1;
        // The following slots move back, up to a free slot or an entry at its home.
        let mut end = at + 1;
        while self.slots[end].id != NodeId::NIL && self.home(self.slots[end].hash) < end {
            end += 1;
        }
        self.slots.copy_within(at + 1..end, at);
        self.slots[end - 1] = FREE;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Checks that every entry is at a position where a search finds it, and that the counts are
    /// correct.
    fn check(shard: &Shard) {
        let used = |slot: &Slot| slot.id != NodeId::NIL;
        assert_eq!(
            shard.slots.iter().filter(|slot| used(slot)).count(),
            shard.len
        );
        assert!(shard.len << 8 <= shard.homes * usize::from(shard.limit));
        assert!(shard.slots.last().is_none_or(|slot| !used(slot)));
        assert!(shard.slots.is_empty() || shard.slots.len() > shard.homes);
        let taken = shard.slots.iter().filter(|slot| used(slot));
        assert!(taken.is_sorted_by_key(|slot| slot.hash));
        for (at, slot) in shard
            .slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| used(slot))
        {
            let home = shard.home(slot.hash);
            assert!(home <= at && shard.slots[home..at].iter().all(used));
        }
    }

    /// Returns one of `spread` different hashes. One of them is the maximum.
    fn hash_of(id: u32, spread: u32) -> u32 {
        match id % spread {
            0 => u32::MAX,
            part => part.wrapping_mul(0x9e37_79b9),
        }
    }

    proptest! {
        /// The entries have few different hashes, so that they collide, or many. Shards have 8, 12,
        /// 16, 20, 24, 32, 40 and more homes.
        #[test]
        fn a_shard_behaves_like_a_map(
            number in any::<u8>(),
            spread in prop_oneof![1..8u32, Just(u32::MAX)],
            inserts_in_ten in 3..10u32,
            steps in proptest::collection::vec((0..10u32, 0..150u32), 1..400),
        ) {
            let (mut shard, mut map) = (Shard::new(number), BTreeMap::new());
            for (kind, id) in steps {
                let slot = Slot { id: NodeId(id), hash: hash_of(id, spread) };
                if kind >= inserts_in_ten {
                    shard.remove(slot);
                    map.remove(&id);
                } else if map.insert(id, ()).is_none() {
                    shard.insert(slot);
                }
                prop_assert_eq!(shard.len, map.len());
                check(&shard);
            }
            for id in 0..150 {
                let found = shard.find(hash_of(id, spread), |found| found.0 == id);
                prop_assert_eq!(found.is_some(), map.contains_key(&id));
            }
        }
    }

    #[test]
    fn a_shard_grows_by_a_quarter_at_most() {
        let mut shard = Shard::new(0);
        let mut lengths = Vec::new();
        for id in 0..200 {
            shard.insert(Slot {
                id: NodeId(id),
                hash: hash_of(id, u32::MAX),
            });
            let len = shard.homes + TAIL;
            if lengths.last() != Some(&len) {
                lengths.push(len);
                check(&shard);
            }
        }
        let wanted = [
            16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320,
        ];
        assert_eq!(lengths, wanted);
        for id in 0..200 {
            let hash = hash_of(id, u32::MAX);
            assert_eq!(shard.find(hash, |_| true), Some(NodeId(id)));
            shard.remove(Slot {
                id: NodeId(id),
                hash,
            });
        }
        check(&shard);
        assert_eq!(shard.len, 0);
    }
}
