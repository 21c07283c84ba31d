//! The change history (`history.enabled`): committed transactions go to a thread of their own.
//!
//! ```text
//! core:  Host::applied, for committed transactions only
//!        | bounded queue; when it is full, what does not fit is left out
//! history thread: what follows the last one recorded is recorded; what is missing is read from the
//!        log, and where the log does not reach back, a snapshot begins a new era
//! ```
//!
//! Nothing waits for the history, and its end ends nothing. Its thread has a low priority: a busy
//! server comes first, and the history catches up later.

mod feed;
mod thread;

pub(crate) use feed::Feed;
pub(crate) use thread::{Sources, start};

use std::sync::Arc;

use history::Reader;
use proto::Zxid;
use tokio::sync::watch;

/// Where the reader of the history is, once it is open.
#[derive(Clone, Default)]
pub(crate) struct Readers(Arc<watch::Sender<Current>>);

/// What can be read at the moment.
#[derive(Clone, Default)]
pub(crate) struct Current {
    /// `None` while the history is not open.
    pub(crate) reader: Option<Reader>,
    head: Zxid,
}

impl Readers {
    /// `None` while the history is not open.
    pub(crate) fn get(&self) -> Option<Reader> {
        self.0.borrow().reader.clone()
    }

    /// Tells of each change of what can be read.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Current> {
        self.0.subscribe()
    }

    fn set(&self, reader: Option<Reader>) {
        self.0.send_modify(|current| current.reader = reader);
    }

    /// Readers see everything up to here.
    fn recorded(&self, head: Zxid) {
        self.0.send_if_modified(|current| {
            let is_new = current.head != head;
            current.head = head;
            is_new
        });
    }
}
