//! Watch records and their lists.

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use slab::Slab;

use super::counts::Counts;
use super::kinds::Kinds;
use crate::nodes::path_hash;

/// Id of a connection that receives events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatcherId(pub u64);

const NIL: u32 = u32::MAX;

/// A connection's interest in a path.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) path: u32,
    pub(super) watcher: u32,
    pub(super) kinds: Kinds,
    next_of_path: u32,
    prev_of_path: u32,
    next_of_watcher: u32,
    prev_of_watcher: u32,
}

#[derive(Debug)]
pub(super) struct PathEntry {
    pub(super) path: Option<Box<str>>,
    pub(super) first: u32,
    /// Number of watches in the data table.
    pub(super) data_watches: u32,
}

impl PathEntry {
    fn bytes(&self) -> usize {
        self.path.as_ref().map_or(0, |path| path.len())
    }
}

#[derive(Debug)]
pub(super) struct WatcherEntry {
    pub(super) id: WatcherId,
    pub(super) first: u32,
    /// Number of watches in the data table.
    pub(super) data_watches: u32,
    /// Number of watches in the child table.
    pub(super) child_watches: u32,
    /// Total length of the watched paths, bytes.
    pub(super) path_bytes: usize,
}

/// All watches of a server, shared by its connections.
pub type SharedWatches = parking_lot::Mutex<Watches>;

/// All watches of a server.
#[derive(Debug, Default)]
pub struct Watches {
    hasher: DefaultHashBuilder,
    pub(super) watches: Slab<Watch>,
    pub(super) paths: Slab<PathEntry>,
    pub(super) watchers: Slab<WatcherEntry>,
    /// Slots of the watches, by path and watcher.
    pairs: HashTable<u32>,
    path_slots: HashTable<u32>,
    pub(super) watcher_slots: HashMap<WatcherId, u32>,
    pub(super) counts: Counts,
}

impl Watches {
    /// Creates an empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether there are no watches.
    pub fn is_empty(&self) -> bool {
        self.watches.is_empty()
    }

    /// Adds kinds to the watcher's interest in the path.
    pub(crate) fn add(&mut self, watcher: WatcherId, path: Option<&str>, kinds: Kinds) {
        let path_slot = self.path_slot_or_new(path);
        let watcher_slot = self.watcher_slot_or_new(watcher);
        let watch = match self.find_pair(path_slot, watcher_slot) {
            Some(watch) => watch,
            None => self.link(path_slot, watcher_slot),
        };
        let kinds = self.watches[watch as usize].kinds.with(kinds);
        self.set_kinds(watch, kinds);
    }

    /// Returns whether the watcher's interest in the path includes one of the kinds.
    pub(crate) fn has(&self, watcher: WatcherId, path: Option<&str>, kinds: Kinds) -> bool {
        self.find(watcher, path)
            .is_some_and(|watch| self.watches[watch as usize].kinds.meets(kinds))
    }

    /// Removes kinds from the watcher's interest in the path. Returns whether the interest included
    /// one of the kinds.
    pub(crate) fn remove(&mut self, watcher: WatcherId, path: Option<&str>, kinds: Kinds) -> bool {
        let Some(watch) = self.find(watcher, path) else {
            return false;
        };
        let had = self.watches[watch as usize].kinds;
        self.take_kinds(watch, kinds);
        had.meets(kinds)
    }

    /// Removes all watches of a connection.
    pub fn remove_watcher(&mut self, watcher: WatcherId) {
        while !self.remove_some(watcher, usize::MAX) {}
    }

    /// Removes up to `count` watches of a connection. Returns whether all have been removed. The
    /// number is limited because a connection may have millions of watches, and a thread that holds
    /// the tree's lock may wait for the lock of this table.
    pub fn remove_some(&mut self, watcher: WatcherId, count: usize) -> bool {
        for _ in 0..count {
            let Some(&slot) = self.watcher_slots.get(&watcher) else {
                return true;
            };
            let first = self.watchers[slot as usize].first;
            self.take_kinds(first, Kinds::ANY);
        }
        !self.watcher_slots.contains_key(&watcher)
    }

