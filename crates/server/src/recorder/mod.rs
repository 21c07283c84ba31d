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
mod files;
mod thread;

pub(crate) use feed::Feed;
pub(crate) use thread::start;

use std::sync::Arc;

use history::Reader;
use parking_lot::RwLock;

/// Where the reader of the history is, once it is open.
#[derive(Clone, Default)]
pub(crate) struct Readers(Arc<RwLock<Option<Reader>>>);

impl Readers {
    /// `None` while the history is not open.
    pub(crate) fn get(&self) -> Option<Reader> {
        self.0.read().clone()
    }

    fn set(&self, reader: Option<Reader>) {
        *self.0.write() = reader;
    }
}
