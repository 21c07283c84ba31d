//! Data directories without a server: printing, checking and repairing logs and snapshots, backups,
//! restores, purges, and a survey of the data that a start would load.
//!
//! * [`log`] and [`snapshot`] process single files. Their output has the format of Java's
//!   TxnLogToolkit and SnapshotFormatter.
//! * [`backup`] takes and verifies backups, and [`restore()`] creates a data directory from a backup
//!   or from the files of a server.
//! * [`purge()`] removes files that recovery does not need.
//! * [`survey()`] reads a data directory as a start does, and changes nothing.
//!
//! ```
//! # use std::sync::Arc;
//! # use jute::{Encode, Limits};
//! # use proto::txn::{Txn, TxnHeader, TxnRecord};
//! # use proto::{SessionId, Zxid};
//! # use storage::{DataDirs, LogSettings, LogWriter, OpenOptions};
//! use zoarium_datadir::log;
//! use storage::RealDisk;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let dirs = DataDirs::open(&RealDisk, dir.path(), dir.path(), OpenOptions::default())?;
//! # let limits = Limits::from_max_buffer(1 << 20, 1 << 20);
//! # let mut writer = LogWriter::new(Arc::new(RealDisk), &dirs, LogSettings::new(limits));
//! # let txn = Txn::CreateSession { timeout_ms: 30_000 };
//! # let header = TxnHeader {
//! #     session: SessionId(1),
//! #     cxid: 0,
//! #     zxid: Zxid(1),
//! #     time_ms: 0,
//! #     op: txn.op().number(),
//! # };
//! # writer.append(Zxid(1), &TxnRecord { header, txn, digest: None }.to_bytes())?;
//! # writer.commit()?;
//! # let data_dir = dir.path();
//! for file in log::files_of(&RealDisk, data_dir)? {
//!     let report = log::verify(&RealDisk, &file, limits)?;
//!     assert!(report.is_good(), "{}: {:?}", file.display(), report.faults);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Source: TxnLogToolkit, LogFormatter, SnapshotFormatter, PurgeTxnLog.

pub mod backup;
mod date;
mod error;
pub mod log;
mod moment;
mod purge;
mod restore;
pub mod snapshot;
mod staging;
mod survey;

use std::path::{Path, PathBuf};

use jute::Limits;
use storage::StorageError;

pub use error::{Error, file_error};
pub use purge::purge;
pub use restore::{RestoreRequest, Restored, Source, restore};
pub use survey::{Survey, survey};

/// Settings for reading the files of a data directory.
#[derive(Debug, Clone, Copy)]
pub struct ReadSettings {
    /// Limits of the decoders. They must cover the `jute.maxbuffer` of the server that wrote the
    /// files.
    pub limits: Limits,
    /// Function that receives the error of each snapshot that is skipped for an older one.
    pub on_skipped: fn(&StorageError),
}

/// Returns the `version-2` of a dataDir, or the directory itself if it does not contain a
/// `version-2`.
pub fn files_dir(dir: &Path) -> PathBuf {
    let versioned = dir.join("version-2");
    if versioned.is_dir() {
        versioned
    } else {
        dir.to_path_buf()
    }
}