    /// Removes kinds from a watch, and the watch itself if no kind remains.
    pub(super) fn take_kinds(&mut self, watch: u32, kinds: Kinds) {
        let left = self.watches[watch as usize].kinds.without(kinds);
        self.set_kinds(watch, left);
        if left == Kinds::NONE {
            self.unlink(watch);
        }
    }

    /// Returns the watches on a path.
    pub(super) fn of_path(&self, path_slot: usize) -> impl Iterator<Item = (u32, &Watch)> {
        let first = self.paths[path_slot].first;
        self.chain(first, |watch| watch.next_of_path)
    }

    /// Returns the watches of a watcher.
    pub(super) fn of_watcher(&self, watcher_slot: usize) -> impl Iterator<Item = (u32, &Watch)> {
        let first = self.watchers[watcher_slot].first;
        self.chain(first, |watch| watch.next_of_watcher)
    }

    fn chain(
        &self,
        first: u32,
        next: impl Fn(&Watch) -> u32,
    ) -> impl Iterator<Item = (u32, &Watch)> {
        let mut at = first;
        std::iter::from_fn(move || {
            let watch = self.watches.get(at as usize)?;
            let found = (at, watch);
            at = next(watch);
            Some(found)
        })
    }

    /// Returns the slot of a path that has watches.
    pub(super) fn path_slot(&self, path: &str) -> Option<u32> {
        self.path_slot_at(path_hash::hash(&self.hasher, path), Some(path))
    }

    /// Returns the slots of the path's proper ancestors that have watches.
    pub(super) fn ancestor_slots(&self, path: &str) -> impl Iterator<Item = u32> {
        path_hash::ancestors(&self.hasher, path)
            .filter_map(|(hash, ancestor)| self.path_slot_at(hash, Some(ancestor)))
    }

    fn path_slot_at(&self, hash: u64, path: Option<&str>) -> Option<u32> {
        let is_it = |slot: &u32| self.paths[*slot as usize].path.as_deref() == path;
        self.path_slots.find(hash, is_it).copied()
    }

    fn hash_of(&self, path: Option<&str>) -> u64 {
        // Null has the hash of the empty string. The comparison distinguishes them.
        path_hash::hash(&self.hasher, path.unwrap_or_default())
    }

    fn find(&self, watcher: WatcherId, path: Option<&str>) -> Option<u32> {
        let watcher_slot = *self.watcher_slots.get(&watcher)?;
        let path_slot = self.path_slot_at(self.hash_of(path), path)?;
        self.find_pair(path_slot, watcher_slot)
    }

    pub(super) fn find_pair(&self, path: u32, watcher: u32) -> Option<u32> {
        let is_it = |watch: &u32| {
            let watch = &self.watches[*watch as usize];
            watch.path == path && watch.watcher == watcher
        };
        self.pairs
            .find(self.pair_hash(path, watcher), is_it)
            .copied()
    }

    fn pair_hash(&self, path: u32, watcher: u32) -> u64 {
        use std::hash::BuildHasher;
        self.hasher.hash_one((path, watcher))
    }

    fn path_slot_or_new(&mut self, path: Option<&str>) -> u32 {
        let hash = self.hash_of(path);
        if let Some(slot) = self.path_slot_at(hash, path) {
            return slot;
        }
        let slot = slot_number(self.paths.insert(PathEntry {
            path: path.map(Box::from),
            first: NIL,
            data_watches: 0,
        }));
        let (paths, hasher) = (&self.paths, &self.hasher);
        let hash_of = |slot: &u32| {
            let path = paths[*slot as usize].path.as_deref();
            path_hash::hash(hasher, path.unwrap_or_default())
        };
        self.path_slots.insert_unique(hash, slot, hash_of);
        slot
    }

