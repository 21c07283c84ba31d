//! Watches of a session, and their waiters.
//!
//! A server keeps watches per connection and drops them with the connection. The client must set
//! the watches again with setWatches, or with setWatches2 if some are persistent. Like the tables
//! of the server, the tables here follow replies and events: a standard watch is added with its
//! reply, and removed by the event that fires it.
//!
//! The tables contain only the watches of the application, so the application determines their
//! size. A dropped waiter ([`Watches::forget`]) leaves nothing in the tables or on the server.
//!
//! Source: ZooKeeper.WatchRegistration, ZKWatchManager.

use std::collections::BTreeMap;
use std::sync::Arc;

use jute::Str;
use proto::request::SetWatchesRequest;
use proto::watch::EventType;
use proto::{ErrorCode, Zxid};
use tokio::sync::oneshot;

use crate::error::{Error, Result};
use crate::limits::SET_WATCHES_BYTES_MAX;
use crate::state::WatchEvent;
use crate::watch::StreamQueue;

/// Effect of a successful reply on the watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchEffect {
    /// getData with a watch.
    Data,
    /// exists with a watch. The watch is also set when the znode is missing.
    Exists,
    /// getChildren, getChildren2 with a watch.
    Child,
    /// addWatch.
    Add(AddWatchMode),
    /// removeWatches.
    Remove(WatchKind),
}

/// Kind of a watch that addWatch sets. The watch stays until it is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum AddWatchMode {
    /// Reports changes of the znode and of its list of children.
    Persistent = 0,
    /// Reports creations, deletions and changes of the znode and its descendants.
    PersistentRecursive = 1,
}

/// Kinds of watches for checkWatches and removeWatches. Source: Watcher.WatcherType.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum WatchKind {
    /// Standard child watches.
    Children = 1,
    /// Standard data and exists watches.
    Data = 2,
    /// All watches.
    Any = 3,
    /// Persistent watches.
    Persistent = 4,
    /// Persistent recursive watches.
    PersistentRecursive = 5,
}

/// Watch that a request sets or removes. Its path is a server path.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) effect: WatchEffect,
    pub(crate) path: Str,
    /// Waiter for the watch. If absent, only the listeners of the session receive the event.
    pub(crate) waiter: Option<Waiter>,
}

/// Receiver of a watch's events.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// Id that is unique in the session.
    pub(crate) id: u64,
    pub(crate) sink: Sink,
}

/// Destination of a waiter's events.
#[derive(Debug)]
pub(crate) enum Sink {
    Once(oneshot::Sender<Result<WatchEvent>>),
    Stream(Arc<StreamQueue>),
}

impl Waiter {
    fn is_given_up(&self) -> bool {
        match &self.sink {
            Sink::Once(sender) => sender.is_closed(),
            Sink::Stream(queue) => queue.is_abandoned(),
        }
    }

    fn end(self, error: Error) {
        match self.sink {
            // Fails if the waiter was dropped.
            Sink::Once(sender) => drop(sender.send(Err(error))),
            Sink::Stream(queue) => queue.end(error),
        }
    }
}

/// Table of watches. Each table corresponds to one list of a [`SetWatchesRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum WatchTable {
    Data,
    Exist,
    Child,
    Persistent,
    Recursive,
}

impl WatchTable {
    const ALL: [Self; 5] = [
        Self::Data,
        Self::Exist,
        Self::Child,
        Self::Persistent,
        Self::Recursive,
    ];

    /// Returns the kind that removes this table's watches from a server.
    fn kind(self) -> WatchKind {
        match self {
            Self::Data | Self::Exist => WatchKind::Data,
            Self::Child => WatchKind::Children,
            Self::Persistent => WatchKind::Persistent,
            Self::Recursive => WatchKind::PersistentRecursive,
        }
    }

    fn is_meant_by(self, kind: WatchKind) -> bool {
        kind == WatchKind::Any || kind == self.kind()
    }

