//! Storage of znodes, which consists of chunks of slots that never move, and a list of free slots.

use std::ops::{Index, IndexMut};

use super::node::Node;

/// Number of slots in a chunk of 960 KiB, of which only the used part occupies memory. Smaller
/// chunks would reuse the blocks of short-lived allocations, which are already completely resident.
/// This would cost 8 bytes per znode.
const CHUNK_SLOTS: usize = 1 << CHUNK_BITS;
const CHUNK_BITS: u32 = 13;

/// Slot of a znode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeId(pub(crate) u32);

impl NodeId {
    /// Absence of a znode.
    pub(crate) const NIL: Self = Self(u32::MAX);

    /// Returns `None` for [`Self::NIL`].
    pub(crate) fn get(self) -> Option<Self> {
        (self != Self::NIL).then_some(self)
    }
}

/// The storage of all znodes.
#[derive(Debug)]
pub(crate) struct Arena {
    chunks: Vec<Vec<Node>>,
    /// First free slot. Free slots are linked through `next`.
    free: NodeId,
}

impl Arena {
    pub(crate) fn new() -> Self {
        Self {
            chunks: Vec::new(),
            free: NodeId::NIL,
        }
    }

    /// Stores a znode in a free slot.
    pub(crate) fn insert(&mut self, node: Node) -> NodeId {
        if let Some(id) = self.free.get() {
            let slot = &mut self[id];
            let next_free = slot.next;
            *slot = node;
            self.free = next_free;
            return id;
        }
        let chunk = match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK_SLOTS => chunk,
            _ => {
                self.chunks.push(Vec::with_capacity(CHUNK_SLOTS));
                self.chunks.last_mut().expect("a chunk was just pushed")
            }
        };
        chunk.push(node);
        let in_chunk = chunk.len() - 1;
        let slot = (self.chunks.len() - 1) * CHUNK_SLOTS + in_chunk;
        let id = u32::try_from(slot).expect("memory cannot hold 2^32 znodes");
        NodeId(id)
    }

    /// Frees the slot of a znode that is no longer linked.
    pub(crate) fn remove(&mut self, id: NodeId) {
        let next_free = std::mem::replace(&mut self.free, id);
        self[id].clear(next_free);
    }

    /// Returns the number of slots, including free ones.
    pub(crate) fn len(&self) -> u32 {
        let full = self.chunks.len().saturating_sub(1) * CHUNK_SLOTS;
        let slots = full + self.chunks.last().map_or(0, Vec::len);
        u32::try_from(slots).unwrap_or(u32::MAX)
    }

    /// Returns the memory of the slots, bytes.
    pub(crate) fn slot_bytes(&self) -> usize {
        self.chunks.len() * CHUNK_SLOTS * size_of::<Node>()
    }
}

impl Index<NodeId> for Arena {
    type Output = Node;

    fn index(&self, id: NodeId) -> &Node {
        let slot = id.0 as usize;
        &self.chunks[slot >> CHUNK_BITS][slot & (CHUNK_SLOTS - 1)]
    }
}

impl IndexMut<NodeId> for Arena {
    fn index_mut(&mut self, id: NodeId) -> &mut Node {
        let slot = id.0 as usize;
        &mut self.chunks[slot >> CHUNK_BITS][slot & (CHUNK_SLOTS - 1)]
    }
}

#[cfg(test)]
mod tests {
    use proto::StatPersisted;

    use super::*;
    use crate::nodes::acl_table::AclSlot;

    fn node(name: &str) -> Node {
        Node::new(name, None, AclSlot::OPEN, StatPersisted::default())
    }

    #[test]
    fn a_freed_slot_is_used_again() {
        let mut arena = Arena::new();
        let ids: Vec<_> = (0..20_000).map(|_| arena.insert(node("n"))).collect();
        arena.remove(ids[5]);
        arena.remove(ids[15_000]);
        assert_eq!(arena.insert(node("x")), ids[15_000]);
        assert_eq!(arena.insert(node("y")), ids[5]);
        let names = [ids[5], ids[6]].map(|id| arena[id].body.name());
        assert_eq!(names, ["y", "n"]);
    }
}
