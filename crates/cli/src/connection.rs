//! Session with an ensemble, and the events of its watches.

use std::collections::BTreeSet;

use client::{Client, State, WatchEvent, WatchKind};
use proto::watch::EventType;
use tokio::sync::broadcast::error::TryRecvError;
use tokio::sync::{broadcast, watch};

use crate::parse::path::Chroot;

/// Established connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) chroot: Chroot,
    events: broadcast::Receiver<WatchEvent>,
    state: watch::Receiver<State>,
    watches: BTreeSet<(Watch, String)>,
}

/// Kind of a watch. Source: ZKWatchManager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Watch {
    Child,
    Data,
    Persistent,
    PersistentRecursive,
}

impl Watch {
    /// Returns the name of the event for the removal of such a watch. Source:
    /// Watcher.Event.EventType.
    fn removed(self) -> &'static str {
        match self {
            Self::Child => "ChildWatchRemoved",
            Self::Data => "DataWatchRemoved",
            Self::Persistent | Self::PersistentRecursive => "PersistentWatchRemoved",
        }
    }

    fn matches_kind(self, kind: WatchKind) -> bool {
        match kind {
            WatchKind::Any => true,
            WatchKind::Children => self == Self::Child,
            WatchKind::Data => self == Self::Data,
            WatchKind::Persistent => self == Self::Persistent,
            WatchKind::PersistentRecursive => self == Self::PersistentRecursive,
        }
    }
}

impl Connection {
    pub(crate) fn new(client: Client, chroot: Chroot) -> Self {
        let mut state = client.state();
        state.mark_unchanged();
        Self {
            events: client.events(),
            state,
            client,
            chroot,
            watches: BTreeSet::new(),
        }
    }

    /// Records a watch on `path`.
    pub(crate) fn add_watch(&mut self, watch: Watch, path: &str) {
        self.watches.insert((watch, path.to_owned()));
    }

    /// Returns the watches of a kind on `path`.
    pub(crate) fn watches_on(&self, path: &str, kind: WatchKind) -> Vec<Watch> {
        let here = self.watches.iter().filter(|(_, watched)| watched == path);
        let kinds = here.map(|(watch, _)| *watch);
        kinds.filter(|watch| watch.matches_kind(kind)).collect()
    }

    /// Forgets a watch, and returns the text of the event for its removal.
    pub(crate) fn remove(&mut self, watch: Watch, path: &str) -> String {
        self.watches.remove(&(watch, path.to_owned()));
        block("SyncConnected", watch.removed(), Some(path), -1)
    }

    /// Returns the events since the last call, as blocks of text.
    pub(crate) fn take_events(&mut self) -> Vec<String> {
        let mut news = Vec::new();
        loop {
            match self.events.try_recv() {
                Ok(event) => news.push(self.event_text(&event)),
                Err(TryRecvError::Lagged(count)) => {
                    news.push(format!(
                        "\nwatch events arrived too fast; not shown: {count}"
                    ));
                }
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        if self.state.has_changed().unwrap_or(false) {
            let state = self.state.borrow_and_update();
            // Java's client does not detect the loss of a session by its own clock. It reports the
            // loss of the connection first, and the end of the session when a server reports it.
            if *state != State::Lost {
                news.push(block(state_name(&state), "None", None, -1));
            }
        }
        news
    }

    fn event_text(&mut self, event: &WatchEvent) -> String {
        let path = self.chroot.without_chroot(&event.path).to_owned();
        if event.kind != EventType::NodeChildrenChanged {
            self.watches.remove(&(Watch::Data, path.clone()));
        }
        if matches!(
            event.kind,
            EventType::NodeChildrenChanged | EventType::NodeDeleted
        ) {
            self.watches.remove(&(Watch::Child, path.clone()));
        }
        let kind = format!("{:?}", event.kind);
        block("SyncConnected", &kind, Some(&path), event.zxid.0)
    }

    /// Returns the state as it appears in the prompt.
    pub(crate) fn state(&self) -> &'static str {
        match &*self.client.state().borrow() {
            State::Connected {
                read_only: true, ..
            } => "CONNECTEDREADONLY",
            State::Connected { .. } => "CONNECTED",
            State::Reconnecting | State::Lost => "CONNECTING",
            State::LoginRefused { .. } => "AUTH_FAILED",
            State::Expired | State::Closed => "CLOSED",
        }
    }
}

fn state_name(state: &State) -> &'static str {
    match state {
        State::Connected {
            read_only: true, ..
        } => "ConnectedReadOnly",
        State::Connected { .. } => "SyncConnected",
        State::Reconnecting | State::Lost => "Disconnected",
        State::LoginRefused { .. } => "AuthFailed",
        State::Expired => "Expired",
        State::Closed => "Closed",
    }
}

/// Formats an event as zkCli.sh shows it. Source: ZooKeeperMain.MyWatcher, WatchedEvent.toString.
pub(crate) fn block(state: &str, kind: &str, path: Option<&str>, zxid: i64) -> String {
    let path = path.unwrap_or("null");
    format!("\nWATCHER::\n\nWatchedEvent state:{state} type:{kind} path:{path} zxid: {zxid}")
}
