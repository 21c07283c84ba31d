//! Watch before reveal: a client hears of a change that it watches before any reply of a server
//! that has made the change. Of a persistent watch, of every one of them.

use proto::watch::EventType;
use proto::{SessionId, Zxid};

use super::Held;
use crate::history::History;

pub(crate) const NAME: &str = "watch before reveal";

/// What a watch is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Left by getData, or by exists where something is.
    Data,
    /// Left by exists where nothing is.
    Exist,
    /// Left by getChildren.
    Children,
    /// Stays, and is about a znode and its children.
    Persistent,
    /// Stays, and is about a znode and all below it.
    Recursive,
}

/// A watch that has not fired, or does not end by that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Armed {
    pub(crate) path: String,
    pub(crate) kind: Kind,
    /// As of this zxid.
    pub(crate) since: Zxid,
    /// Events heard since then; of those that stay.
    pub(crate) heard: usize,
}

impl Armed {
    pub(crate) fn new(path: String, kind: Kind, since: Zxid) -> Self {
        Self {
            path,
            kind,
            since,
            heard: 0,
        }
    }

    /// Whether events do not end it.
    pub(crate) fn stays(&self) -> bool {
        matches!(self.kind, Kind::Persistent | Kind::Recursive)
    }

    /// Whether this event is for it.
    pub(crate) fn is_met_by(&self, event: EventType, path: &str) -> bool {
        let is_of_children = event == EventType::NodeChildrenChanged;
        let is_here = self.path == path;
        match self.kind {
            Kind::Data | Kind::Exist => is_here && !is_of_children,
            Kind::Children => is_here && (is_of_children || event == EventType::NodeDeleted),
            Kind::Persistent => is_here,
            Kind::Recursive => {
                let below = path.strip_prefix(self.path.as_str());
                let is_below = below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
                is_below && !is_of_children
            }
        }
    }

    /// Events that a client has heard of by a reply as of `upto`, at least.
    fn due(&self, upto: Zxid, history: &History) -> usize {
        let (path, from) = (self.path.as_str(), self.since);
        let changes = || history.changes(path, from, upto);
        let of_children = || history.child_changes(path, from, upto);
        match self.kind {
            Kind::Data | Kind::Exist => usize::from(changes().next().is_some()),
            Kind::Children => {
                let is_gone = history.end_between(path, from, upto).is_some();
                usize::from(is_gone || of_children().next().is_some())
            }
            Kind::Persistent => changes().count() + of_children().count(),
            Kind::Recursive => history.changes_below(path, from, upto),
        }
    }
}

/// A reply as of `zxid` comes, and these have heard of so much.
pub(crate) fn reveals(session: SessionId, zxid: Zxid, armed: &[Armed], history: &History) -> Held {
    for watch in armed {
        let due = watch.due(zxid, history);
        if due > watch.heard {
            return Err(format!(
                "session {session} is answered as of {zxid} and has heard of {} of {due} changes of \
                 {}, watched since {} ({:?})",
                watch.heard, watch.path, watch.since, watch.kind
            ));
        }
    }
    Ok(())
}

/// checkWatches is answered.
pub(crate) fn checked(session: SessionId, path: &str, is_there: bool, armed: bool) -> Held {
    // A watch that the client does not know of may have been left by a reply that it never heard.
    if is_there || !armed {
        return Ok(());
    }
    Err(format!(
        "session {session} is told that it does not watch {path}, which it does"
    ))
}