    fn list(self, request: &mut SetWatchesRequest) -> &mut List {
        match self {
            Self::Data => &mut request.data,
            Self::Exist => &mut request.exist,
            Self::Child => &mut request.child,
            Self::Persistent => &mut request.persistent,
            Self::Recursive => &mut request.persistent_recursive,
        }
    }

    /// Returns the table to which a successful reply adds the watch, or `None` for a removal.
    fn of(effect: WatchEffect) -> Option<Self> {
        match effect {
            WatchEffect::Data | WatchEffect::Exists => Some(Self::Data),
            WatchEffect::Child => Some(Self::Child),
            WatchEffect::Add(AddWatchMode::Persistent) => Some(Self::Persistent),
            WatchEffect::Add(AddWatchMode::PersistentRecursive) => Some(Self::Recursive),
            WatchEffect::Remove(_) => None,
        }
    }
}

impl WatchEffect {
    /// Returns the kind of watch that a request with this effect may set, or `None` for a removal.
    pub(crate) fn sets(self) -> Option<WatchKind> {
        WatchTable::of(self).map(WatchTable::kind)
    }
}

/// Receivers of one watch.
#[derive(Debug, Default)]
struct Interest {
    /// Whether a call without a handle set the watch, so that the session's listeners need it.
    is_for_listeners: bool,
    waiters: Vec<Waiter>,
}

/// Watch on the server that no longer has receivers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnwantedWatch {
    pub(crate) path: Str,
    pub(crate) kind: WatchKind,
}

/// Watches of one session.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    interests: BTreeMap<(WatchTable, Str), Interest>,
    /// Table and path of each waiter.
    places: BTreeMap<u64, (WatchTable, Str)>,
}

impl Watches {
    /// Records the effect of a reply with error code `err`. Returns the watch to remove from the
    /// server if its waiter was dropped before the reply.
    pub(crate) fn handle_reply(
        &mut self,
        registration: Registration,
        err: i32,
    ) -> Option<UnwantedWatch> {
        let Registration {
            effect,
            path,
            waiter,
        } = registration;
        let missing = err == ErrorCode::NoNode.code();
        let table = match effect {
            WatchEffect::Exists if missing => WatchTable::Exist,
            _ if err != 0 => return None,
            WatchEffect::Remove(kind) => {
                self.remove(kind, &path);
                return None;
            }
            other => WatchTable::of(other)?,
        };
        let interest = self.interests.entry((table, path.clone())).or_default();
        match waiter {
            None => interest.is_for_listeners = true,
            Some(waiter) if waiter.is_given_up() => return self.drop_if_unwanted(table, path),
            Some(waiter) => {
                self.places.insert(waiter.id, (table, path));
                interest.waiters.push(waiter);
            }
        }
        None
    }

    /// Removes a dropped waiter. Returns the watch to remove from the server, unless it still has
    /// receivers.
    pub(crate) fn forget(&mut self, id: u64) -> Option<UnwantedWatch> {
        let (table, path) = self.places.remove(&id)?;
        let interest = self.interests.get_mut(&(table, path.clone()))?;
        interest.waiters.retain(|waiter| waiter.id != id);
        self.drop_if_unwanted(table, path)
    }

    fn drop_if_unwanted(&mut self, table: WatchTable, path: Str) -> Option<UnwantedWatch> {
        let key = (table, path);
        let interest = self.interests.get(&key)?;
        if interest.is_for_listeners || !interest.waiters.is_empty() {
            return None;
        }
        self.interests.remove(&key);
        let (_, path) = key;
        let kind = table.kind();
        // The server keeps data and exists watches in one table.
        let mut same_kind = WatchTable::ALL
            .into_iter()
            .filter(|other| other.kind() == kind);
        let still = same_kind.any(|other| self.interests.contains_key(&(other, path.clone())));
        (!still).then_some(UnwantedWatch { path, kind })
    }

