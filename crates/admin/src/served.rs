//! Access of the admin server to the running server.

use std::fs::File;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

#[cfg(feature = "history")]
use history::Reader;
use jute::Limits;
use metrics::view::AdminView;
use proto::Zxid;
use recovery::LogEnd;
use storage::DataDirs;
use tokio::io::DuplexStream;
use tokio::sync::{oneshot, watch};
use tree::Tree;

/// Server whose data has been loaded.
pub struct Served {
    /// View of the server for commands.
    pub view: Arc<dyn AdminView + Send + Sync>,
    /// Files of the server.
    pub dirs: DataDirs,
    /// End of the readable log.
    pub log_end: Arc<LogEnd>,
    /// Limits of records in the log and in snapshots.
    pub record_limits: Limits,
    /// Operations of the server.
    pub operations: Operations,
}

/// Operations of the running server that the admin server requests.
pub struct Operations {
    /// Takes a snapshot. An error contains the reason.
    pub take_snapshot: Box<dyn Fn() -> Pending<Result<TakenSnapshot, String>> + Send + Sync>,
    /// Replaces the tree.
    pub restore: Arc<dyn Fn(RestoreOrder) + Send + Sync>,
    /// Returns the last transaction of the tree, or `None` while the tree may contain uncommitted
    /// transactions.
    pub committed: Box<dyn Fn() -> Option<Zxid> + Send + Sync>,
    /// Opens an in-process connection for a client with this address, and returns the client's end.
    /// If there is a subject, the client has the identities of a certificate with this subject. An
    /// error contains the reason, as text for a visitor.
    pub connect: Box<Connect>,
    /// Reserves memory for a reply of this many bytes. Dropping the value releases the memory.
    pub reserve: Box<dyn Fn(usize) -> Pending<Reservation> + Send + Sync>,
    /// Returns whether callers with this address have failed to log in too often.
    pub refuses_logins: Box<dyn Fn(SocketAddr) -> bool + Send + Sync>,
    /// Records a failed login.
    pub login_failed: Box<dyn Fn(SocketAddr) + Send + Sync>,
}

/// Function that opens an in-process connection.
pub type Connect = dyn Fn(SocketAddr, Option<&str>) -> Result<DuplexStream, String> + Send + Sync;

/// Result that is not available yet.
pub type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Memory that is reserved until this value is dropped.
pub type Reservation = Box<dyn Send>;

/// Snapshot of the running server.
#[derive(Debug)]
pub struct TakenSnapshot {
    /// Transaction in the snapshot's name.
    pub zxid: Zxid,
    /// Length in bytes.
    pub len: u64,
    /// Snapshot file, opened before it can be purged.
    pub file: File,
}

/// Tree to restore, and the sender that reports the completion.
#[derive(Debug)]
pub struct RestoreOrder {
    /// Tree to restore.
    pub tree: Box<Tree>,
    /// Sender that reports the completion.
    pub done: oneshot::Sender<()>,
}

/// Reader of the history, which cannot exist in a build without the feature `history`.
#[cfg(not(feature = "history"))]
#[derive(Clone)]
pub enum Reader {}

/// Access to the reader of the change history, once the history is open.
#[derive(Clone, Default)]
pub struct Readers(Arc<watch::Sender<Current>>);

/// Readable part of the history.
#[derive(Clone, Default)]
pub struct Current {
    /// Reader of the history. `None` while the history is not open.
    pub reader: Option<Reader>,
    head: Zxid,
}

impl Readers {
    /// Returns the reader, or `None` while the history is not open.
    pub fn get(&self) -> Option<Reader> {
        self.0.borrow().reader.clone()
    }

    /// Returns a receiver for changes of the readable part.
    pub fn subscribe(&self) -> watch::Receiver<Current> {
        self.0.subscribe()
    }

    /// Sets the reader of the open history. `None` means that the history is not open.
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
