//! Transaction log, snapshots and recovery, in ZooKeeper's own file formats.
//!
//! ```text
//! <dataDir>/version-2/snapshot.<zxid>[.gz|.snappy]  currentEpoch  acceptedEpoch
//! <dataLogDir>/version-2/log.<zxid>
//! ```
//!
//! * [`DataDirs`] opens the two directories and locks out other processes.
//! * [`LogWriter`] appends transactions; a group normally costs one write and one fdatasync.
//! * [`SnapshotWriter`] writes a snapshot, which appears only once it is complete and durable.
//! * [`recover()`] fills a [`State`] with the newest intact snapshot and the log after it.
//! * [`make_durable`] syncs data that may only be in the page cache.
//! * [`set_history_aside`] removes the vote of a member whose files are corrupted.
//! * [`truncate()`] cuts the log, [`purge()`] deletes old files, [`Epochs`] stores the two epochs.
//!
//! The most important rule is that acknowledged data is never lost silently. An unexpected end of a
//! log is either the result of a crash, which is recovered automatically, or corruption, which is
//! refused with the file, the offset and the command that repairs it; see [`log`]. Recovery never
//! changes a byte of a file that is not empty.
//!
//! All input and output goes through [`Disk`], so that a simulator can lose unsynced data. The
//! grouping policy, the threads and the tree are in other crates: this crate only depends on
//! [`jute`], [`proto`] and files.
//!
//! ```
//! use std::sync::Arc;
//! use jute::{Encode, Limits};
//! use proto::txn::{Txn, TxnHeader, TxnRecord};
//! use proto::{SessionId, Zxid};
//! use zoarium_storage::{DataDirs, LogSettings, LogWriter, OpenOptions, RealDisk, read_txns_from};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dir = tempfile::tempdir()?;
//! let dirs = DataDirs::open(&RealDisk, dir.path(), dir.path(), OpenOptions::default())?;
//! let limits = Limits::from_max_buffer(1 << 20, 1 << 20);
//! let mut log = LogWriter::new(Arc::new(RealDisk), &dirs, LogSettings::new(limits));
//! let txn = Txn::CreateSession { timeout_ms: 30_000 };
//! let header = TxnHeader {
//!     session: SessionId(1),
//!     cxid: 0,
//!     zxid: Zxid(1),
//!     time_ms: 0,
//!     op: txn.op().number(),
//! };
//! let record = TxnRecord { header, txn, digest: None };
//! log.append(Zxid(1), &record.to_bytes())?;
//! log.commit()?; // only now may it be acknowledged
//!
//! let mut txns = read_txns_from(&RealDisk, &dirs, Zxid(1), limits)?;
//! assert_eq!(txns.next().transpose()?.map(|txn| txn.record), Some(record));
//! # Ok(())
//! # }
//! ```
//!
//! Source: FileTxnLog, FileSnap, FileTxnSnapLog; the deliberate differences from Java are listed in
//! docs/COMPATIBILITY.md under "Storage".

// The bytes of files may be corrupted, so a wrong length in them must not cause a panic.
#![warn(clippy::indexing_slicing)]

mod ahead;
mod checksum;
mod disk;
mod error;
mod files;
pub mod log;
mod recovery;
pub mod snapshot;

pub use disk::durable::make_durable;
pub use disk::read_only::ReadOnly;
pub use disk::real::RealDisk;
pub use disk::{DirEntry, Disk, DiskFile, DiskLock};
pub use error::{ContentError, StorageError, io_error};
pub use files::dirs::{DataDirs, OpenOptions};
pub use files::epoch::Epochs;
pub use files::names::{FileName, LogFile, SnapshotFile, list_logs, list_snapshots};
pub use files::purge::{purge, remove_other_snapshots};
pub use files::set_aside::{DAMAGED, set_damaged_aside};
pub use files::untrusted::{is_untrusted, set_history_aside, untrusted_marker};
pub use log::{
    Committed, LogCursor, LogPages, LogSettings, LogUnusable, LogWriter, Payload,
    chain::{LoggedTxn, LoggedTxns, last_logged_zxid, read_txns_from, read_txns_of},
    damage::Damage,
    judge::TornTail,
    whole::{LogCheck, check_log, is_log_whole},
};
pub use recovery::recover::{
    EmptyDirectory, Recovered, RecoverySettings, recover, remove_initialize_marker,
};
pub use recovery::seam::{forget_seams_after, last_seam, note_epoch_begin, note_seam};
pub use recovery::state::{SnapshotDigest, State};
pub use recovery::truncate::{Truncated, Truncation, cut_log, truncate};
pub use snapshot::trigger::SnapTrigger;
pub use snapshot::{
    Compression, SnapshotTrailer, read::read_body, read::read_snapshot, valid::verify_snapshot,
    write::SnapshotWriter,
};
