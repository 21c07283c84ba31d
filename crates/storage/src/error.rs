//! What can go wrong with files, each with the file, the place and the way out.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use proto::{Epoch, Zxid};

use crate::log::judge::Damage;
use crate::names::FileName;

/// Why a [`State`](crate::State) refuses what a snapshot holds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ContentError(String);

impl ContentError {
    /// A reason, in words for the operator.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// A failure of storage. The text names file and place, what is wrong, and what helps.
///
/// None of them is worth a retry: the server stops, or (snapshot writing) goes on without.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// Verb of what was tried.
        action: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A data directory is missing or cannot be used.
    #[error("data directory {} cannot be used: {reason}", dir.display())]
    Directory {
        /// Which.
        dir: PathBuf,
        /// Why.
        reason: String,
    },
    /// A log in the snapshot directory or the other way round: the two paths were mixed up.
    #[error(
        "{} is a {kind} file in the {} directory: check dataDir and dataLogDir",
        file.display(),
        if *kind == "log" { "snapshot" } else { "log" }
    )]
    Misplaced {
        /// The file.
        file: PathBuf,
        /// `log` or `snapshot`.
        kind: &'static str,
    },
    /// Another process has the directory open.
    #[error("data directory {} is in use by another process", dir.display())]
    InUse {
        /// Which.
        dir: PathBuf,
    },
    /// A log could not be written or synced: nothing of the group may be acknowledged.
    #[error("cannot {action} log {} at offset {offset}: {source}", path.display())]
    LogWrite {
        /// `create`, `write`, `sync`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Where the group begins.
        offset: u64,
        /// The system's answer.
        source: io::Error,
    },
    /// An earlier write or sync failed, so nobody knows what is on the disk.
    #[error("log writer is out of use since a write or sync failed")]
    LogPoisoned,
    /// A log of the name exists and holds transactions: writing it anew would destroy them.
    #[error(
        "log {} exists and holds transactions; it is not overwritten. Move it away if they are \
         not wanted",
        path.display()
    )]
    LogExists {
        /// The file.
        path: PathBuf,
    },
    /// A snapshot could not be written.
    #[error("cannot {action} snapshot {}: {source}", path.display())]
    SnapshotWrite {
        /// `create`, `write`, `sync`, `rename`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A log does not begin like one.
    #[error("{} is not a transaction log: {reason}. If it holds nothing of value, move it away", path.display())]
    LogHeader {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Damage in a log that no crash explains.
    #[error(
        "log {} is damaged at offset {offset}: {damage}. Everything up to zxid {last_good} is \
         readable. `zoarium log --verify {}` shows the file, `zoarium log --repair --replace {}` \
         puts a repaired copy in its place and keeps the original",
        path.display(), path.display(), path.display()
    )]
    LogDamaged {
        /// The file.
        path: PathBuf,
        /// Where the damaged record begins.
        offset: u64,
        /// What is wrong.
        damage: Damage,
        /// The last transaction before it; in an empty file the one before its name.
        last_good: Zxid,
    },
    /// Transactions are missing between two that are there.
    #[error(
        "transactions are missing: {} at offset {offset} goes on with zxid {next}, but {before} \
         ends with {last}{}. Put the missing log back; to give up everything after {last} instead, \
         {}",
        path.display(), torn_note(*torn_at), giving_up(path, before, *last)
    )]
    Gap {
        /// The file that goes on too far.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What it goes on with.
        next: Zxid,
        /// The log or snapshot before.
        before: String,
        /// What that ends with.
        last: Zxid,
        /// Where the log before is torn, if it is.
        torn_at: Option<u64>,
    },
    /// No snapshot could be loaded though there are some.
    #[error(
        "no snapshot in {} can be loaded; the newest, {}: {reason}. Put back a good one",
        dir.display(), newest.display()
    )]
    NoUsableSnapshot {
        /// Snapshot directory.
        dir: PathBuf,
        /// The newest one.
        newest: PathBuf,
        /// Why it does not load.
        reason: String,
    },
    /// A newer snapshot is damaged and the logs do not lead to its transaction.
    #[error(
        "snapshot {} cannot be loaded ({reason}) and the rest leads only to zxid {reached} on the \
         way to it: transactions would be lost. Put back a good copy or the missing logs; to give \
         up everything after {reached} instead, move the snapshot and all later logs away",
        path.display()
    )]
    SnapshotLost {
        /// The damaged snapshot.
        path: PathBuf,
        /// Why it does not load.
        reason: String,
        /// How far the older snapshot and the logs lead towards it.
        reached: Zxid,
    },
    /// Logs but no snapshot at all.
    #[error(
        "there is no snapshot in {}, but {} is a transaction log: the database would start \
         without what the snapshot held. Put the snapshot back; after an upgrade from 3.4 or with \
         the complete history in the logs, start once with -Dzookeeper.snapshot.trust.empty=true",
        dir.display(), log.display()
    )]
    NoSnapshot {
        /// Snapshot directory.
        dir: PathBuf,
        /// A log.
        log: PathBuf,
    },
    /// A snapshot is damaged (when asked for this one only).
    #[error("snapshot {} is damaged at offset {offset}: {reason}", path.display())]
    SnapshotDamaged {
        /// The file.
        path: PathBuf,
        /// Offset in the (uncompressed) stream.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// The files are not this server's whole history, and it stands alone.
    #[error(
        "{} says that this server's logs and snapshots were damaged and set aside: only a leader \
         can give it the data back. Let it join its ensemble again; to start it alone, rename the \
         aside.* files back (`aside.log.5` to `log.5`), repair them, and remove {}",
        marker.display(), marker.display()
    )]
    Untrusted {
        /// The marker.
        marker: PathBuf,
    },
    /// The log cannot be cut as the leader wants it.
    #[error("cannot truncate the log in {} to zxid {target}: {reason}", dir.display())]
    Truncate {
        /// Log directory.
        dir: PathBuf,
        /// What the leader asked for.
        target: Zxid,
        /// Why not.
        reason: String,
    },
    /// An epoch file does not hold a number.
    #[error(
        "{} holds {content:?} where a decimal number is expected; restore it, or write the epoch \
         of the last transaction into it", path.display()
    )]
    EpochFile {
        /// The file.
        path: PathBuf,
        /// Its first line.
        content: String,
    },
    /// The epoch files contradict the data or each other.
    #[error("{} holds epoch {found}, below {least} of {of}", path.display())]
    EpochOrder {
        /// The file.
        path: PathBuf,
        /// What it holds.
        found: Epoch,
        /// What it has to be at least.
        least: Epoch,
        /// Where that comes from.
        of: String,
    },
    /// The file that says where the log is parted is damaged. The next start makes it anew.
    #[error("{} cannot be read: {reason}", path.display())]
    Seam {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: &'static str,
    },
}

