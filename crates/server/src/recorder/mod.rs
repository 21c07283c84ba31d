//! The change history (`history.enabled`): committed transactions are recorded on a separate
//! thread.
//!
//! ```text
//! core:  Host::applied, for committed transactions only
//!        | bounded queue; transactions that do not fit are skipped
//! history thread: records each transaction that follows the last recorded one; reads missing ones
//!        from the log, and if the log does not contain them, begins a new era with a snapshot
//! ```
//!
//! The server never waits for the history, and continues if the history fails. The history thread
//! has a low priority: on a busy server, the history catches up later.

mod feed;
mod thread;

pub(crate) use feed::Feed;
pub(crate) use thread::{Sources, start};

use std::sync::Arc;

use history::Reader;
use proto::Zxid;
use tokio::sync::watch;

/// Access to the reader of the history, once the history is open.
#[derive(Clone, Default)]
pub(crate) struct Readers(Arc<watch::Sender<Current>>);

/// The readable part of the history.
#[derive(Clone, Default)]
pub(crate) struct Current {
    /// `None` while the history is not open.
    pub(crate) reader: Option<Reader>,
    head: Zxid,
}

impl Readers {
    /// Returns `None` while the history is not open.
    pub(crate) fn get(&self) -> Option<Reader> {
        self.0.borrow().reader.clone()
    }

    /// Returns a receiver of changes of the readable part.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Current> {
        self.0.subscribe()
    }

    fn set(&self, reader: Option<Reader>) {
        self.0.send_modify(|current| current.reader = reader);
    }

    /// Records that readers see all changes up to `head`.
    fn recorded(&self, head: Zxid) {
        self.0.send_if_modified(|current| {
            let is_new = current.head != head;
            current.head = head;
            is_new
        });
    }
}
