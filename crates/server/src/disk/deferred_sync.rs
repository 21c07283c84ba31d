//! A group that is synced by a visitor, which is a thread that ran the core to deliver a message.
//!
//! The log thread receives no other groups until the visitor has reported the sync, so the records
//! stay in order.

use std::sync::Arc;

use crossbeam_channel::Sender;
use host::{LogGroup, Syncer};
use parking_lot::Mutex;

use super::log::{LogFile, SyncedSink, recycle};

/// A group that is not on disk yet, and the log file for it.
pub(crate) struct DeferredSync {
    pub(super) file: Arc<Mutex<LogFile>>,
    pub(super) group: LogGroup,
    /// Sender that returns the empty group.
    pub(super) spent: Sender<LogGroup>,
}

/// Slot in which the core leaves a group for its visitor.
pub(crate) struct DeferredSyncSlot {
    left: Mutex<Option<DeferredSync>>,
    /// Function that reports the sync to the core.
    synced: SyncedSink,
}

impl DeferredSyncSlot {
    pub(crate) fn new(synced: SyncedSink) -> Arc<Self> {
        Arc::new(Self {
            left: Mutex::new(None),
            synced,
        })
    }

    /// Leaves a group for the visitor that runs the core. The slot must be empty, because a group
    /// that is still in it would be lost.
    pub(super) fn put(&self, deferred_sync: DeferredSync) {
        *self.left.lock() = Some(deferred_sync);
    }

    /// Removes the group that the core has left, if any, and returns a function that makes it
    /// durable and reports this to the core. The core may then run on the same thread. The visitor
    /// must call the function, regardless of how long it takes.
    pub(crate) fn take(self: &Arc<Self>) -> Option<impl FnOnce() + Send + use<>> {
        let deferred_sync = self.left.lock().take()?;
        let deferred_syncs = self.clone();
        Some(move || deferred_syncs.sync(deferred_sync))
    }

    fn sync(&self, deferred_sync: DeferredSync) {
        let DeferredSync { file, group, spent } = deferred_sync;
        blocking::mark("wait for the log file");
        let mut file = file.lock();
        match file.write(&group, Syncer::Visitor) {
            Ok(synced) => {
                drop(file);
                recycle(&spent, group);
                (self.synced)(synced);
            }
            Err(error) => {
                file.send_to_core(replica::Input::DiskFailed);
                file.fail(&error);
            }
        }
    }
}
