//! Watch before reveal: a client hears of a change that it watches before any reply of a server
//! that has made the change.

use proto::watch::EventType;
use proto::{SessionId, Zxid};

use super::Held;
use crate::history::History;

pub(crate) const NAME: &str = "watch before reveal";

/// A watch that has not fired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Armed {
    pub(crate) path: String,
    /// Left by getChildren; else by getData.
    pub(crate) is_of_children: bool,
    /// As of this zxid.
    pub(crate) since: Zxid,
}

impl Armed {
    /// Whether this event is for it.
    pub(crate) fn is_met_by(&self, event: EventType, path: &str) -> bool {
        let is_kind = match event {
            EventType::NodeChildrenChanged => self.is_of_children,
            EventType::NodeDeleted => true,
            EventType::NodeDataChanged | EventType::NodeCreated => !self.is_of_children,
        };
        is_kind && self.path == path
    }
}

/// A reply as of `zxid` comes, and these have not fired.
pub(crate) fn reveals(session: SessionId, zxid: Zxid, armed: &[Armed], history: &History) -> Held {
    for watch in armed {
        let change = history.change_between(&watch.path, watch.is_of_children, watch.since, zxid);
        if let Some(change) = change {
            return Err(format!(
                "session {session} is answered as of {zxid} and has not heard that {} changed in \
                 {change}, watched since {}",
                watch.path, watch.since
            ));
        }
    }
    Ok(())
}
