//! setWatches and setWatches2: watches of a previous connection are set again or reported as
//! missed.
//!
//! Source: DataTree.setWatches.

use jute::Str;
use parking_lot::Mutex;
use proto::ErrorCode;
use proto::request::SetWatchesRequest;
use proto::watch::EventType;

use super::required;
use crate::Tree;
use crate::node::Node;
use crate::watch::{Kinds, WatcherId, Watches};

impl Tree {
    /// Sets the watches whose paths did not change since the client saw them, and appends the
    /// events that the others missed to `missed`. The host sends these before the reply,
    /// unfiltered, with zxid -1.
    ///
    /// # Errors
    /// MarshallingError at the first null list, or the first null path in the first three lists.
    /// Preceding watches have taken effect, including their events.
    pub fn set_watches(
        &self,
        request: &SetWatchesRequest,
        watcher: WatcherId,
        watches: &Mutex<Watches>,
        missed: &mut Vec<(EventType, Str)>,
    ) -> Result<(), ErrorCode> {
        let watches = &mut *watches.lock();
        let since = request.relative_zxid;
        for path in list(&request.data)? {
            let event = |node: &Node| (node.mzxid > since).then_some(EventType::NodeDataChanged);
            let missing = Some(EventType::NodeDeleted);
            self.set_watch(
                path,
                Kinds::DATA,
                event,
                missing,
                (watcher, watches),
                missed,
            )?;
        }
        for path in list(&request.exist)? {
            let event = |_: &Node| Some(EventType::NodeCreated);
            self.set_watch(path, Kinds::DATA, event, None, (watcher, watches), missed)?;
        }
        for path in list(&request.child)? {
            let event =
                |node: &Node| (node.pzxid > since).then_some(EventType::NodeChildrenChanged);
            let missing = Some(EventType::NodeDeleted);
            self.set_watch(
                path,
                Kinds::CHILD,
                event,
                missing,
                (watcher, watches),
                missed,
            )?;
        }
        for path in list(&request.persistent)? {
            watches.add(watcher, path.as_deref(), Kinds::PERSISTENT);
        }
        for path in list(&request.persistent_recursive)? {
            watches.add(watcher, path.as_deref(), Kinds::RECURSIVE);
        }
        Ok(())
    }

    fn set_watch(
        &self,
        path: &Option<Str>,
        kinds: Kinds,
        event_of: impl FnOnce(&Node) -> Option<EventType>,
        event_if_missing: Option<EventType>,
        (watcher, watches): (WatcherId, &mut Watches),
        missed: &mut Vec<(EventType, Str)>,
    ) -> Result<(), ErrorCode> {
        let path = required(path.as_ref())?;
        let event = match self.lookup(path) {
            Some(id) => event_of(&self.arena[id]),
            None => event_if_missing,
        };
        match event {
            Some(event) => missed.push((event, path.clone())),
            None => watches.add(watcher, Some(path), kinds),
        }
        Ok(())
    }
}

fn list(list: &Option<Vec<Option<Str>>>) -> Result<&[Option<Str>], ErrorCode> {
    list.as_deref().ok_or(ErrorCode::MarshallingError)
}
