//! Errors of files, each with the file, the position and a remedy.

use std::io;
use std::path::{Path, PathBuf};

use proto::{Epoch, Zxid};

use crate::files::names::FileName;
use crate::log::damage::Damage;

/// Reason why a [`State`](crate::State) refuses the content of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ContentError(String);

impl ContentError {
    /// Constructs the error from a reason, which is shown to the operator.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// A storage error. The message contains the file and the position, the cause, and a remedy.
///
/// Retrying does not help with any of these errors. The server stops, or continues without a
/// snapshot if only the snapshot could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The operating system returned an error.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// Verb that describes the failed operation.
        action: &'static str,
        /// File or directory that was accessed.
        path: PathBuf,
        /// Error returned by the operating system.
        source: io::Error,
    },
    /// A data directory is missing or cannot be used.
    #[error("data directory {} cannot be used: {reason}", dir.display())]
    Directory {
        /// Path of the data directory.
        dir: PathBuf,
        /// Reason why the directory cannot be used.
        reason: String,
    },
    /// A log is in the snapshot directory or a snapshot in the log directory, because the two paths
    /// were mixed up.
    #[error(
        "{} is a {kind} file in the {} directory: check dataDir and dataLogDir",
        file.display(),
        if *kind == "log" { "snapshot" } else { "log" }
    )]
    Misplaced {
        /// Path of the misplaced file.
        file: PathBuf,
        /// Kind of file: `log` or `snapshot`.
        kind: &'static str,
    },
    /// Another process uses the directory.
    #[error("data directory {} is in use by another process", dir.display())]
    InUse {
        /// Path of the data directory.
        dir: PathBuf,
    },
    /// A log could not be written or synced. No transaction in the group may be acknowledged.
    #[error("cannot {action} log {} at offset {offset}: {source}", path.display())]
    LogWrite {
        /// Failed operation: `create`, `write` or `sync`.
        action: &'static str,
        /// Path of the log.
        path: PathBuf,
        /// Offset of the group in the log.
        offset: u64,
        /// Error returned by the operating system.
        source: io::Error,
    },
    /// An earlier write or sync failed, so the content of the disk is unknown.
    #[error("the log writer stopped after a failed write or sync")]
    LogPoisoned,
    /// A log with this name exists and contains transactions, which a new file would destroy.
    #[error(
        "log {} exists and contains transactions, so it is not overwritten. If you do not need the \
         transactions, move the log away",
        path.display()
    )]
    LogExists {
        /// Path of the existing log.
        path: PathBuf,
    },
    /// A snapshot could not be written.
    #[error("cannot {action} snapshot {}: {source}", path.display())]
    SnapshotWrite {
        /// Failed operation: `create`, `write`, `sync` or `rename`.
        action: &'static str,
        /// Path of the snapshot.
        path: PathBuf,
        /// Error returned by the operating system.
        source: io::Error,
    },
    /// A log file does not begin with the header of a log.
    #[error("{} is not a transaction log: {reason}. Move the file away if you do not need it", path.display())]
    LogHeader {
        /// Path of the file.
        path: PathBuf,
        /// Reason why the header is invalid.
        reason: String,
    },
    /// Corruption in a log that cannot be the result of a crash.
    #[error(
        "log {} is damaged at offset {offset}: {damage}. Everything up to zxid {last_good} is \
         readable. `zoarium log --verify {}` shows the file, `zoarium log --repair --replace {}` \
         puts a repaired copy in its place and keeps the original",
        path.display(), path.display(), path.display()
    )]
    LogDamaged {
        /// Path of the log.
        path: PathBuf,
        /// Offset of the corrupted record.
        offset: u64,
        /// Kind of corruption.
        damage: Damage,
        /// Last transaction before the corrupted record. If the file does not contain an earlier
        /// record, the predecessor of the zxid in the file's name.
        last_good: Zxid,
    },
    /// Transactions are missing between two existing transactions, or after the snapshot.
    #[error(
        "transactions are missing: {} continues at offset {offset} with zxid {next}, but {before} \
         ends with {last}{}. Restore the missing log. To discard everything after {last} instead, \
         {}",
        path.display(), torn_note(*torn_at), giving_up(path, before, *last)
    )]
    Gap {
        /// File with the transaction after the gap.
        path: PathBuf,
        /// Offset of the transaction after the gap.
        offset: u64,
        /// Zxid of the transaction after the gap.
        next: Zxid,
        /// Description of the log or snapshot before the gap.
        before: String,
        /// Last zxid before the gap.
        last: Zxid,
        /// Offset at which the log before the gap is torn, if it is torn.
        torn_at: Option<u64>,
    },
    /// Snapshots exist, but none can be loaded.
    #[error(
        "cannot load any snapshot in {}; the newest is {}: {reason}. Restore an intact snapshot{}",
        dir.display(), newest.display(),
        trusting_note(*may_logs_suffice)
    )]
    NoUsableSnapshot {
        /// Path of the snapshot directory.
        dir: PathBuf,
        /// Path of the newest snapshot.
        newest: PathBuf,
        /// Reason why the newest snapshot cannot be loaded.
        reason: String,
        /// Whether logs without a snapshot are accepted (`snapshot.trust.empty`), and the snapshots
        /// are only cut. The operator then decides, because the logs of all members may be
        /// complete.
        may_logs_suffice: bool,
    },
    /// A snapshot newer than the loaded one is corrupted, and the logs do not reach its last
    /// transaction.
    #[error(
        "cannot load snapshot {} ({reason}), and without it the data ends at zxid {reached}, so \
         transactions would be lost. Restore an intact copy or the missing logs. To discard \
         everything after {reached} instead, move the snapshot and all later logs away",
        path.display()
    )]
    SnapshotLost {
        /// Path of the corrupted snapshot.
        path: PathBuf,
        /// Reason why the snapshot cannot be loaded.
        reason: String,
        /// Last zxid that the older snapshot and the logs reach.
        reached: Zxid,
    },
    /// There are logs but no snapshot.
    #[error(
        "{} does not contain a snapshot, but {} is a transaction log, so the server would start \
         without the snapshot's data. Restore the snapshot. After an upgrade from 3.4, or if the \
         logs are complete, start once with -Dzookeeper.snapshot.trust.empty=true",
        dir.display(), log.display()
    )]
    NoSnapshot {
        /// Path of the snapshot directory.
        dir: PathBuf,
        /// Path of one of the logs.
        log: PathBuf,
    },
    /// A snapshot is corrupted or cannot be read.
    #[error("snapshot {} is damaged at offset {offset}: {reason}", path.display())]
    SnapshotDamaged {
        /// Path of the snapshot.
        path: PathBuf,
        /// Offset in the (uncompressed) stream.
        offset: u64,
        /// Reason why the snapshot cannot be read.
        reason: String,
    },
    /// The files do not contain this server's whole history, and the server is standalone.
    #[error(
        "{} exists because this server's damaged logs and snapshots were set aside. Only a leader \
         can restore the data, so start this server as a member of its ensemble. To start it \
         alone, rename the aside.* files back (`aside.log.5` to `log.5`), repair them, and remove {}",
        marker.display(), marker.display()
    )]
    Untrusted {
        /// Path of the marker file.
        marker: PathBuf,
    },
    /// The log cannot be truncated as the leader requires.
    #[error("cannot truncate the log in {} to zxid {target}: {reason}", dir.display())]
    Truncate {
        /// Path of the log directory.
        dir: PathBuf,
        /// Zxid at which the leader requires the log to end.
        target: Zxid,
        /// Reason why the log cannot be truncated.
        reason: String,
    },
    /// An epoch file does not contain a number.
    #[error(
        "{} contains {content:?} instead of a decimal number; restore it, or write the epoch of \
         the last transaction into it", path.display()
    )]
    EpochFile {
        /// Path of the epoch file.
        path: PathBuf,
        /// First line of the file.
        content: String,
    },
    /// The epoch files contradict the data or each other.
    #[error(
        "{} contains epoch {found}, which is lower than epoch {least} of {of}; restore the file \
         (lowest valid number: {})", path.display(), least.0
    )]
    EpochOrder {
        /// Path of the epoch file.
        path: PathBuf,
        /// Epoch in the file.
        found: Epoch,
        /// Lowest valid epoch.
        least: Epoch,
        /// Data from which the lowest valid epoch is derived.
        of: String,
    },
    /// The file with the last seams (see [`note_seam`](crate::note_seam)), or the file with begins
    /// of epochs, is corrupted. The next start replaces the file with seams.
    #[error("{} cannot be read: {reason}", path.display())]
    Seam {
        /// Path of the file.
        path: PathBuf,
        /// Reason why the file cannot be read.
        reason: &'static str,
    },
}

