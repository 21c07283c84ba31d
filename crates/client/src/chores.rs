//! What a session does on its own after a handle was dropped, which cannot wait for an answer.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use jute::Str;
use parking_lot::Mutex;
use proto::mutant::{self, Mutant};
use tokio::sync::Notify;

/// Something to be seen to. Paths are as the server knows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Chore {
    /// A waiter does not wait any more.
    Forget(u64),
    /// A znode must go, over as many connections as it takes.
    Delete(Str),
    /// The children of `parent` whose names begin so must go: a creation of theirs may have
    /// happened without anybody hearing of it, or may still happen: so many looks are left.
    FindAndDelete {
        parent: Str,
        prefix: Str,
        looks: u32,
    },
}

/// Chores that nobody has looked at yet.
///
/// Each comes from a handle or a call that the application has let go, and is taken up at once,
/// whether there is a connection or not; how many wait for a connection bounds how many requests
/// are sent (`crate::machine`).
#[derive(Debug, Default)]
pub(crate) struct Chores {
    waiting: Mutex<VecDeque<Chore>>,
    pub(crate) woken: Notify,
    ids: AtomicU64,
}

impl Chores {
    pub(crate) fn push(&self, chore: Chore) {
        if mutant::is(Mutant::ChoresForgotten) {
            return;
        }
        self.waiting.lock().push_back(chore);
        self.woken.notify_one();
    }

    pub(crate) fn take(&self) -> VecDeque<Chore> {
        std::mem::take(&mut *self.waiting.lock())
    }

    /// A number that no other waiter of the session has.
    pub(crate) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }
}