    /// Passes an event to its waiters, and removes the standard watches that it fires.
    pub(crate) fn handle_event(&mut self, event: &WatchEvent) {
        let (kind, path) = (event.kind, &event.path);
        let is_children = kind == EventType::NodeChildrenChanged;
        if !is_children {
            self.fire(WatchTable::Data, event);
            self.fire(WatchTable::Exist, event);
        }
        if is_children || kind == EventType::NodeDeleted {
            self.fire(WatchTable::Child, event);
        }
        self.notify(WatchTable::Persistent, path, event);
        if !is_children {
            let mut above = Some(&**path);
            while let Some(path) = above {
                self.notify(WatchTable::Recursive, &path.into(), event);
                above = parent(path);
            }
        }
    }

    fn fire(&mut self, table: WatchTable, event: &WatchEvent) {
        let Some(interest) = self.interests.remove(&(table, event.path.clone())) else {
            return;
        };
        for waiter in interest.waiters {
            self.places.remove(&waiter.id);
            if let Sink::Once(sender) = waiter.sink {
                let _ = sender.send(Ok(event.clone()));
            }
        }
    }

    fn notify(&self, table: WatchTable, path: &Str, event: &WatchEvent) {
        let interest = self.interests.get(&(table, path.clone()));
        for waiter in interest.iter().flat_map(|interest| &interest.waiters) {
            if let Sink::Stream(queue) = &waiter.sink {
                queue.push(event);
            }
        }
    }

    /// Marks persistent watches as incomplete after a reconnect. They miss the events that occur
    /// without a connection, because setWatches2 does not report such events.
    pub(crate) fn handle_reconnect(&self) {
        let interests = self.interests.values();
        for waiter in interests.flat_map(|interest| &interest.waiters) {
            if let Sink::Stream(queue) = &waiter.sink {
                queue.miss();
            }
        }
    }

    /// Ends all watches, because the session has ended.
    pub(crate) fn end(&mut self, error: &Error) {
        self.places.clear();
        for (_, interest) in std::mem::take(&mut self.interests) {
            for waiter in interest.waiters {
                waiter.end(error.clone());
            }
        }
    }

    fn remove(&mut self, kind: WatchKind, path: &Str) {
        for table in WatchTable::ALL
            .into_iter()
            .filter(|table| table.is_meant_by(kind))
        {
            let removed = self.interests.remove(&(table, path.clone()));
            for waiter in removed.into_iter().flat_map(|interest| interest.waiters) {
                self.places.remove(&waiter.id);
                waiter.end(Error::WatchRemoved { path: path.clone() });
            }
        }
    }

    /// Returns the requests that set all watches again, each with a bounded number of path bytes.
    pub(crate) fn set_again(&self, relative_zxid: Zxid) -> Vec<SetWatchesRequest> {
        let mut batches = Batches::new(relative_zxid);
        for (table, path) in self.interests.keys() {
            batches.push(path, *table);
        }
        batches.done
    }
}

fn parent(path: &str) -> Option<&str> {
    match path.rsplit_once('/')? {
        ("", "") => None,
        ("", _) => Some("/"),
        (parent, _) => Some(parent),
    }
}

type List = Option<Vec<Option<Str>>>;

struct Batches {
    relative_zxid: Zxid,
    done: Vec<SetWatchesRequest>,
    /// Number of path bytes in the last batch.
    bytes: usize,
}

impl Batches {
    fn new(relative_zxid: Zxid) -> Self {
        Self {
            relative_zxid,
            done: Vec::new(),
            // The first path starts the first batch.
            bytes: SET_WATCHES_BYTES_MAX,
        }
    }

    fn push(&mut self, path: &Str, table: WatchTable) {
        if self.bytes.saturating_add(path.len()) >= SET_WATCHES_BYTES_MAX {
            self.bytes = 0;
            self.done.push(SetWatchesRequest {
                relative_zxid: self.relative_zxid.0,
                data: Some(Vec::new()),
                exist: Some(Vec::new()),
                child: Some(Vec::new()),
                persistent: Some(Vec::new()),
                persistent_recursive: Some(Vec::new()),
            });
        }
        self.bytes += path.len();
        if let Some(request) = self.done.last_mut() {
            table
                .list(request)
                .get_or_insert_default()
                .push(Some(path.clone()));
        }
    }
}

#[cfg(test)]
mod tests;
