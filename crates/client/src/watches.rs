//! Which watches a session has, so that they can be set again on its next connection.
//!
//! A server keeps watches per connection and drops them with it; what a client wants kept it
//! must send again with setWatches2. The list follows the replies and events that the client
//! sees, as the server's tables do: a standard watch is there once its reply came, and gone with
//! the event that fires it.
//!
//! The lists hold what the application asked to watch, no more: their size is its own choice.
//!
//! Source: ZooKeeper.WatchRegistration, ZKWatchManager.

use std::collections::BTreeSet;

use jute::Str;
use proto::request::SetWatchesRequest;
use proto::watch::EventType;
use proto::{ErrorCode, Zxid};

use crate::limits::SET_WATCHES_BYTES_MAX;

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

/// The watches of one session.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    data: BTreeSet<Str>,
    exist: BTreeSet<Str>,
    child: BTreeSet<Str>,
    persistent: BTreeSet<Str>,
    persistent_recursive: BTreeSet<Str>,
}

impl Watches {
    /// Notes what a reply with `err` did.
    pub(crate) fn handle_reply(&mut self, effect: WatchEffect, path: &Str, err: i32) {
        let missing = err == ErrorCode::NoNode.code();
        let set = match effect {
            WatchEffect::Exists if missing => &mut self.exist,
            _ if err != 0 => return,
            WatchEffect::Data | WatchEffect::Exists => &mut self.data,
            WatchEffect::Child => &mut self.child,
            WatchEffect::Add(AddWatchMode::Persistent) => &mut self.persistent,
            WatchEffect::Add(AddWatchMode::PersistentRecursive) => &mut self.persistent_recursive,
            WatchEffect::Remove(kind) => return self.remove(kind, path),
        };
        set.insert(path.clone());
    }

    /// Notes that an event fired the standard watches of `path`.
    pub(crate) fn handle_event(&mut self, kind: EventType, path: &Str) {
        if kind != EventType::NodeChildrenChanged {
            self.data.remove(path);
            self.exist.remove(path);
        }
        if matches!(
            kind,
            EventType::NodeChildrenChanged | EventType::NodeDeleted
        ) {
            self.child.remove(path);
        }
    }

    fn remove(&mut self, kind: WatchKind, path: &Str) {
        let is = |other| kind == other || kind == WatchKind::Any;
        if is(WatchKind::Children) {
            self.child.remove(path);
        }
        if is(WatchKind::Data) {
            self.data.remove(path);
            self.exist.remove(path);
        }
        if is(WatchKind::Persistent) {
            self.persistent.remove(path);
        }
        if is(WatchKind::PersistentRecursive) {
            self.persistent_recursive.remove(path);
        }
    }

    /// The requests that set all of them again, each with a bounded amount of paths.
    pub(crate) fn set_again(&self, relative_zxid: Zxid) -> Vec<SetWatchesRequest> {
        let mut batches = Batches::new(relative_zxid);
        let lists: [(&BTreeSet<Str>, ListOf); 5] = [
            (&self.data, |request| &mut request.data),
            (&self.exist, |request| &mut request.exist),
            (&self.child, |request| &mut request.child),
            (&self.persistent, |request| &mut request.persistent),
            (&self.persistent_recursive, |request| {
                &mut request.persistent_recursive
            }),
        ];
        for (paths, list) in lists {
            for path in paths {
                batches.push(path, list);
            }
        }
        batches.done
    }
}

