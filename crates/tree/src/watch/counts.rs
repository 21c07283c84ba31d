//! Counts of watches.

use jute::Str;
use proto::request::{PathWatchRequest, ReadRequest};

use super::kinds::Kinds;
use super::store::{PathEntry, WatcherEntry, WatcherId, Watches};

/// Counts that are updated at each change of a watch.
#[derive(Debug, Default)]
pub(super) struct Counts {
    data_watches: usize,
    child_watches: usize,
    data_paths: usize,
    data_watchers: usize,
    pub(super) recursive: usize,
}

/// Counts for `wchs`, which cover only the data table, as in Java.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchSummary {
    /// Number of connections that have a watch.
    pub watchers: usize,
    /// Number of paths that have a watch.
    pub paths: usize,
    /// Number of watches.
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

#[expect(clippy::ref_option, reason = "`flat_map` passes references to fields")]
fn paths(list: &Option<Vec<Option<Str>>>) -> impl Iterator<Item = Option<&str>> {
    list.iter().flatten().map(Option::as_deref)
}

impl Watches {
    /// Returns the number of watches in both tables, as in `zk_watch_count`. Several modes in one
    /// table count once.
    pub fn count(&self) -> usize {
        self.counts.data_watches + self.counts.child_watches
    }

    /// Returns the counts for `wchs`.
    pub fn summary(&self) -> WatchSummary {
        WatchSummary {
            watchers: self.counts.data_watchers,
            paths: self.counts.data_paths,
            watches: self.counts.data_watches,
        }
    }

    /// Returns each connection with the number of its watches, counted like [`Self::count`].
    pub fn counts_by_watcher(&self) -> impl Iterator<Item = (WatcherId, usize)> {
        let entries = self.watchers.iter();
        entries.map(|(_, entry)| {
            let watches = entry.data_watches as usize + entry.child_watches as usize;
            (entry.id, watches)
        })
    }

    /// Returns the number of watches of a connection in both tables.
    pub fn count_of(&self, watcher: WatcherId) -> usize {
        let entry = self.watcher_slots.get(&watcher);
        entry.map_or(0, |slot| {
            let entry = &self.watchers[*slot as usize];
            entry.data_watches as usize + entry.child_watches as usize
        })
    }

    /// Returns the total length of the paths that a connection watches, bytes.
    pub fn path_bytes_of(&self, watcher: WatcherId) -> usize {
        let entry = self.watcher_slots.get(&watcher);
        entry.map_or(0, |slot| self.watchers[*slot as usize].path_bytes)
    }

    /// Returns the maximum number of bytes by which a read increases the result of
    /// [`Self::path_bytes_of`].
    pub fn path_bytes_added_by(&self, watcher: WatcherId, request: &ReadRequest) -> usize {
        if !Self::may_grow_by(request) {
            return 0;
        }
        let missing = |path: Option<&str>| match path {
            Some(path) if !self.has(watcher, Some(path), Kinds::ANY) => path.len(),
            _ => 0,
        };
        match request {
            ReadRequest::Exists(request)
            | ReadRequest::GetData(request)
            | ReadRequest::GetChildren(request)
            | ReadRequest::GetChildren2(request) => missing(request.path.as_deref()),
            ReadRequest::AddWatch(request) => missing(request.path.as_deref()),
            ReadRequest::SetWatches(request) => {
                let lists = [
                    &request.data,
                    &request.exist,
                    &request.child,
                    &request.persistent,
                    &request.persistent_recursive,
                ];
                lists.into_iter().flat_map(paths).map(missing).sum()
            }
            _ => 0,
        }
    }

    /// Returns whether a read can set watches.
    pub fn may_grow_by(request: &ReadRequest) -> bool {
        match request {
            ReadRequest::Exists(PathWatchRequest { watch, .. })
            | ReadRequest::GetData(PathWatchRequest { watch, .. })
            | ReadRequest::GetChildren(PathWatchRequest { watch, .. })
            | ReadRequest::GetChildren2(PathWatchRequest { watch, .. }) => *watch,
            ReadRequest::AddWatch(_) | ReadRequest::SetWatches(_) => true,
            _ => false,
        }
    }

    /// Returns the maximum number of watches that a read adds to a connection, counted like
    /// [`Self::count`].
    pub fn added_by(&self, watcher: WatcherId, request: &ReadRequest) -> usize {
        if !Self::may_grow_by(request) {
            return 0;
        }
        let missing = |path: Option<&str>, table| usize::from(!self.has(watcher, path, table));
        let data = |path: Option<&str>| missing(path, Kinds::DATA_TABLE);
        let child = |path: Option<&str>| missing(path, Kinds::CHILD_TABLE);
        match request {
            ReadRequest::Exists(request) | ReadRequest::GetData(request) => {
                data(request.path.as_deref())
            }
            ReadRequest::GetChildren(request) | ReadRequest::GetChildren2(request) => {
                child(request.path.as_deref())
            }
            ReadRequest::AddWatch(request) => match request.mode {
                0 => data(request.path.as_deref()) + child(request.path.as_deref()),
                1 => data(request.path.as_deref()),
                _ => 0,
            },
            ReadRequest::SetWatches(request) => {
                let in_data = [
                    &request.data,
                    &request.exist,
                    &request.persistent,
                    &request.persistent_recursive,
                ];
                let in_child = [&request.child, &request.persistent];
                let in_data = in_data.into_iter().flat_map(paths).map(data);
                let in_child = in_child.into_iter().flat_map(paths).map(child);
                in_data.chain(in_child).sum()
            }
            _ => 0,
        }
    }
}
