//! Listings of watches in parts. A caller locks the table for one part at a time.

use std::ops::ControlFlow;

use super::kinds::Kinds;
use super::store::{WatcherId, Watches};

/// Position in a listing by path.
#[derive(Debug, Default)]
pub struct WatchedPaths {
    next_slot: usize,
}

/// Position in a listing by connection.
#[derive(Debug, Default)]
pub struct Watchers {
    next_slot: usize,
    /// Connection whose watches are being listed, with its slot.
    current: Option<(u32, WatcherId)>,
    /// Slots of this connection's paths that are not listed yet. The last one is listed next.
    paths: Vec<u32>,
}

impl Watches {
    /// Visits each path with the connections that watch it in the data table (`wchp`), until
    /// `visit` breaks. The null path is `None`. Returns whether the listing is complete. Watches
    /// that change between two calls may or may not be listed.
    pub fn visit_paths(
        &self,
        at: &mut WatchedPaths,
        mut visit: impl FnMut(Option<&str>, Vec<WatcherId>) -> ControlFlow<()>,
    ) -> bool {
        while at.next_slot < self.paths.capacity() {
            let slot = at.next_slot;
            at.next_slot += 1;
            let entry = self.paths.get(slot);
            let Some(entry) = entry.filter(|entry| entry.data_watches > 0) else {
                continue;
            };
            let watches = self.of_path(slot);
            let watchers = watches
                .filter(|(_, watch)| watch.kinds.meets(Kinds::DATA_TABLE))
                .map(|(_, watch)| self.watchers[watch.watcher as usize].id);
            if visit(entry.path.as_deref(), watchers.collect()).is_break() {
                return false;
            }
        }
        true
    }

    /// Visits each watch in the data table (`wchc`) until `visit` breaks, one connection after the
    /// other. The null path is `None`. Returns whether the listing is complete. Watches that change
    /// between two calls may or may not be listed.
    pub fn visit_watchers(
        &self,
        at: &mut Watchers,
        mut visit: impl FnMut(WatcherId, Option<&str>) -> ControlFlow<()>,
    ) -> bool {
        loop {
            while let Some((slot, watcher)) = at.current
                && let Some(path) = at.paths.pop()
            {
                // The slot may belong to another path by now.
                if let Some(path) = self.watched_in(path, slot, watcher)
                    && visit(watcher, path).is_break()
                {
                    return false;
                }
            }
            let mut slots = at.next_slot..self.watchers.capacity();
            let found = slots.find_map(|slot| {
                let entry = self.watchers.get(slot)?;
                (entry.data_watches > 0).then_some((slot, entry.id))
            });
            let Some((slot, id)) = found else {
                return true;
            };
            at.next_slot = slot + 1;
            let watches = self.of_watcher(slot);
            let paths = watches.filter(|(_, watch)| watch.kinds.meets(Kinds::DATA_TABLE));
            at.paths = paths.map(|(_, watch)| watch.path).collect();
            at.paths.reverse();
            at.current = u32::try_from(slot).ok().map(|slot| (slot, id));
        }
    }

    /// Returns the path in slot `path` if the connection in `slot` is still `watcher` and watches
    /// the path in the data table. The null path is `Some(None)`.
    fn watched_in(&self, path: u32, slot: u32, watcher: WatcherId) -> Option<Option<&str>> {
        let entry = self.watchers.get(slot as usize)?;
        let watch = self.find_pair(path, slot)?;
        let is_listed =
            entry.id == watcher && (self.watches[watch as usize].kinds).meets(Kinds::DATA_TABLE);
        is_listed.then(|| self.paths[path as usize].path.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATCHER: WatcherId = WatcherId(7);

    fn listed(watches: &Watches, at: &mut Watchers, count: usize) -> (Vec<String>, bool) {
        let mut paths = Vec::new();
        let is_complete = watches.visit_watchers(at, |_, path| {
            paths.push(path.unwrap_or("null").to_owned());
            if paths.len() == count {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        (paths, is_complete)
    }

    /// A path that is removed between two parts is not listed, even if another path is assigned its
    /// slot.
    #[test]
    fn each_part_lists_the_watches_at_its_time() {
        let mut watches = Watches::new();
        for path in ["/a", "/b", "/c"] {
            watches.add(WATCHER, Some(path), Kinds::DATA);
        }
        let mut at = Watchers::default();
        let (first, is_complete) = listed(&watches, &mut at, 1);
        assert!(first.len() == 1 && !is_complete);
        let other = if first[0] == "/b" { "/c" } else { "/b" };
        watches.remove(WATCHER, Some(other), Kinds::ANY);
        watches.add(WatcherId(8), Some("/other"), Kinds::DATA);
        let (mut all, is_complete) = listed(&watches, &mut at, usize::MAX);
        assert!(is_complete);
        all.extend(first);
        all.sort_unstable();
        let mut expected = vec!["/a", "/b", "/c", "/other"];
        expected.retain(|path| *path != other);
        assert_eq!(all, expected);
        // The connection ends between two parts, and another connection is assigned its slot.
        let mut at = Watchers::default();
        listed(&watches, &mut at, 1);
        watches.remove_watcher(WATCHER);
        watches.remove_watcher(WatcherId(8));
        watches.add(WatcherId(9), Some("/late"), Kinds::DATA);
        let (rest, is_complete) = listed(&watches, &mut at, usize::MAX);
        assert!(is_complete);
        assert!(rest.iter().all(|path| path == "/late"), "{rest:?}");
    }

    #[test]
    fn paths_are_listed_once_each_with_their_watchers() {
        let mut watches = Watches::new();
        for number in 0..20 {
            watches.add(
                WatcherId(number % 3),
                Some(&format!("/{}", number / 2)),
                Kinds::DATA,
            );
        }
        watches.add(WATCHER, Some("/0"), Kinds::CHILD);
        watches.add(WATCHER, None, Kinds::RECURSIVE);
        let (mut at, mut found) = (WatchedPaths::default(), Vec::new());
        while !watches.visit_paths(&mut at, |path, watchers| {
            found.push((path.map(str::to_owned), watchers.len()));
            ControlFlow::Break(())
        }) {}
        found.sort_unstable();
        assert_eq!(found[0], (None, 1));
        assert_eq!(found.len(), 11);
        assert!(found[1..].iter().all(|(_, watchers)| *watchers == 2));
    }
}
