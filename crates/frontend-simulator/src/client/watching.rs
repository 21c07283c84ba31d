//! Watches of a connection.

use proto::request::{PathWatchRequest, ReadRequest};
use proto::watch::EventType;
use proto::{ErrorCode, Zxid};

use crate::history::History;
use crate::world::{Checked, violation};

/// Events arrive before the replies that reveal their changes, and one-shot watches fire once.
pub(crate) const WATCHES: &str = "an event precedes the reply that reveals its change, once";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Data,
    Children,
    Persistent,
    Recursive,
}

#[derive(Debug)]
struct Watch {
    kind: Kind,
    path: String,
    since: Zxid,
    /// Number of events that this watch has received.
    heard: usize,
}

/// Watches of a connection.
#[derive(Debug, Default)]
pub(crate) struct Watching {
    watches: Vec<Watch>,
    /// Whether the watches are unknown, because the client has set watches again or removed some.
    is_unknown: bool,
}

impl Watching {
    /// Records that the client sends this read.
    pub(crate) fn asks(&mut self, read: &ReadRequest) {
        self.is_unknown |= matches!(
            read,
            ReadRequest::SetWatches(_) | ReadRequest::RemoveWatches(_)
        );
    }

    pub(crate) fn hear(&mut self, event: EventType, path: &str) -> Checked {
        let mut is_due = false;
        for watch in &mut self.watches {
            let is_met = watch.is_met_by(event, path);
            watch.heard += usize::from(is_met);
            is_due |= is_met;
        }
        self.watches
            .retain(|watch| watch.stays() || !watch.is_met_by(event, path));
        if is_due || self.is_unknown {
            return Ok(());
        }
        let text = format!("an event {event:?} of {path} without a watch");
        Err(violation(WATCHES, text))
    }

    /// Checks that the events of all changes up to the state of a reply have arrived.
    pub(crate) fn check(&self, zxid: Zxid, history: &History) -> Checked {
        if self.is_unknown {
            return Ok(());
        }
        for watch in &self.watches {
            let due = watch.due(zxid, history);
            let heard = if watch.stays() { watch.heard } else { 0 };
            if due != heard {
                let Watch {
                    kind, path, since, ..
                } = watch;
                let changes = history.changes(path, *since, zxid);
                let text = format!(
                    "a reply as of {zxid}, after {heard} of {due} events for the watch {kind:?} \
                     on {path} since {since}, whose changes are {changes:?}"
                );
                return Err(violation(WATCHES, text));
            }
        }
        Ok(())
    }

    /// Records the watch that a read has set.
    pub(crate) fn answered(&mut self, read: &ReadRequest, zxid: Zxid, err: ErrorCode) {
        let on = |request: &PathWatchRequest| request.path.clone().filter(|_| request.watch);
        let is_ok = err == ErrorCode::Ok;
        let (path, kind) = match read {
            ReadRequest::GetData(request) if is_ok => (on(request), Kind::Data),
            ReadRequest::GetChildren(request) | ReadRequest::GetChildren2(request) if is_ok => {
                (on(request), Kind::Children)
            }
            ReadRequest::Exists(request) if is_ok || err == ErrorCode::NoNode => {
                (on(request), Kind::Data)
            }
            ReadRequest::AddWatch(request) if is_ok => {
                let kinds = [Kind::Persistent, Kind::Recursive];
                let kind = kinds[usize::from(request.mode == 1)];
                (request.path.clone(), kind)
            }
            _ => return,
        };
        let Some(path) = path.map(|path| path.to_string()) else {
            return;
        };
        let is_there = |watch: &Watch| watch.kind == kind && watch.path == path;
        if !self.watches.iter().any(is_there) {
            self.watches.push(Watch {
                kind,
                path,
                since: zxid,
                heard: 0,
            });
        }
    }
}

impl Watch {
    fn stays(&self) -> bool {
        matches!(self.kind, Kind::Persistent | Kind::Recursive)
    }

    fn is_met_by(&self, event: EventType, path: &str) -> bool {
        let is_here = self.path == path;
        let is_of_children = event == EventType::NodeChildrenChanged;
        match self.kind {
            Kind::Data => is_here && !is_of_children,
            Kind::Children => is_here && (is_of_children || event == EventType::NodeDeleted),
            Kind::Persistent => is_here,
            Kind::Recursive => {
                let below = path.strip_prefix(self.path.as_str());
                let is_below = below.is_some_and(|rest| rest.starts_with('/'));
                (is_here || is_below) && !is_of_children
            }
        }
    }

    /// Returns the number of events that have happened up to this transaction.
    fn due(&self, upto: Zxid, history: &History) -> usize {
        let paths: Vec<&str> = match self.kind {
            Kind::Recursive => history.changed_under(&self.path).collect(),
            _ => vec![&self.path],
        };
        let changes = |path: &&str| {
            let changes = history.changes(path, self.since, upto).iter();
            changes
                .filter(|(_, event)| self.is_met_by(*event, path))
                .count()
        };
        paths.iter().map(changes).sum()
    }
}
