//! Events of a cache.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::node::{CacheState, Node};
use super::tree::CachedTree;
use crate::error::{Error, Result};

/// Event from a [`TreeCache`](super::TreeCache).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheEvent {
    /// The cache holds a new znode.
    Added {
        /// Path of the znode.
        path: String,
        /// Znode after the event.
        node: Node,
    },
    /// The data of a znode was written.
    Changed {
        /// Path of the znode.
        path: String,
        /// State of the znode in the last event about it.
        before: Node,
        /// Znode after the write.
        node: Node,
    },
    /// The cache no longer holds a znode, because it was deleted or the client may no longer read
    /// it.
    Removed {
        /// Path of the znode.
        path: String,
        /// State of the znode in the last event about it.
        node: Node,
    },
    /// The connection was lost. Until [`CacheEvent::Back`], the cache may be out of date.
    Lost,
    /// The connection was restored, and the cache has read its znodes again. Events about changes
    /// during the loss precede this event.
    Back,
}

/// Stream of events from a cache: first the znodes that the cache holds, then the changes.
///
/// A slow reader skips intermediate states, but always receives the last state. A znode that was
/// deleted and created again is reported as removed and added.
#[derive(Debug)]
#[must_use = "dropping it ends the subscription"]
pub struct CacheEvents {
    path: String,
    reader: u64,
    tree: Arc<Mutex<CachedTree>>,
    state: watch::Receiver<CacheState>,
}

impl CacheEvents {
    pub(super) fn new(
        path: &str,
        tree: &Arc<Mutex<CachedTree>>,
        state: watch::Receiver<CacheState>,
    ) -> Self {
        Self {
            path: path.to_owned(),
            reader: tree.lock().add_reader(),
            tree: Arc::clone(tree),
            state,
        }
    }

    /// Waits for the next event. The future may be dropped without losing an event.
    ///
    /// # Errors
    /// The reason for the end of the cache, after all other events. [`Error::Closed`] if the
    /// application closed or dropped the cache.
    pub async fn next(&mut self) -> Result<CacheEvent> {
        loop {
            // The end must be read before the events, so that no event follows it.
            let end = self.state.borrow_and_update().end.clone();
            if let Some(event) = self.tree.lock().next_event(self.reader) {
                return Ok(event);
            }
            if let Some(end) = end {
                return Err(end);
            }
            if self.state.changed().await.is_err() {
                let path = self.path.clone();
                return Err(Error::Closed { path });
            }
        }
    }
}

impl Drop for CacheEvents {
    fn drop(&mut self) {
        self.tree.lock().remove_reader(self.reader);
    }
}
