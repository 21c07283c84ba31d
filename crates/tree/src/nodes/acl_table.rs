//! The table of ACL lists, each stored once.
//!
//! A znode holds a slot of this table. A slot contains the id by which snapshots refer to the list:
//! -1 for the open list of system znodes, which is never in a snapshot's map, and numbers from 1
//! for all other lists. Source: ReferenceCountedACLCache.

use std::sync::Arc;

use hashbrown::HashMap;
use proto::{Acl, Id};

/// Id of the open list.
const OPEN_ID: i64 = -1;

/// Slot of a list in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct AclSlot(u32);

impl AclSlot {
    /// Slot of the list that grants world:anyone all permissions. It is not in a snapshot's map.
    pub(crate) const OPEN: Self = Self(0);
}

#[derive(Debug)]
struct TableEntry {
    id: i64,
    /// The list; `None` if a znode in a fuzzy snapshot refers to a list that the snapshot's map
    /// lacks. Replay assigns another slot to the znode.
    list: Option<Arc<[Acl]>>,
    /// Number of znodes that use the slot.
    uses: u64,
}

/// The table of ACL lists.
#[derive(Debug)]
pub(crate) struct AclTable {
    entries: Vec<TableEntry>,
    free: Vec<u32>,
    by_id: HashMap<i64, AclSlot>,
    by_list: HashMap<Arc<[Acl]>, AclSlot>,
    last_id: i64,
}

impl AclTable {
    pub(crate) fn new() -> Self {
        let open = TableEntry {
            id: OPEN_ID,
            list: Some(Arc::new([Acl::open()])),
            uses: 0,
        };
        Self {
            entries: vec![open],
            free: Vec::new(),
            by_id: HashMap::from_iter([(OPEN_ID, AclSlot::OPEN)]),
            by_list: HashMap::new(),
            last_id: 0,
        }
    }

    /// Returns the list in a slot; `None` if it is unknown.
    pub(crate) fn list(&self, slot: AclSlot) -> Option<&Arc<[Acl]>> {
        self.entries[slot.0 as usize].list.as_ref()
    }

    /// Returns the id by which snapshots refer to a slot's list.
    pub(crate) fn id(&self, slot: AclSlot) -> i64 {
        self.entries[slot.0 as usize].id
    }

    /// Adds a use of this list. Stores the list if it is new.
    pub(crate) fn acquire(&mut self, list: &[Acl]) -> AclSlot {
        let slot = match self.by_list.get(list) {
            Some(slot) => *slot,
            None => {
                let id = self.unused_id();
                let list: Arc<[Acl]> = list.iter().map(detached).collect();
                let slot = self.insert(id, Some(Arc::clone(&list)));
                self.by_list.insert(list, slot);
                slot
            }
        };
        self.entries[slot.0 as usize].uses += 1;
        slot
    }

    /// Removes a use. A list that is no longer used is removed.
    pub(crate) fn release(&mut self, slot: AclSlot) {
        if slot == AclSlot::OPEN {
            return;
        }
        let entry = &mut self.entries[slot.0 as usize];
        entry.uses = entry.uses.saturating_sub(1);
        if entry.uses == 0 {
            self.forget(slot);
        }
    }

    /// Adds a list from a snapshot's map, without a use.
    pub(crate) fn load(&mut self, id: i64, list: &[Acl]) {
        if self.by_id.contains_key(&id) {
            return;
        }
        let list: Arc<[Acl]> = list.iter().map(detached).collect();
        let slot = self.insert(id, Some(Arc::clone(&list)));
        self.by_list.entry(list).or_insert(slot);
        self.last_id = self.last_id.max(id);
    }

    /// Adds a use by a znode from a snapshot, which refers to the list by its id.
    pub(crate) fn acquire_loaded(&mut self, id: i64) -> AclSlot {
        let slot = match self.by_id.get(&id) {
            Some(slot) => *slot,
            None => self.insert(id, None),
        };
        if slot != AclSlot::OPEN {
            self.entries[slot.0 as usize].uses += 1;
        }
        slot
    }

    /// Removes all lists that no znode uses.
    pub(crate) fn purge(&mut self) {
        let is_unused = |slot: &AclSlot| self.entries[slot.0 as usize].uses == 0;
        let unused: Vec<AclSlot> = self
            .by_id
            .values()
            .copied()
            .filter(|slot| *slot != AclSlot::OPEN && is_unused(slot))
            .collect();
        for slot in unused {
            self.forget(slot);
        }
    }

