//! Where znodes live: chunks of slots that never move, a list of free slots, and the dead that a
//! running snapshot may still step on.
//!
//! A snapshot walks sibling links in steps and lets go of the lock between them. A znode deleted
//! meanwhile keeps its slot and its `next` link until every snapshot that could stand on it is
//! done, so the walk always finds its way back to what is alive. Dead slots are kept in *eras*:
//! a snapshot pins the era it starts in, and the slots of an era are free once nobody pins it or
//! an older one.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use crate::node::Node;

/// Slots in a chunk: 72 KiB, below the size where allocators ask the system for pages.
const CHUNK_SLOTS: usize = 1 << CHUNK_BITS;
const CHUNK_BITS: u32 = 9;
/// Deaths after which a new era begins while snapshots run.
const ERA_DEATHS_MAX: usize = 4096;
/// Slots set free for each death, at most: letting a whole snapshot's dead go at once would
/// hold the lock.
const RELEASES_PER_DEATH: usize = 32;

/// The slot of a znode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeId(pub(crate) u32);

impl NodeId {
    /// No znode.
    pub(crate) const NIL: Self = Self(u32::MAX);

    /// `None` for [`Self::NIL`].
    pub(crate) fn get(self) -> Option<Self> {
        (self != Self::NIL).then_some(self)
    }
}

/// Keeps the slots of the dead as long as it lives.
pub(crate) type Pin = Arc<()>;

#[derive(Debug, Default)]
struct Era {
    pin: Pin,
    dead: Vec<NodeId>,
}

/// All znodes.
#[derive(Debug)]
pub(crate) struct Arena {
    chunks: Vec<Vec<Node>>,
    /// Free slots, linked through `next`.
    free: NodeId,
    /// Oldest first; never empty.
    eras: VecDeque<Era>,
}

impl Arena {
    pub(crate) fn new() -> Self {
        Self {
            chunks: Vec::new(),
            free: NodeId::NIL,
            eras: VecDeque::from([Era::default()]),
        }
    }

    /// Takes a slot.
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
        let id = u32::try_from(slot).expect("memory ends before 2^32 znodes");
        NodeId(id)
    }

    /// Frees the memory of a znode that nothing links to any more, and its slot as soon as no
    /// snapshot can stand on it.
    pub(crate) fn remove(&mut self, id: NodeId) {
        self[id].bury();
        if self.eras.iter().all(|era| Arc::strong_count(&era.pin) == 1) {
            self.release(id);
        } else if let Some(era) = self.eras.back_mut() {
            era.dead.push(id);
            if era.dead.len() >= ERA_DEATHS_MAX {
                self.eras.push_back(Era::default());
            }
        }
        self.sweep();
    }

    /// Keeps the slots of znodes that die from now on.
    pub(crate) fn pin(&self) -> Pin {
        let era = self.eras.back().expect("there is always an era");
        Arc::clone(&era.pin)
    }

    fn sweep(&mut self) {
        for _ in 0..RELEASES_PER_DEATH {
            let Some(oldest) = self.eras.front_mut() else {
                return;
            };
            if Arc::strong_count(&oldest.pin) > 1 {
                return;
            }
            match oldest.dead.pop() {
                Some(id) => self.release(id),
                None if self.eras.len() > 1 => drop(self.eras.pop_front()),
                None => return,
            }
        }
    }

    fn release(&mut self, id: NodeId) {
        self[id].next = self.free;
        self.free = id;
    }

    /// Memory of the slots, in bytes.
    pub(crate) fn slot_bytes(&self) -> usize {
        self.chunks.len() * CHUNK_SLOTS * size_of::<Node>()
    }

    #[cfg(test)]
    fn dead_slots(&self) -> usize {
        self.eras.iter().map(|era| era.dead.len()).sum()
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
    use crate::acl_table::AclSlot;

    fn node(name: &str) -> Node {
        Node::new(name, None, AclSlot::OPEN, StatPersisted::default())
    }

    #[test]
    fn a_freed_slot_is_used_again() {
        let mut arena = Arena::new();
        let ids: Vec<_> = (0..2000).map(|_| arena.insert(node("n"))).collect();
        arena.remove(ids[5]);
        arena.remove(ids[1500]);
        assert_eq!(arena.insert(node("x")), ids[1500]);
        assert_eq!(arena.insert(node("y")), ids[5]);
        assert_eq!(
            (arena[ids[5]].name.as_str(), arena[ids[6]].name.as_str()),
            ("y", "n")
        );
    }

    #[test]
    fn a_pinned_slot_is_not_used_again_and_keeps_its_link() {
        let mut arena = Arena::new();
        let (first, second) = (arena.insert(node("a")), arena.insert(node("b")));
        arena[first].next = second;
        let pin = arena.pin();
        arena.remove(first);
        assert!(!arena[first].is_alive());
        assert_ne!(arena.insert(node("c")), first);
        assert_eq!(arena[first].next, second);
        drop(pin);
        arena.remove(second);
        let reused = [arena.insert(node("d")), arena.insert(node("e"))];
        assert!(reused.contains(&first) && reused.contains(&second));
    }

    #[test]
    fn overlapping_snapshots_do_not_keep_the_dead_for_ever() {
        let mut arena = Arena::new();
        let mut pin = arena.pin();
        for _ in 0..100 {
            let next = arena.pin();
            for _ in 0..ERA_DEATHS_MAX {
                let id = arena.insert(node("x"));
                arena.remove(id);
            }
            pin = next;
        }
        drop(pin);
        assert!(
            arena.dead_slots() <= 4 * ERA_DEATHS_MAX,
            "{}",
            arena.dead_slots()
        );
    }
}