/// The error code EIO, which is returned for an unreadable sector, among other causes.
const UNREADABLE: i32 = 5;

fn torn_note(torn_at: Option<u64>) -> String {
    torn_at.map_or_else(String::new, |at| format!(" (it is torn at offset {at})"))
}

/// Describes how to start with snapshots that are cut.
fn trusting_note(may_logs_suffice: bool) -> &'static str {
    if may_logs_suffice {
        ". If this is a member and the others are intact, start it once with \
         snapshot.trust.empty=false. If the logs are complete, move the snapshots away"
    } else {
        ""
    }
}

/// Describes how to return to the last transaction before a gap.
fn giving_up(path: &Path, before: &str, last: Zxid) -> String {
    let file = path.display();
    if before == described("log", path) {
        format!("run `zoarium log --chop {last} --replace {file}` and move later logs away")
    } else {
        format!("move {file} and later logs away")
    }
}

impl StorageError {
    /// Returns whether the error means that logs or snapshots are corrupted, unreadable or partly
    /// missing. A leader's copy can then replace them. The error message contains the file and the
    /// position.
    ///
    /// Returns `false` if there is no snapshot, which may be caused by a wrong `dataDir`, or if all
    /// snapshots are cut and the operator accepts logs without snapshots. Also returns `false` for
    /// a record that has a correct checksum but cannot be decoded, because another release may have
    /// written it. Moving the files aside would not help in any of these cases.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::LogDamaged { damage, .. } => !matches!(damage, Damage::Undecodable { .. }),
            Self::NoUsableSnapshot {
                may_logs_suffice, ..
            } => !may_logs_suffice,
            Self::LogHeader { .. } | Self::Gap { .. } | Self::SnapshotLost { .. } => true,
            Self::Io { path, source, .. } => {
                let name = path.file_name().and_then(|name| name.to_str());
                let is_history = name.is_some_and(|name| FileName::parse(name).zxid.is_some());
                is_history && source.raw_os_error() == Some(UNREADABLE)
            }
            _ => false,
        }
    }

    /// Returns the process's exit code, which equals Java's if Java has one (ExitCode).
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Directory { .. } | Self::Misplaced { .. } | Self::InUse { .. } => 3,
            Self::SnapshotWrite { .. } => 10,
            Self::Truncate { .. } => 13,
            _ => 1,
        }
    }
}

/// Returns a function for `map_err` that adds the operation and the file.
pub fn io_error(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> StorageError + use<> {
    let path = path.to_path_buf();
    move |source| StorageError::Io {
        action,
        path,
        source,
    }
}

/// Describes a log or snapshot in error messages.
pub(crate) fn described(kind: &str, path: &Path) -> String {
    format!("{kind} {}", path.display())
}