    /// Returns all known lists with their ids, ordered by id, for a snapshot's map.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (i64, &Arc<[Acl]>)> {
        let mut known: Vec<_> = self
            .by_id
            .iter()
            .filter(|(_, slot)| **slot != AclSlot::OPEN)
            .filter_map(|(id, slot)| self.list(*slot).map(|list| (*id, list)))
            .collect();
        known.sort_unstable_by_key(|(id, _)| *id);
        known.into_iter()
    }

    fn insert(&mut self, id: i64, list: Option<Arc<[Acl]>>) -> AclSlot {
        let entry = TableEntry { id, list, uses: 0 };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.entries[slot as usize] = entry;
                AclSlot(slot)
            }
            None => {
                self.entries.push(entry);
                let slot = u32::try_from(self.entries.len() - 1);
                AclSlot(slot.expect("there are no more lists than znodes"))
            }
        };
        self.by_id.insert(id, slot);
        slot
    }

    fn forget(&mut self, slot: AclSlot) {
        let entry = &mut self.entries[slot.0 as usize];
        self.by_id.remove(&entry.id);
        if let Some(list) = entry.list.take()
            && self.by_list.get(&list) == Some(&slot)
        {
            self.by_list.remove(&list);
        }
        self.free.push(slot.0);
    }

    /// Returns the next id. Ids that only a znode in a fuzzy snapshot uses are skipped, because
    /// such a znode must not be assigned an unrelated list. (Java assigns them and relies on the
    /// replay.)
    fn unused_id(&mut self) -> i64 {
        loop {
            self.last_id = self.last_id.checked_add(1).unwrap_or(1);
            if !self.by_id.contains_key(&self.last_id) {
                return self.last_id;
            }
        }
    }
}

/// Copies an entry, so that it does not keep the request's frame in memory.
fn detached(acl: &Acl) -> Acl {
    Acl {
        perms: acl.perms,
        id: Id {
            scheme: (&*acl.id.scheme).into(),
            id: (&*acl.id.id).into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(user: &str) -> Vec<Acl> {
        vec![Acl::new(31, "digest", user)]
    }

    #[test]
    fn equal_lists_share_a_slot_until_the_last_use_ends() {
        let mut table = AclTable::new();
        let (a, b) = (table.acquire(&list("a")), table.acquire(&list("b")));
        assert_eq!(table.acquire(&list("a")), a);
        assert_eq!((table.id(a), table.id(b)), (1, 2));
        table.release(a);
        assert!(table.list(a).is_some());
        table.release(a);
        assert_eq!(table.iter().map(|(id, _)| id).collect::<Vec<_>>(), [2]);
        let c = table.acquire(&list("c"));
        assert_eq!(table.id(c), 3);
    }

    #[test]
    fn the_open_list_spelled_out_has_an_id_of_its_own() {
        let mut table = AclTable::new();
        let slot = table.acquire(&[Acl::open()]);
        assert_eq!((table.id(slot), table.id(AclSlot::OPEN)), (1, -1));
        table.release(AclSlot::OPEN);
        assert!(table.list(AclSlot::OPEN).is_some());
    }

    #[test]
    fn loaded_ids_are_kept_and_unused_ones_purged() {
        let mut table = AclTable::new();
        table.load(7, &list("a"));
        table.load(9, &list("b"));
        let a = table.acquire_loaded(7);
        table.purge();
        assert_eq!(table.iter().map(|(id, _)| id).collect::<Vec<_>>(), [7]);
        assert_eq!(table.acquire(&list("a")), a);
        let c = table.acquire(&list("c"));
        assert_eq!(table.id(c), 10);
    }

    #[test]
    fn a_missing_id_is_never_given_to_another_list() {
        let mut table = AclTable::new();
        table.load(1, &list("a"));
        let (a, missing) = (table.acquire_loaded(1), table.acquire_loaded(2));
        table.purge();
        assert!(table.list(missing).is_none());
        let c = table.acquire(&list("c"));
        assert_eq!((table.id(a), table.id(missing), table.id(c)), (1, 2, 3));
        table.release(missing);
        assert_eq!(table.iter().count(), 2);
    }

    #[test]
    fn the_largest_id_does_not_overflow() {
        let mut table = AclTable::new();
        table.load(i64::MAX, &list("a"));
        table.load(-5, &list("b"));
        let slot = table.acquire(&list("c"));
        assert_eq!(table.id(slot), 1);
    }
}
