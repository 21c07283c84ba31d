//! The reader of the change history, for the commands of the admin server.

use std::sync::Arc;

use history::Reader;
use proto::Zxid;
use tokio::sync::watch;

/// Access to the reader of the history, once the history is open.
#[derive(Clone, Default)]
pub struct Readers(Arc<watch::Sender<Current>>);

/// The readable part of the history.
#[derive(Clone, Default)]
pub struct Current {
    /// `None` while the history is not open.
    pub reader: Option<Reader>,
    head: Zxid,
}

impl Readers {
    /// Returns `None` while the history is not open.
    pub fn get(&self) -> Option<Reader> {
        self.0.borrow().reader.clone()
    }

    /// Returns a receiver of changes of the readable part.
    pub fn subscribe(&self) -> watch::Receiver<Current> {
        self.0.subscribe()
    }

    /// Opens the history with a reader, or closes it.
    pub fn set(&self, reader: Option<Reader>) {
        self.0.send_modify(|current| current.reader = reader);
    }

    /// Records that readers see all changes up to `head`.
    pub fn recorded(&self, head: Zxid) {
        self.0.send_if_modified(|current| {
            let is_new = current.head != head;
            current.head = head;
            is_new
        });
    }
}
