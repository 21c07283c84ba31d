//! Background work of a session, for callers that cannot wait for an answer, such as `Drop`.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use jute::Str;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Unit of background work. Its paths are server paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cleanup {
    /// Removes a waiter that the application has dropped.
    Forget(u64),
    /// Deletes a znode. The work continues on new connections until a server has answered.
    Delete(Str),
    /// Deletes the children of `parent` whose names start with `prefix`. The creation of a child
    /// with this prefix may have succeeded without an answer, or may still succeed. `looks` is the
    /// number of remaining searches.
    FindAndDelete {
        parent: Str,
        prefix: Str,
        looks: u32,
    },
}

/// Background work that the session has not yet accepted.
///
/// Each entry comes from a dropped handle, from a failed or dropped call, or from a method such as
/// [`Client::delete_in_background`](crate::Client::delete_in_background). The session accepts
/// entries immediately, with or without a connection. Without a connection, deletions wait in the
/// session (`crate::machine`), which sends all of them when it is connected again.
#[derive(Debug, Default)]
pub(crate) struct CleanupQueue {
    waiting: Mutex<VecDeque<Cleanup>>,
    pub(crate) woken: Notify,
    ids: AtomicU64,
}

impl CleanupQueue {
    pub(crate) fn push(&self, cleanup: Cleanup) {
        self.waiting.lock().push_back(cleanup);
        self.woken.notify_one();
    }

    pub(crate) fn take(&self) -> VecDeque<Cleanup> {
        std::mem::take(&mut *self.waiting.lock())
    }

    /// Returns a waiter id that is unique in the session.
    pub(crate) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }
}