type List = Option<Vec<Option<Str>>>;
type ListOf = fn(&mut SetWatchesRequest) -> &mut List;

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

    fn push(&mut self, path: &Str, list: ListOf) {
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
            list(request)
                .get_or_insert_default()
                .push(Some(path.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: i32 = 0;

    fn paths(list: &List) -> Vec<&str> {
        let list = list.as_deref().unwrap_or_default();
        list.iter().flatten().map(|path| &**path).collect()
    }

    #[test]
    fn a_watch_counts_when_its_reply_says_so() {
        let mut watches = Watches::default();
        let no_node = ErrorCode::NoNode.code();
        watches.handle_reply(WatchEffect::Data, &"/a".into(), OK);
        watches.handle_reply(WatchEffect::Data, &"/missing".into(), no_node);
        watches.handle_reply(WatchEffect::Exists, &"/b".into(), OK);
        watches.handle_reply(WatchEffect::Exists, &"/later".into(), no_node);
        watches.handle_reply(
            WatchEffect::Exists,
            &"/secret".into(),
            ErrorCode::NoAuth.code(),
        );
        watches.handle_reply(WatchEffect::Child, &"/c".into(), OK);
        let add = |mode| WatchEffect::Add(mode);
        watches.handle_reply(add(AddWatchMode::Persistent), &"/p".into(), OK);
        watches.handle_reply(add(AddWatchMode::PersistentRecursive), &"/r".into(), OK);
        let [request] = &watches.set_again(Zxid(7))[..] else {
            panic!("few paths fit one request");
        };
        assert_eq!(request.relative_zxid, 7);
        assert_eq!(paths(&request.data), ["/a", "/b"]);
        assert_eq!(paths(&request.exist), ["/later"]);
        assert_eq!(paths(&request.child), ["/c"]);
        assert_eq!(paths(&request.persistent), ["/p"]);
        assert_eq!(paths(&request.persistent_recursive), ["/r"]);
    }

    #[test]
    fn an_event_uses_standard_watches_up_and_leaves_persistent_ones() {
        let path = Str::from("/a");
        let with_all = || {
            let mut watches = Watches::default();
            watches.handle_reply(WatchEffect::Data, &path, OK);
            watches.handle_reply(WatchEffect::Child, &path, OK);
            watches.handle_reply(WatchEffect::Add(AddWatchMode::Persistent), &path, OK);
            watches
        };
        for (kind, data, child) in [
            (EventType::NodeDataChanged, 0, 1),
            (EventType::NodeCreated, 0, 1),
            (EventType::NodeChildrenChanged, 1, 0),
            (EventType::NodeDeleted, 0, 0),
        ] {
            let mut watches = with_all();
            watches.handle_event(kind, &path);
            let counts = (
                watches.data.len(),
                watches.child.len(),
                watches.persistent.len(),
            );
            assert_eq!(counts, (data, child, 1), "{kind:?}");
        }
    }

    #[test]
    fn removing_takes_the_kind_it_names() {
        let path = Str::from("/a");
        let mut watches = Watches::default();
        watches.handle_reply(WatchEffect::Data, &path, OK);
        watches.handle_reply(WatchEffect::Child, &path, OK);
        watches.handle_reply(WatchEffect::Remove(WatchKind::Children), &path, OK);
        assert_eq!((watches.data.len(), watches.child.len()), (1, 0));
        watches.handle_reply(WatchEffect::Remove(WatchKind::Any), &path, OK);
        assert!(watches.set_again(Zxid(1)).is_empty());
    }

    #[test]
    fn many_paths_are_split_and_none_is_lost() {
        let mut watches = Watches::default();
        for number in 0..10_000 {
            let path = format!("/a/rather/long/path/to/watch/{number:010}");
            watches.handle_reply(WatchEffect::Data, &path.into(), OK);
        }
        let requests = watches.set_again(Zxid(1));
        let bytes =
            |request: &SetWatchesRequest| paths(&request.data).iter().map(|p| p.len()).sum();
        let sizes: Vec<usize> = requests.iter().map(bytes).collect();
        assert!(
            sizes.iter().all(|size| *size <= SET_WATCHES_BYTES_MAX),
            "{sizes:?}"
        );
        let count: usize = requests.iter().map(|r| paths(&r.data).len()).sum();
        assert_eq!(count, 10_000);
    }
}
