//! Copy of a subtree, with the changes that each reader of events has not yet received.
//!
//! For each reader, a changed path is stored once, with the znode that the reader knows. A slow
//! reader therefore skips intermediate states, and needs memory only for the znodes that it knows
//! and the current znodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::events::CacheEvent;
use super::node::{Node, Nodes};

/// Contents of a subtree that has been read.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) nodes: Nodes,
    /// Znodes that the client may not read.
    pub(super) hidden: BTreeSet<String>,
}

/// Copy of a subtree.
#[derive(Debug, Default)]
pub(super) struct CachedTree {
    nodes: Nodes,
    hidden: BTreeSet<String>,
    /// Whether the copy may be out of date, because the connection was lost.
    is_lost: bool,
    readers: BTreeMap<u64, Unread>,
    last_reader: u64,
}

/// Events that a reader has not yet received.
#[derive(Debug, Default)]
struct Unread {
    /// Number of each changed path in `order`, and the znode that the reader knows, if any.
    changed: BTreeMap<Arc<str>, (u64, Option<Node>)>,
    /// Changed paths in the order of their first change.
    order: BTreeMap<u64, Arc<str>>,
    last: u64,
    /// Whether a loss of the connection must still be reported to the reader.
    was_lost: bool,
    /// Whether the reader knows of the loss but not of its end.
    knows_loss: bool,
}

impl CachedTree {
    pub(super) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    pub(super) fn hidden(&self) -> &BTreeSet<String> {
        &self.hidden
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Returns whether an ancestor of the znode is hidden.
    pub(super) fn is_below_hidden(&self, path: &str) -> bool {
        let slashes = path.match_indices('/').skip(1);
        let mut ancestors = slashes.filter_map(|(end, _)| path.get(..end));
        ancestors.any(|ancestor| self.hidden.contains(ancestor))
    }

    /// Applies a znode that was read, unless the copy contains a later state. Returns whether the
    /// copy has changed.
    pub(super) fn put(&mut self, path: &str, node: Node) -> bool {
        match self.nodes.get(path) {
            Some(known) if known.stat.mzxid > node.stat.mzxid => false,
            _ => self.set(path, Some(node)),
        }
    }

    /// Removes a znode and its descendants. Returns whether the copy has changed.
    pub(super) fn remove(&mut self, path: &str) -> bool {
        self.replace(path, Found::default())
    }

    /// Replaces a znode and its descendants. Returns whether the copy has changed.
    pub(super) fn replace(&mut self, root: &str, found: Found) -> bool {
        let Found { nodes, hidden } = found;
        let below = format!("{root}/");
        let known = self.nodes.range(below.clone()..);
        let known = known.map_while(|(path, _)| path.starts_with(&below).then_some(path));
        let known = self
            .nodes
            .get_key_value(root)
            .map(|(path, _)| path)
            .into_iter()
            .chain(known);
        let gone: Vec<String> = known
            .filter(|path| !nodes.contains_key(*path))
            .cloned()
            .collect();
        let mut is_new = false;
        for path in gone {
            is_new |= self.set(&path, None);
        }
        for (path, node) in nodes {
            is_new |= self.set(&path, Some(node));
        }
        let is_within = |path: &str| path == root || path.starts_with(&below);
        let stays = |path: &&String| !is_within(path.as_str());
        let hidden = self
            .hidden
            .iter()
            .filter(stays)
            .cloned()
            .chain(hidden)
            .collect();
        is_new |= self.hidden != hidden;
        self.hidden = hidden;
        is_new
    }

    fn set(&mut self, path: &str, node: Option<Node>) -> bool {
        let before = match node {
            Some(node) => self.nodes.insert(path.to_owned(), node),
            None => self.nodes.remove(path),
        };
        let now = self.nodes.get(path);
        if before.as_ref() == now {
            return false;
        }
        for unread in self.readers.values_mut() {
            unread.note(path, before.as_ref(), now.is_some());
        }
        true
    }

    /// Records the loss of the connection. Returns whether this loss is new.
    pub(super) fn lose(&mut self) -> bool {
        for unread in self.readers.values_mut() {
            unread.was_lost |= !unread.knows_loss;
        }
        !std::mem::replace(&mut self.is_lost, true)
    }

    /// Records that the copy has been read again after a loss. Returns whether there was a loss.
    pub(super) fn restore(&mut self) -> bool {
        std::mem::take(&mut self.is_lost)
    }

    /// Adds a reader that does not know any znodes.
    pub(super) fn add_reader(&mut self) -> u64 {
        let mut unread = Unread::default();
        for path in self.nodes.keys() {
            unread.note(path, None, true);
        }
        self.last_reader += 1;
        self.readers.insert(self.last_reader, unread);
        self.last_reader
    }

    pub(super) fn remove_reader(&mut self, reader: u64) {
        self.readers.remove(&reader);
    }

    /// Returns the next event for a reader.
    pub(super) fn next_event(&mut self, reader: u64) -> Option<CacheEvent> {
        let unread = self.readers.get_mut(&reader)?;
        if !unread.knows_loss && (self.is_lost || unread.was_lost) {
            unread.was_lost = false;
            unread.knows_loss = true;
            return Some(CacheEvent::Lost);
        }
        while let Some((number, path, before)) = unread.pop() {
            let now = self.nodes.get(&*path).cloned();
            let (known, path) = (Arc::clone(&path), path.to_string());
            match (before, now) {
                (None, None) => {}
                (None, Some(node)) => return Some(CacheEvent::Added { path, node }),
                (Some(node), None) => return Some(CacheEvent::Removed { path, node }),
                (Some(before), Some(node)) if before.stat.czxid != node.stat.czxid => {
                    unread.insert(number, known, None);
                    return Some(CacheEvent::Removed { path, node: before });
                }
                // Only the ACL or the list of children has changed.
                (Some(before), Some(node)) if before.stat.mzxid == node.stat.mzxid => {}
                (Some(before), Some(node)) => {
                    return Some(CacheEvent::Changed { path, before, node });
                }
            }
        }
        let is_back = unread.knows_loss && !self.is_lost;
        unread.knows_loss &= !is_back;
        is_back.then_some(CacheEvent::Back)
    }
}

impl Unread {
    /// Records the change of a path. `before` is the znode before the change, and `is_there` shows
    /// whether the znode exists after it.
    fn note(&mut self, path: &str, before: Option<&Node>, is_there: bool) {
        match self.changed.get(path) {
            None => {
                self.last += 1;
                self.insert(self.last, path.into(), before.cloned());
            }
            // The reader has not received the znode, so its deletion need not be reported.
            Some((number, None)) if !is_there => {
                let number = *number;
                self.order.remove(&number);
                self.changed.remove(path);
            }
            Some(_) => {}
        }
    }

