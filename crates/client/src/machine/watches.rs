//! Which watches a session has and who waits for them.
//!
//! A server keeps watches per connection and drops them with it; what a client wants kept it
//! must send again with setWatches2. The tables follow the replies and events that the client
//! sees, as the server's tables do: a standard watch is there once its reply came, and gone with
//! the event that fires it.
//!
//! The tables hold what the application asked to watch, no more: their size is its own choice. A
//! waiter that is given up ([`Watches::forget`]) leaves nothing behind, here or on the server.
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

/// What a successful reply changes about the watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchEffect {
    /// getData with a watch.
    Data,
    /// exists with a watch: also set when the znode is missing.
    Exists,
    /// getChildren, getChildren2 with a watch.
    Child,
    /// addWatch.
    Add(AddWatchMode),
    /// removeWatches.
    Remove(WatchKind),
}

/// How a watch set by addWatch behaves; it stays until it is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum AddWatchMode {
    /// Changes of the znode and of its list of children.
    Persistent = 0,
    /// Creations, deletions and changes of the znode and all below it.
    PersistentRecursive = 1,
}

/// Which watches checkWatches and removeWatches mean. Source: Watcher.WatcherType.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum WatchKind {
    /// Standard child watches.
    Children = 1,
    /// Standard data and exists watches.
    Data = 2,
    /// All of them.
    Any = 3,
    /// Persistent watches.
    Persistent = 4,
    /// Persistent recursive watches.
    PersistentRecursive = 5,
}

/// A watch that a request is to set, on a path as the server knows it.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) effect: WatchEffect,
    pub(crate) path: Str,
    /// Who waits for it; `None` if it is told to the session's listeners only.
    pub(crate) waiter: Option<Waiter>,
}

/// Somebody who waits for a watch.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// Unique in its session.
    pub(crate) id: u64,
    pub(crate) sink: Sink,
}

/// Where a waiter gets its events.
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
            // Whoever does not listen any more does not care.
            Sink::Once(sender) => drop(sender.send(Err(error))),
            Sink::Stream(queue) => queue.end(error),
        }
    }
}

/// The tables of a server, by the kind of watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Table {
    Data,
    Exist,
    Child,
    Persistent,
    Recursive,
}

impl Table {
    const ALL: [Self; 5] = [
        Self::Data,
        Self::Exist,
        Self::Child,
        Self::Persistent,
        Self::Recursive,
    ];

    /// What removes its watches from a server.
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

    /// Where a successful reply to a request of this effect puts its watch; `None` for a removal.
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
    /// Which watches of a server a request of this effect may set; `None` for a removal.
    pub(crate) fn sets(self) -> Option<WatchKind> {
        Table::of(self).map(Table::kind)
    }
}

/// Who is interested in one watch.
#[derive(Debug, Default)]
struct Interest {
    /// It was asked for by a call that gives no handle: the session's listeners want it.
    is_for_listeners: bool,
    waiters: Vec<Waiter>,
}

/// Watches on the server that nobody wants any more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unwanted {
    pub(crate) path: Str,
    pub(crate) kind: WatchKind,
}

/// The watches of one session.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    interests: BTreeMap<(Table, Str), Interest>,
    /// Where each waiter is.
    places: BTreeMap<u64, (Table, Str)>,
}

impl Watches {
    /// Notes what a reply with `err` did, and says what is to be taken off the server because its
    /// waiter left meanwhile.
    pub(crate) fn handle_reply(&mut self, asked: Registration, err: i32) -> Option<Unwanted> {
        let Registration {
            effect,
            path,
            waiter,
        } = asked;
        let missing = err == ErrorCode::NoNode.code();
        let table = match effect {
            WatchEffect::Exists if missing => Table::Exist,
            _ if err != 0 => return None,
            WatchEffect::Remove(kind) => {
                self.remove(kind, &path);
                return None;
            }
            other => Table::of(other)?,
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

    /// A waiter left: says what is to be taken off the server, if that was the last one.
    pub(crate) fn forget(&mut self, id: u64) -> Option<Unwanted> {
        let (table, path) = self.places.remove(&id)?;
        let interest = self.interests.get_mut(&(table, path.clone()))?;
        interest.waiters.retain(|waiter| waiter.id != id);
        self.drop_if_unwanted(table, path)
    }

    fn drop_if_unwanted(&mut self, table: Table, path: Str) -> Option<Unwanted> {
        let key = (table, path);
        let interest = self.interests.get(&key)?;
        if interest.is_for_listeners || !interest.waiters.is_empty() {
            return None;
        }
        self.interests.remove(&key);
        let (_, path) = key;
        let kind = table.kind();
        // Data and exists watches are one table on the server.
        let mut same_kind = Table::ALL.into_iter().filter(|other| other.kind() == kind);
        let still = same_kind.any(|other| self.interests.contains_key(&(other, path.clone())));
        (!still).then_some(Unwanted { path, kind })
    }

    /// Gives an event to those who wait for it; what fires once is gone then.
    pub(crate) fn handle_event(&mut self, event: &WatchEvent) {
        let (kind, path) = (event.kind, &event.path);
        let is_children = kind == EventType::NodeChildrenChanged;
        if !is_children {
            self.fire(Table::Data, event);
            self.fire(Table::Exist, event);
        }
        if is_children || kind == EventType::NodeDeleted {
            self.fire(Table::Child, event);
        }
        self.tell(Table::Persistent, path, event);
        if !is_children {
            let mut above = Some(&**path);
            while let Some(path) = above {
                self.tell(Table::Recursive, &path.into(), event);
                above = parent(path);
            }
        }
    }

    fn fire(&mut self, table: Table, event: &WatchEvent) {
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

    fn tell(&self, table: Table, path: &Str, event: &WatchEvent) {
        let interest = self.interests.get(&(table, path.clone()));
        for waiter in interest.iter().flat_map(|interest| &interest.waiters) {
            if let Sink::Stream(queue) = &waiter.sink {
                queue.push(event);
            }
        }
    }

    /// Persistent watches miss what happens while there is no connection: setWatches2 brings
    /// nothing for them.
    pub(crate) fn handle_reconnect(&self) {
        let interests = self.interests.values();
        for waiter in interests.flat_map(|interest| &interest.waiters) {
            if let Sink::Stream(queue) = &waiter.sink {
                queue.miss();
            }
        }
    }

    /// The session is over: nobody hears of anything any more.
    pub(crate) fn end(&mut self, error: &Error) {
        self.places.clear();
        for (_, interest) in std::mem::take(&mut self.interests) {
            for waiter in interest.waiters {
                waiter.end(error.clone());
            }
        }
    }

    fn remove(&mut self, kind: WatchKind, path: &Str) {
        for table in Table::ALL
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

    /// The requests that set all of them again, each with a bounded amount of paths.
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
    /// Path bytes of the last one.
    bytes: usize,
}

impl Batches {
    fn new(relative_zxid: Zxid) -> Self {
        Self {
            relative_zxid,
            done: Vec::new(),
            // The first path opens the first batch.
            bytes: SET_WATCHES_BYTES_MAX,
        }
    }

    fn push(&mut self, path: &Str, table: Table) {
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
