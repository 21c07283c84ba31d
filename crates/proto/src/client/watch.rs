//! Watch events.

use jute::{DecodeRecord, EncodeRecord, Str};

/// Type of a watch event. Source: Watcher.Event.EventType.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum EventType {
    /// The znode was created.
    NodeCreated = 1,
    /// The znode was deleted.
    NodeDeleted = 2,
    /// The data of the znode was set.
    NodeDataChanged = 3,
    /// A child was created or deleted.
    NodeChildrenChanged = 4,
}

impl EventType {
    /// Returns the type with this number, if a server can send it.
    pub fn from_i32(number: i32) -> Option<Self> {
        match number {
            1 => Some(Self::NodeCreated),
            2 => Some(Self::NodeDeleted),
            3 => Some(Self::NodeDataChanged),
            4 => Some(Self::NodeChildrenChanged),
            _ => None,
        }
    }
}

/// Value of `state` in all events that a server sends: SyncConnected.
pub const STATE_SYNC_CONNECTED: i32 = 3;

/// Body of an event packet.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct WatcherEvent {
    /// Number of the event's [`EventType`].
    pub event_type: i32,
    /// State of the client, which is always [`STATE_SYNC_CONNECTED`].
    pub state: i32,
    /// Path of the znode.
    pub path: Str,
}