    fn insert(&mut self, number: u64, path: Arc<str>, known: Option<Node>) {
        self.order.insert(number, Arc::clone(&path));
        self.changed.insert(path, (number, known));
    }

    fn pop(&mut self) -> Option<(u64, Arc<str>, Option<Node>)> {
        let (number, path) = self.order.pop_first()?;
        let (_, known) = self.changed.remove(&path)?;
        Some((number, path, known))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proto::Stat;

    use super::*;

    fn node(czxid: i64, mzxid: i64) -> Node {
        let stat = Stat {
            czxid,
            mzxid,
            ..Stat::default()
        };
        let data = Bytes::from(mzxid.to_string());
        Node { data, stat }
    }

    fn found(nodes: &[(&str, Node)], hidden: &[&str]) -> Found {
        let nodes = nodes.iter();
        Found {
            nodes: nodes
                .map(|(path, node)| ((*path).to_owned(), node.clone()))
                .collect(),
            hidden: hidden.iter().map(|path| (*path).to_owned()).collect(),
        }
    }

    fn added(path: &str, node: Node) -> Option<CacheEvent> {
        let path = path.to_owned();
        Some(CacheEvent::Added { path, node })
    }

    fn removed(path: &str, node: Node) -> Option<CacheEvent> {
        let path = path.to_owned();
        Some(CacheEvent::Removed { path, node })
    }

    #[test]
    fn the_later_version_is_kept() {
        let mut tree = CachedTree::default();
        assert!(tree.put("/a", node(1, 5)));
        assert!(!tree.put("/a", node(1, 5)));
        assert!(!tree.put("/a", node(1, 4)));
        assert!(tree.put("/a", node(6, 6)), "created again");
        assert!(tree.remove("/a"));
        assert!(!tree.remove("/a"));
        assert!(tree.nodes().is_empty());
    }

    #[test]
    fn a_subtree_is_replaced_and_its_neighbours_stay() {
        let mut tree = CachedTree::default();
        let all = ["/a", "/a/b", "/a/b/c", "/a/b!", "/a/bc"].map(|path| (path, node(1, 1)));
        assert!(tree.replace("/a", found(&all, &["/a/b/h", "/a/h"])));
        assert!(tree.replace("/a/b", found(&[("/a/b", node(2, 2))], &[])));
        let paths: Vec<_> = tree.nodes().keys().map(String::as_str).collect();
        assert_eq!(paths, ["/a", "/a/b", "/a/b!", "/a/bc"]);
        assert!(tree.hidden().iter().eq(["/a/h"]));
        assert!(tree.is_below_hidden("/a/h/x") && !tree.is_below_hidden("/a/h"));
        assert!(!tree.replace("/a/b", found(&[("/a/b", node(2, 2))], &[])));
        assert!(tree.replace("/a/b", found(&[], &["/a/b"])), "hidden now");
        assert!(tree.remove("/a/b"), "not hidden any more");
    }

    #[test]
    fn a_reader_learns_every_znode_once_and_skips_what_it_never_saw() {
        let mut tree = CachedTree::default();
        tree.put("/b", node(1, 1));
        let reader = tree.add_reader();
        tree.put("/a", node(2, 2));
        tree.put("/a", node(2, 3));
        tree.put("/c", node(4, 4));
        tree.remove("/c");
        assert_eq!(tree.next_event(reader), added("/b", node(1, 1)));
        assert_eq!(tree.next_event(reader), added("/a", node(2, 3)));
        assert_eq!(tree.next_event(reader), None);
        tree.put("/a", node(2, 5));
        tree.remove("/b");
        tree.put("/b", node(7, 7));
        let changed = CacheEvent::Changed {
            path: "/a".to_owned(),
            before: node(2, 3),
            node: node(2, 5),
        };
        assert_eq!(tree.next_event(reader), Some(changed));
        assert_eq!(tree.next_event(reader), removed("/b", node(1, 1)));
        assert_eq!(tree.next_event(reader), added("/b", node(7, 7)));
        let mut list_changed = node(7, 7);
        list_changed.stat.pzxid = 8;
        assert!(tree.put("/b", list_changed.clone()));
        tree.remove("/b");
        assert_eq!(tree.next_event(reader), removed("/b", node(7, 7)));
        assert_eq!(tree.next_event(reader), None);
        tree.remove_reader(reader);
        tree.put("/c", node(9, 9));
        assert_eq!(tree.next_event(reader), None);
    }

    #[test]
    fn what_a_slow_reader_does_not_know_is_not_kept() {
        let mut tree = CachedTree::default();
        let reader = tree.add_reader();
        for zxid in 1..1000 {
            tree.put(&format!("/n{zxid}"), node(zxid, zxid));
            tree.remove(&format!("/n{zxid}"));
        }
        let unread = &tree.readers[&reader];
        assert!(unread.changed.is_empty() && unread.order.is_empty());
    }

    #[test]
    fn changes_of_a_loss_come_between_lost_and_back() {
        let mut tree = CachedTree::default();
        let reader = tree.add_reader();
        assert!(tree.lose());
        assert!(!tree.lose());
        assert_eq!(tree.next_event(reader), Some(CacheEvent::Lost));
        assert_eq!(tree.next_event(reader), None);
        tree.put("/a", node(1, 1));
        assert!(tree.restore());
        assert_eq!(tree.next_event(reader), added("/a", node(1, 1)));
        assert_eq!(tree.next_event(reader), Some(CacheEvent::Back));
        assert_eq!(tree.next_event(reader), None);
        // A loss is reported even if it ends before the reader requests an event.
        tree.lose();
        tree.restore();
        let late = tree.add_reader();
        assert_eq!(tree.next_event(reader), Some(CacheEvent::Lost));
        assert_eq!(tree.next_event(reader), Some(CacheEvent::Back));
        assert_eq!(tree.next_event(late), added("/a", node(1, 1)));
        assert_eq!(tree.next_event(late), None);
    }
}
