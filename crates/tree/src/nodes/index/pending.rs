//! Insertion of millions of znodes while a snapshot is loaded.
//!
//! If znodes are added one by one, each causes a cache miss in a table of a hundred megabytes. If
//! they are collected by shard, a few thousand of them access the same half megabyte of the table.

use super::{Index, SHARD_BITS, Slot};
use crate::nodes::arena::{Arena, NodeId};

/// Maximum number of waiting znodes per shard, which use 16 KiB for each shard.
const WAITING_MAX: usize = 2048;

/// Znodes that are linked to their parents and not in the table yet.
#[derive(Debug)]
pub(crate) struct Pending {
    shards: Box<[Vec<Slot>]>,
}

/// A znode whose parent already has a child with the same name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Duplicate(pub(crate) NodeId);

impl Pending {
    pub(crate) fn new() -> Self {
        let shards = (0..1 << SHARD_BITS).map(|_| Vec::new()).collect();
        Self { shards }
    }

    /// Adds a znode to the waiting znodes of its shard. When the shard has [`WAITING_MAX`] of them,
    /// adds them to the table.
    ///
    /// # Errors
    /// If this znode or a waiting one is a duplicate.
    pub(crate) fn add(
        &mut self,
        index: &mut Index,
        arena: &Arena,
        id: NodeId,
    ) -> Result<(), Duplicate> {
        let node = &arena[id];
        let (shard, hash) = index.place(node.parent, node.body.name_bytes());
        let waiting = &mut self.shards[shard];
        waiting.push(Slot { id, hash });
        match waiting.len() {
            WAITING_MAX => index.enter(arena, shard, waiting.drain(..)),
            _ => Ok(()),
        }
    }

    /// Adds all waiting znodes.
    ///
    /// # Errors
    /// If one of them is a duplicate.
    pub(crate) fn enter_all(&mut self, index: &mut Index, arena: &Arena) -> Result<(), Duplicate> {
        let mut shards = self.shards.iter_mut().enumerate();
        shards.try_for_each(|(shard, waiting)| index.enter(arena, shard, waiting.drain(..)))
    }
}

impl Index {
    fn enter(
        &mut self,
        arena: &Arena,
        shard: usize,
        slots: impl Iterator<Item = Slot>,
    ) -> Result<(), Duplicate> {
        let shard = &mut self.shards[shard];
        for slot in slots {
            let node = &arena[slot.id];
            let is_same = |id| {
                let other = &arena[id];
                other.parent == node.parent && other.body.name_bytes() == node.body.name_bytes()
            };
            if shard.find(slot.hash, is_same).is_some() {
                return Err(Duplicate(slot.id));
            }
            shard.insert(slot);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proto::StatPersisted;

    use super::*;
    use crate::nodes::acl_table::AclSlot;
    use crate::nodes::node::Node;

    fn child(arena: &mut Arena, name: &str) -> NodeId {
        let mut node = Node::new(name, None, AclSlot::OPEN, StatPersisted::default());
        node.parent = NodeId(0);
        arena.insert(node)
    }

    #[test]
    fn added_znodes_are_found_once_all_are_entered() {
        let (mut index, mut arena, mut pending) = (Index::new(), Arena::new(), Pending::new());
        let ids: Vec<NodeId> = (0..300_000)
            .map(|number| {
                let id = child(&mut arena, &format!("n{number}"));
                pending.add(&mut index, &arena, id).unwrap();
                id
            })
            .collect();
        pending.enter_all(&mut index, &arena).unwrap();
        for id in ids {
            let name = arena[id].body.name_bytes();
            assert_eq!(index.find(&arena, NodeId(0), name), Some(id));
        }
        assert_eq!(index.find(&arena, NodeId(1), b"n5"), None);
    }

    #[test]
    fn a_duplicate_name_is_reported() {
        let (mut index, mut arena, mut pending) = (Index::new(), Arena::new(), Pending::new());
        let first = child(&mut arena, "a");
        pending.add(&mut index, &arena, first).unwrap();
        pending.enter_all(&mut index, &arena).unwrap();
        let second = child(&mut arena, "a");
        pending.add(&mut index, &arena, second).unwrap();
        let entered = pending.enter_all(&mut index, &arena);
        assert_eq!(entered, Err(Duplicate(second)));
    }
}
