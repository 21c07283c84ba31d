//! Znodes of a cache, and its state.

use std::collections::BTreeMap;

use bytes::Bytes;
use proto::Stat;

use crate::error::Error;

/// Part of a subtree that a cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheScope {
    /// The znode and all its descendants.
    Subtree,
    /// The children of the znode, without the znode itself. If only their names are needed,
    /// `Client::watch_children` needs a single request.
    Children,
    /// The znode only.
    Node,
}

/// Znode in a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Data of the znode.
    pub data: Bytes,
    /// Stat at the time when the data was read.
    pub stat: Stat,
}

pub(super) type Nodes = BTreeMap<String, Node>;

/// State of a cache, for its readers.
#[derive(Debug, Clone)]
pub(super) struct CacheState {
    /// Number of changes of the copy.
    pub(super) revision: u64,
    pub(super) is_complete: bool,
    /// Reason why the cache ended. Absent while it runs.
    pub(super) end: Option<Error>,
}