/// EIO, as for a sector that the disk cannot read any more.
const UNREADABLE: i32 = 5;

fn torn_note(torn_at: Option<u64>) -> String {
    torn_at.map_or_else(String::new, |at| format!(" (it is torn at offset {at})"))
}

/// How to go back to the last transaction before a gap.
fn giving_up(path: &Path, before: &str, last: Zxid) -> String {
    let file = path.display();
    if before == described("log", path) {
        format!("run `zoarium log --chop {last} --replace {file}` and move later logs away")
    } else {
        format!("move {file} and later logs away")
    }
}

impl StorageError {
    /// Whether logs or snapshots do not hold what they once held, cannot be read from the disk, or a
    /// part of them is missing: what a leader's copy makes good. The text says which file and where.
    ///
    /// Not when there is no snapshot at all, as in a wrong `dataDir`, and not a record with a right
    /// checksum that this release cannot read, as another release may have written it: moving the
    /// files would mend neither.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::LogDamaged { damage, .. } => !matches!(damage, Damage::Undecodable { .. }),
            Self::LogHeader { .. }
            | Self::Gap { .. }
            | Self::NoUsableSnapshot { .. }
            | Self::SnapshotLost { .. } => true,
            Self::Io { path, source, .. } => {
                let name = path.file_name().and_then(|name| name.to_str());
                let is_history = name.is_some_and(|name| FileName::parse(name).zxid.is_some());
                is_history && source.raw_os_error() == Some(UNREADABLE)
            }
            _ => false,
        }
    }

    /// The process's exit code, Java's where Java has one (ExitCode).
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Directory { .. } | Self::Misplaced { .. } | Self::InUse { .. } => 3,
            Self::SnapshotWrite { .. } => 10,
            Self::Truncate { .. } => 13,
            _ => 1,
        }
    }
}

/// For `map_err`: adds what was tried on which file.
pub(crate) fn io_error(
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

/// A log or snapshot and how far it reaches, for texts.
pub(crate) fn described(kind: &str, path: &Path) -> String {
    format!("{kind} {}", path.display())
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checksum { stored, computed } => write!(
                f,
                "the record's checksum is {stored:#x}, but its bytes give {computed:#x}"
            ),
            Self::Length { found, limit } => write!(
                f,
                "the record's length is {found}, out of range (limit {limit})"
            ),
            Self::WrongLength { found, actual } => write!(
                f,
                "the record's length is {found}, but the record that fits its checksum has {actual} \
                 bytes"
            ),
            Self::EndByte { found } => write!(
                f,
                "the record's end byte is {found:#04x} instead of 0x42, and more follows or its \
                 checksum is right"
            ),
            Self::Followed { offset, zxid } => write!(
                f,
                "the record is incomplete, but a complete one of zxid {zxid} follows at offset \
                 {offset}"
            ),
            Self::Junk { offset } => {
                write!(
                    f,
                    "no record begins here, but bytes follow up to offset {offset}"
                )
            }
            Self::Undecodable { reason } => {
                write!(
                    f,
                    "the record's checksum is right, but it cannot be read: {reason}"
                )
            }
        }
    }
}