    fn watcher_slot_or_new(&mut self, id: WatcherId) -> u32 {
        *self.watcher_slots.entry(id).or_insert_with(|| {
            slot_number(self.watchers.insert(WatcherEntry {
                id,
                first: NIL,
                data_watches: 0,
                child_watches: 0,
                path_bytes: 0,
            }))
        })
    }

    fn link(&mut self, path: u32, watcher: u32) -> u32 {
        let path_entry = &mut self.paths[path as usize];
        let watcher_entry = &mut self.watchers[watcher as usize];
        let watch = slot_number(self.watches.insert(Watch {
            path,
            watcher,
            kinds: Kinds::NONE,
            next_of_path: path_entry.first,
            prev_of_path: NIL,
            next_of_watcher: watcher_entry.first,
            prev_of_watcher: NIL,
        }));
        if let Some(next) = self.watches.get_mut(path_entry.first as usize) {
            next.prev_of_path = watch;
        }
        if let Some(next) = self.watches.get_mut(watcher_entry.first as usize) {
            next.prev_of_watcher = watch;
        }
        path_entry.first = watch;
        watcher_entry.first = watch;
        watcher_entry.path_bytes += path_entry.bytes();
        let hash = self.pair_hash(path, watcher);
        let (watches, hasher) = (&self.watches, &self.hasher);
        let hash_of = |watch: &u32| {
            use std::hash::BuildHasher;
            let watch = &watches[*watch as usize];
            hasher.hash_one((watch.path, watch.watcher))
        };
        self.pairs.insert_unique(hash, watch, hash_of);
        watch
    }

    fn unlink(&mut self, watch: u32) {
        let gone = self.watches.remove(watch as usize);
        match self.watches.get_mut(gone.prev_of_path as usize) {
            Some(prev) => prev.next_of_path = gone.next_of_path,
            None => self.paths[gone.path as usize].first = gone.next_of_path,
        }
        if let Some(next) = self.watches.get_mut(gone.next_of_path as usize) {
            next.prev_of_path = gone.prev_of_path;
        }
        match self.watches.get_mut(gone.prev_of_watcher as usize) {
            Some(prev) => prev.next_of_watcher = gone.next_of_watcher,
            None => self.watchers[gone.watcher as usize].first = gone.next_of_watcher,
        }
        if let Some(next) = self.watches.get_mut(gone.next_of_watcher as usize) {
            next.prev_of_watcher = gone.prev_of_watcher;
        }
        let bytes = self.paths[gone.path as usize].bytes();
        self.watchers[gone.watcher as usize].path_bytes -= bytes;
        let hash = self.pair_hash(gone.path, gone.watcher);
        if let Ok(entry) = self.pairs.find_entry(hash, |other| *other == watch) {
            entry.remove();
        }
        self.forget_unused(gone.path, gone.watcher);
    }

    fn forget_unused(&mut self, path_slot: u32, watcher_slot: u32) {
        if self.paths[path_slot as usize].first == NIL {
            let entry = self.paths.remove(path_slot as usize);
            let hash = self.hash_of(entry.path.as_deref());
            if let Ok(entry) = self
                .path_slots
                .find_entry(hash, |other| *other == path_slot)
            {
                entry.remove();
            }
        }
        if self.watchers[watcher_slot as usize].first == NIL {
            let entry = self.watchers.remove(watcher_slot as usize);
            self.watcher_slots.remove(&entry.id);
        }
    }

    fn set_kinds(&mut self, watch: u32, kinds: Kinds) {
        let watch = &mut self.watches[watch as usize];
        let (path, watcher) = (
            &mut self.paths[watch.path as usize],
            &mut self.watchers[watch.watcher as usize],
        );
        self.counts.change(watch.kinds, kinds, path, watcher);
        watch.kinds = kinds;
    }
}

/// Converts a slot to its number. No machine has enough memory for 2^32 watches.
fn slot_number(slot: usize) -> u32 {
    u32::try_from(slot).expect("memory cannot hold 2^32 watches")
}
