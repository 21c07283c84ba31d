//! Restore of a past state: creation of a data directory from a backup, or from the files of a
//! server.

use std::fs;
use std::path::{Path, PathBuf};

use history::Moment;
use jute::Limits;
use proto::Zxid;
use storage::{DataDirs, LogFile, RealDisk, cut_log, list_logs};

use crate::moment::last_txn_until;
use crate::snapshot::usable_before;
use crate::staging::Staging;
use crate::{Error, ReadSettings, backup, file_error};

/// Source of a restore.
#[derive(Debug, Clone)]
pub enum Source {
    /// Directory or file of a backup.
    Backup {
        /// Path of the backup.
        path: PathBuf,
        /// Moment to restore: after this transaction, or after the last transaction up to this
        /// time. `None` restores the end of the backup.
        at: Option<Moment>,
    },
    /// Files of a running or stopped server.
    Files {
        /// Directories of the server.
        dirs: DataDirs,
        /// Moment to restore.
        at: Moment,
    },
}

/// Request for a restore.
#[derive(Debug, Clone)]
pub struct RestoreRequest {
    /// Source of the data. It is not changed.
    pub source: Source,
    /// Path of the dataDir to create. It must not exist, or must be empty except for `myid`.
    pub to: PathBuf,
    /// Path of the dataLogDir to create, if it differs from the dataDir.
    pub to_log: Option<PathBuf>,
    /// Settings for reading the files.
    pub settings: ReadSettings,
}

/// Result of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Last transaction of the restored tree.
    pub zxid: Zxid,
    /// Snapshot from which the tree was restored.
    pub snapshot: PathBuf,
    /// Number of transactions that were applied after the snapshot.
    pub txns: u64,
}

/// Creates a data directory with a past state. The target receives its data only after all of it
/// has been verified. The target does not contain epoch files.
///
/// # Errors
/// If the source does not contain the moment, or its files are corrupt; if the target is not empty,
/// is in use, or cannot be written.
pub fn restore(request: &RestoreRequest) -> Result<Restored, Error> {
    let limits = request.settings.limits;
    let staging = Staging::begin(&request.to, request.to_log.as_deref())?;
    let staged = match &request.source {
        Source::Backup { path, at } if backup::is_archive(path) => {
            let dir = staging.create_directory("backup")?;
            backup::unpack_archive(path, &dir)?;
            from_backup(&dir, path, *at, &staging, limits)?
        }
        Source::Backup { path, at } => from_backup(path, path, *at, &staging, limits)?,
        Source::Files { dirs, at } => from_files(dirs, *at, &staging, request.settings)?,
    };
    if staged.snapshot_zxid < staged.wanted {
        // The log after the moment may be corrupt.
        cut_log(&RealDisk, staging.dirs(), staged.wanted, limits)?;
    } else {
        for log in list_logs(&RealDisk, &staging.dirs().log)? {
            fs::remove_file(&log.path).map_err(file_error("remove", &log.path))?;
        }
    }
    // The files are read as the server will read them, so that missing, corrupt or altered data is
    // detected now.
    let found = backup::recovered(&request.to, staging.dirs(), staged.wanted, limits)?;
    if staged
        .digest
        .is_some_and(|digest| digest != found.tree.digest())
    {
        let digest = found.tree.digest();
        return Err(Error::Refused(format!(
            "the tree after {} has digest {digest:#x}, which differs from the digest in the backup; use another backup",
            staged.wanted
        )));
    }
    staging.publish()?;
    Ok(Restored {
        zxid: staged.wanted,
        snapshot: staged.snapshot,
        txns: found.recovered.txns_replayed,
    })
}

/// Files up to a transaction, in a directory that does not belong to a server yet.
struct Staged {
    wanted: Zxid,
    snapshot: PathBuf,
    snapshot_zxid: Zxid,
    /// Expected digest of the tree.
    digest: Option<u64>,
}

fn from_files(
    source: &DataDirs,
    at: Moment,
    staging: &Staging,
    settings: ReadSettings,
) -> Result<Staged, Error> {
    let wanted = last_txn_until(source, at, settings.limits)?;
    let snapshot = usable_before(source, wanted, settings)?.file;
    let logs = logs_between(source, snapshot.zxid, wanted)?;
    copy(&snapshot.path, &staging.dirs().snap)?;
    for log in &logs {
        copy(&log.path, &staging.dirs().log)?;
    }
    Ok(Staged {
        wanted,
        snapshot_zxid: snapshot.zxid,
        snapshot: snapshot.path,
        digest: None,
    })
}

/// Prepares the files of a backup directory. `called` is the path of the backup as the user entered
/// it.
fn from_backup(
    dir: &Path,
    called: &Path,
    at: Option<Moment>,
    staging: &Staging,
    limits: Limits,
) -> Result<Staged, Error> {
    let manifest = backup::load(dir)?;
    let (first, last) = (manifest.snapshot.last, manifest.last());
    let upto = match at {
        Some(Moment::Zxid(zxid)) => zxid,
        Some(Moment::Time(_)) | None => last,
    };
    if upto < first || upto > last {
        return Err(Error::Usage(format!(
            "the backup {} contains the states after transactions {first} to {last}, but not after {upto}",
            called.display()
        )));
    }
    backup::unpack(dir, &manifest, upto, staging.dirs())?;
    let wanted = match at {
        Some(at) => last_txn_until(staging.dirs(), at, limits)?,
        None => last,
    };
    if wanted < first {
        return Err(Error::Usage(format!(
            "the moment of --at is before the first state in the backup {}, which is the state after {first}",
            called.display()
        )));
    }
    Ok(Staged {
        wanted,
        snapshot: called.join(&manifest.snapshot.file),
        snapshot_zxid: manifest.snapshot.first,
        digest: (wanted == last).then_some(manifest.digest),
    })
}

/// Returns the log files with the transactions after the snapshot, up to the moment.
fn logs_between(source: &DataDirs, from: Zxid, to: Zxid) -> Result<Vec<LogFile>, Error> {
    let logs = list_logs(&RealDisk, &source.log)?;
    let begins_before = logs.partition_point(|log| log.zxid <= from.next());
    let first = begins_before.saturating_sub(1);
    let of_range = logs.into_iter().skip(first).filter(|log| log.zxid <= to);
    Ok(of_range.collect())
}

fn copy(file: &Path, dir: &Path) -> Result<(), Error> {
    if let Some(name) = file.file_name() {
        blocking::files::copy(file, &dir.join(name)).map_err(file_error("copy", file))?;
    }
    Ok(())
}
