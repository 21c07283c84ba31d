//! Numbers and listings of watches.

use super::Kinds;
use super::store::{PathEntry, WatcherEntry, WatcherId, Watches};

/// Numbers that are kept rather than counted.
#[derive(Debug, Default)]
pub(super) struct Counts {
    data_watches: usize,
    child_watches: usize,
    data_paths: usize,
    data_watchers: usize,
    pub(super) recursive: usize,
}

/// What `wchs` shows; the data table only, as in Java.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchSummary {
    /// Connections with a watch.
    pub watchers: usize,
    /// Paths with a watch.
    pub paths: usize,
    /// Watches.
    pub watches: usize,
}

impl Counts {
    pub(super) fn change(
        &mut self,
        from: Kinds,
        to: Kinds,
        path: &mut PathEntry,
        watcher: &mut WatcherEntry,
    ) {
        let (from_data, to_data) = (from.meets(Kinds::DATA_TABLE), to.meets(Kinds::DATA_TABLE));
        if !from_data && to_data {
            self.data_watches += 1;
            self.data_paths += usize::from(path.data_watches == 0);
            self.data_watchers += usize::from(watcher.data_watches == 0);
            path.data_watches += 1;
            watcher.data_watches += 1;
        } else if from_data && !to_data {
            path.data_watches -= 1;
            watcher.data_watches -= 1;
            self.data_watches -= 1;
            self.data_paths -= usize::from(path.data_watches == 0);
            self.data_watchers -= usize::from(watcher.data_watches == 0);
        }
        let count = |kinds: Kinds, table| usize::from(kinds.meets(table));
        self.child_watches += count(to, Kinds::CHILD_TABLE);
        self.child_watches -= count(from, Kinds::CHILD_TABLE);
        watcher.child_watches += u32::from(to.meets(Kinds::CHILD_TABLE));
        watcher.child_watches -= u32::from(from.meets(Kinds::CHILD_TABLE));
        self.recursive += count(to, Kinds::RECURSIVE);
        self.recursive -= count(from, Kinds::RECURSIVE);
    }
}

impl Watches {
    /// Watches of both tables, as `zk_watch_count` has them: modes of one table count once.
    pub fn count(&self) -> usize {
        self.counts.data_watches + self.counts.child_watches
    }

    /// The numbers of `wchs`.
    pub fn summary(&self) -> WatchSummary {
        WatchSummary {
            watchers: self.counts.data_watchers,
            paths: self.counts.data_paths,
            watches: self.counts.data_watches,
        }
    }

    /// Each connection with its watches of both tables, counted as [`Self::count`] does.
    pub fn counts_by_watcher(&self) -> impl Iterator<Item = (WatcherId, usize)> {
        let entries = self.watchers.iter();
        entries.map(|(_, entry)| {
            let watches = entry.data_watches as usize + entry.child_watches as usize;
            (entry.id, watches)
        })
    }

    /// Each connection with the paths it watches in the data table (`wchc`); null is `None`.
    pub fn by_watcher(
        &self,
    ) -> impl Iterator<Item = (WatcherId, impl Iterator<Item = Option<&str>>)> {
        let with_data = self
            .watchers
            .iter()
            .filter(|(_, entry)| entry.data_watches > 0);
        with_data.map(|(slot, entry)| {
            let watches = self.of_watcher(slot);
            let paths = watches
                .filter(|(_, watch)| watch.kinds.meets(Kinds::DATA_TABLE))
                .map(|(_, watch)| self.paths[watch.path as usize].path.as_deref());
            (entry.id, paths)
        })
    }

    /// Each path with the connections that watch it in the data table (`wchp`).
    pub fn by_path(&self) -> impl Iterator<Item = (Option<&str>, impl Iterator<Item = WatcherId>)> {
        let with_data = self
            .paths
            .iter()
            .filter(|(_, entry)| entry.data_watches > 0);
        with_data.map(|(slot, entry)| {
            let watches = self.of_path(slot);
            let watchers = watches
                .filter(|(_, watch)| watch.kinds.meets(Kinds::DATA_TABLE))
                .map(|(_, watch)| self.watchers[watch.watcher as usize].id);
            (entry.path.as_deref(), watchers)
        })
    }
}
