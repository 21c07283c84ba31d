//! The operations setWatches and setWatches2, which set the watches of a previous connection again
//! or report the events that they missed.
//!
//! Source: DataTree.setWatches.

use jute::Str;
use parking_lot::Mutex;
use proto::ErrorCode;
use proto::request::SetWatchesRequest;
use proto::watch::EventType;

use super::required;
use crate::Tree;
use crate::nodes::node::Node;
use crate::watch::{Kinds, WatcherId, Watches};

impl Tree {
    /// Sets the persistent watches, and the one-shot watches on paths that have not changed since
    /// the client saw them. Appends the events that the other watches missed to `missed`. The host
    /// sends these events before the reply, unfiltered, with zxid -1.
    ///
    /// # Errors
    /// MarshallingError at the first null list, or the first null path in the first three lists.
    /// The preceding watches remain set, and their events remain in `missed`.
    pub fn set_watches(
        &self,
        request: &SetWatchesRequest,
        watcher: WatcherId,
        watches: &Mutex<Watches>,
        missed: &mut Vec<(EventType, Str)>,
    ) -> Result<(), ErrorCode> {
        let watches = &mut *watches.lock();
        let since = request.relative_zxid;
        for path in list(request.data.as_deref())? {
            let path = required(path.as_ref())?;
            let event = |node: &Node| (node.mzxid > since).then_some(EventType::NodeDataChanged);
            let event = self.missed_event(path, event, Some(EventType::NodeDeleted));
            set_watch(path, Kinds::DATA, event, watcher, watches, missed);
        }
        for path in list(request.exist.as_deref())? {
            let path = required(path.as_ref())?;
            let event = self.missed_event(path, |_| Some(EventType::NodeCreated), None);
            set_watch(path, Kinds::DATA, event, watcher, watches, missed);
        }
        for path in list(request.child.as_deref())? {
            let path = required(path.as_ref())?;
            let event =
                |node: &Node| (node.pzxid > since).then_some(EventType::NodeChildrenChanged);
            let event = self.missed_event(path, event, Some(EventType::NodeDeleted));
            set_watch(path, Kinds::CHILD, event, watcher, watches, missed);
        }
        for path in list(request.persistent.as_deref())? {
            watches.add(watcher, path.as_deref(), Kinds::PERSISTENT);
        }
        for path in list(request.persistent_recursive.as_deref())? {
            watches.add(watcher, path.as_deref(), Kinds::RECURSIVE);
        }
        Ok(())
    }

    /// Returns the event that a watch on this path missed; `None` if it missed none.
    fn missed_event(
        &self,
        path: &str,
        event_of: impl FnOnce(&Node) -> Option<EventType>,
        event_if_missing: Option<EventType>,
    ) -> Option<EventType> {
        match self.lookup(path) {
            Some(id) => event_of(&self.arena[id]),
            None => event_if_missing,
        }
    }
}

/// Adds the event that a watch missed to `missed`. If it missed none, sets the watch.
fn set_watch(
    path: &Str,
    kinds: Kinds,
    event: Option<EventType>,
    watcher: WatcherId,
    watches: &mut Watches,
    missed: &mut Vec<(EventType, Str)>,
) {
    match event {
        Some(event) => missed.push((event, path.clone())),
        None => watches.add(watcher, Some(path), kinds),
    }
}

fn list(list: Option<&[Option<Str>]>) -> Result<&[Option<Str>], ErrorCode> {
    list.ok_or(ErrorCode::MarshallingError)
}
