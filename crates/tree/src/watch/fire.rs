//! Firing of watches by changes.

use std::sync::Arc;

use jute::Str;
use proto::watch::EventType;
use proto::{Acl, Zxid};

use super::kinds::Kinds;
use super::store::{WatcherId, Watches};

/// Notification of the watchers in one table about one change. All watchers receive an identical
/// packet.
#[derive(Debug, Clone)]
pub struct Event {
    /// Type of the event.
    pub event_type: EventType,
    /// Path of the event.
    pub path: Str,
    /// Zxid of the transaction that caused the event.
    pub zxid: Zxid,
    /// ACL of the znode. Only watchers that it permits to read receive the event. `None` if the
    /// list is unknown.
    pub acl: Option<Arc<[Acl]>>,
    /// Connections to notify, each once. Their one-shot watches are removed.
    pub watchers: Vec<WatcherId>,
}

/// Kind of change of a znode.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ZnodeChange {
    Created,
    Deleted,
    DataChanged,
}

/// Watches that a transaction may fire, and the list to which their events are added.
pub(crate) struct Firing<'a> {
    pub(crate) watches: &'a mut Watches,
    pub(crate) events: &'a mut Vec<Event>,
    pub(crate) zxid: Zxid,
}

/// Path, and the ACL that decides which watchers receive its events.
pub(crate) struct Subject<'a> {
    path: &'a Str,
    acl: Option<&'a Arc<[Acl]>>,
}

impl Firing<'_> {
    /// Returns whether there are any watches.
    pub(crate) fn is_needed(&self) -> bool {
        !self.watches.is_empty()
    }

    /// Fires the watches for a change at `path`: the data table at the znode, for a deletion also
    /// the child table there, and the child table at `parent`, if any. Source: DataTree.createNode,
    /// deleteNode, setData.
    pub(crate) fn fire(
        &mut self,
        change: ZnodeChange,
        path: &Str,
        acl: Option<&Arc<[Acl]>>,
        parent: Option<(&Str, Option<&Arc<[Acl]>>)>,
    ) {
        let node = Subject { path, acl };
        let parent = parent.map(|(path, acl)| Subject { path, acl });
        match change {
            ZnodeChange::DataChanged => drop(self.data_table(EventType::NodeDataChanged, &node)),
            ZnodeChange::Created => drop(self.data_table(EventType::NodeCreated, &node)),
            ZnodeChange::Deleted => {
                let notified = self.data_table(EventType::NodeDeleted, &node);
                self.child_table(EventType::NodeDeleted, &node, notified);
            }
        }
        if let Some(parent) = parent {
            self.child_table(EventType::NodeChildrenChanged, &parent, None);
        }
    }

    /// Fires the data table. Returns the index of the event in `events`; `None` if there are no
    /// watchers.
    fn data_table(&mut self, event_type: EventType, subject: &Subject<'_>) -> Option<usize> {
        let watchers = self.watches.fire_data(subject.path);
        self.push(event_type, subject, watchers)
    }

    fn child_table(
        &mut self,
        event_type: EventType,
        subject: &Subject<'_>,
        told_by: Option<usize>,
    ) {
        let mut watchers = self.watches.fire_child(subject.path);
        if let Some(notified) = told_by.and_then(|event| self.events.get(event)) {
            let mut notified = notified.watchers.clone();
            notified.sort_unstable();
            watchers.retain(|watcher| notified.binary_search(watcher).is_err());
        }
        self.push(event_type, subject, watchers);
    }

    fn push(
        &mut self,
        event_type: EventType,
        subject: &Subject<'_>,
        watchers: Vec<WatcherId>,
    ) -> Option<usize> {
        if watchers.is_empty() {
            return None;
        }
        self.events.push(Event {
            event_type,
            path: subject.path.clone(),
            zxid: self.zxid,
            acl: subject.acl.cloned(),
            watchers,
        });
        Some(self.events.len() - 1)
    }
}

impl Watches {
    /// Returns the watchers of the path's data and the recursive watchers of its ancestors. Removes
    /// the one-shot watches on the path's data.
    fn fire_data(&mut self, path: &str) -> Vec<WatcherId> {
        let mut found = match self.path_slot(path) {
            Some(slot) => self.fire_path(slot, Kinds::DATA_TABLE, Kinds::DATA),
            None => Vec::new(),
        };
        if self.counts.recursive == 0 {
            return found;
        }
        let exact = found.len();
        for slot in self.ancestor_slots(path) {
            let recursive = self
                .of_path(slot as usize)
                .filter(|(_, w)| w.kinds.meets(Kinds::RECURSIVE));
            found.extend(recursive.map(|(_, watch)| self.watchers[watch.watcher as usize].id));
        }
        if found.len() > exact {
            found.sort_unstable();
            found.dedup();
        }
        found
    }

    fn fire_child(&mut self, path: &str) -> Vec<WatcherId> {
        match self.path_slot(path) {
            Some(slot) => self.fire_path(slot, Kinds::CHILD_TABLE, Kinds::CHILD),
            None => Vec::new(),
        }
    }

    fn fire_path(&mut self, path_slot: u32, table: Kinds, one_shot: Kinds) -> Vec<WatcherId> {
        let mut found = Vec::new();
        let mut spent = Vec::new();
        for (slot, watch) in self.of_path(path_slot as usize) {
            if watch.kinds.meets(table) {
                found.push(self.watchers[watch.watcher as usize].id);
            }
            if watch.kinds.meets(one_shot) {
                spent.push(slot);
            }
        }
        for slot in spent {
            self.take_kinds(slot, one_shot);
        }
        found
    }
}
