//! The threads for the disk: one for log, epoch files and member lists, another for snapshots.

mod deferred_sync;
mod log;
pub(crate) mod members;
mod orders;
mod pace;
pub(crate) mod purge;
pub(crate) mod recovery;
mod snapshot;

pub(crate) use deferred_sync::DeferredSyncSlot;
pub(crate) use log::{GroupCommit, LogFile, LogOnDisk, LogThread, Synced, SyncedSink};
pub(crate) use orders::Disk;
pub(crate) use snapshot::{
    SnapshotEnd, SnapshotParts, SnapshotRequests, Snapshotter, snapshot_settings,
};
