//! Invariant (watch order): a client receives the event of a watched change before any reply from a
//! server that has applied the change. For a persistent watch this applies to every change.

use proto::watch::EventType;
use proto::{SessionId, Zxid};

use crate::history::History;
use crate::invariants::CheckResult;

pub(crate) const NAME: &str = "watch before reveal";

/// Kind of watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchKind {
    /// Set by getData, or by exists on an existing znode.
    Data,
    /// Set by exists on a missing znode.
    Exist,
    /// Set by getChildren.
    Children,
    /// Persistent watch on a znode and its children.
    Persistent,
    /// Persistent watch on a znode and all its descendants.
    Recursive,
}

/// A watch that has not fired, or that persists after it fires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Armed {
    pub(crate) path: String,
    pub(crate) kind: WatchKind,
    /// Zxid at which the watch was set.
    pub(crate) since: Zxid,
    /// Number of events received since then, for persistent watches.
    pub(crate) heard: usize,
}

impl Armed {
    pub(crate) fn new(path: String, kind: WatchKind, since: Zxid) -> Self {
        Self {
            path,
            kind,
            since,
            heard: 0,
        }
    }

    /// Returns whether the watch persists after an event.
    pub(crate) fn stays(&self) -> bool {
        matches!(self.kind, WatchKind::Persistent | WatchKind::Recursive)
    }

    /// Returns whether the event belongs to the watch.
    pub(crate) fn is_met_by(&self, event: EventType, path: &str) -> bool {
        let is_of_children = event == EventType::NodeChildrenChanged;
        let is_here = self.path == path;
        match self.kind {
            WatchKind::Data | WatchKind::Exist => is_here && !is_of_children,
            WatchKind::Children => is_here && (is_of_children || event == EventType::NodeDeleted),
            WatchKind::Persistent => is_here,
            WatchKind::Recursive => {
                let below = path.strip_prefix(self.path.as_str());
                let is_below = below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
                is_below && !is_of_children
            }
        }
    }

    /// Returns the minimum number of events that the client must have received before a reply as of
    /// `upto`.
    fn due(&self, upto: Zxid, history: &History) -> usize {
        let (path, from) = (self.path.as_str(), self.since);
        let changes = || history.changes(path, from, upto);
        let of_children = || history.child_changes(path, from, upto);
        match self.kind {
            WatchKind::Data | WatchKind::Exist => usize::from(changes().next().is_some()),
            WatchKind::Children => {
                let is_gone = history.end_between(path, from, upto).is_some();
                usize::from(is_gone || of_children().next().is_some())
            }
            WatchKind::Persistent => changes().count() + of_children().count(),
            WatchKind::Recursive => history.changes_below(path, from, upto),
        }
    }
}

/// Checks the events of all watches before a reply as of `zxid`.
pub(crate) fn reveals(
    session: SessionId,
    zxid: Zxid,
    armed: &[Armed],
    history: &History,
) -> CheckResult {
    for watch in armed {
        let due = watch.due(zxid, history);
        if due > watch.heard {
            return Err(format!(
                "session {session} receives a reply with zxid {zxid}, but was notified of only {} of {due} changes of {}, watched since {} ({:?})",
                watch.heard, watch.path, watch.since, watch.kind
            ));
        }
    }
    Ok(())
}

/// Checks the reply to checkWatches.
pub(crate) fn checked(session: SessionId, path: &str, is_there: bool, armed: bool) -> CheckResult {
    // A request whose reply was lost may have set a watch that the client does not know of.
    if is_there || !armed {
        return Ok(());
    }
    Err(format!(
        "session {session} was informed that it does not watch {path}, although it does"
    ))
}
