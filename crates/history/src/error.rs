//! Errors of queries and of the writer.

use std::io;
use std::path::{Path, PathBuf};

use proto::Zxid;

/// Errors of the history. They do not affect the server that writes the history.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// A file cannot be read or written.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// Failed operation.
        what: &'static str,
        /// File that was accessed.
        path: PathBuf,
        /// Error returned by the operating system.
        source: io::Error,
    },
    /// A file is corrupted. The history must be moved aside and rebuilt.
    #[error("the history is damaged: {path}: {reason}")]
    Damaged {
        /// Path of the file, or of the index's directory.
        path: PathBuf,
        /// Reason why the file is considered corrupted.
        reason: String,
    },
    /// The files have a version that this build does not support.
    #[error("the history in {path} has format {found}, but this build reads format {known}")]
    Version {
        /// Directory of the history.
        path: PathBuf,
        /// Version of the files.
        found: u32,
        /// Supported version.
        known: u32,
    },
    /// The history was recorded with different path patterns.
    #[error("the history in {path} was recorded with different path patterns ({found})")]
    OtherPatterns {
        /// Directory of the history.
        path: PathBuf,
        /// Patterns with which the history was recorded.
        found: String,
    },
    /// The history contains a transaction that is not in the log, so the history belongs to another
    /// ensemble.
    #[error(
        "the history belongs to another ensemble: the log does not contain its transaction {zxid}"
    )]
    OtherEnsemble {
        /// Zxid of the transaction.
        zxid: Zxid,
    },
    /// The directory does not contain a history.
    #[error("{path} does not contain a change history")]
    Missing {
        /// Directory without a history.
        path: PathBuf,
    },
    /// The moment is later than the last recorded transaction.
    #[error("transaction {wanted} is not recorded yet: the history ends at {head}")]
    Future {
        /// Requested transaction.
        wanted: Zxid,
        /// Last recorded transaction.
        head: Zxid,
    },
    /// The moment is earlier than the oldest kept change.
    #[error("the tree at {wanted} is no longer stored: the history begins after {oldest}")]
    NotKept {
        /// Requested transaction.
        wanted: Zxid,
        /// Earliest moment for which the tree is known.
        oldest: Zxid,
    },
    /// The moment is in a hole.
    #[error("the history has a gap from {from} to {to}, so the trees in between are unknown")]
    Hole {
        /// Last transaction recorded before the hole.
        from: Zxid,
        /// First moment after the hole for which the tree is known.
        to: Zxid,
    },
    /// All recorded changes are later than the requested time.
    #[error("the history begins after the requested time{}", begin_text(*oldest_ms))]
    TooEarly {
        /// Time of the earliest known moment; 0 if that moment is the empty tree before the first
        /// change.
        oldest_ms: i64,
    },
    /// The patterns exclude this path.
    #[error("{path} is not recorded because of history.include and history.exclude")]
    NotRecorded {
        /// Excluded path.
        path: String,
    },
    /// A path or pattern is invalid.
    #[error("{text:?} is not a path: {reason}")]
    BadPath {
        /// Path or pattern that is invalid.
        text: String,
        /// Reason why it is invalid.
        reason: &'static str,
    },
    /// The viewer may not read the znode now, or could not read it at that moment.
    #[error("no permission to read {path}")]
    NoPermission {
        /// Path of the znode.
        path: String,
    },
    /// The query selects by origin, but the viewer may not see origins.
    #[error("`by` and `session` select changes by their origin, which only administrators may see")]
    OriginHidden,
    /// The client no longer waits for the answer.
    #[error("the query was cancelled because its client disconnected")]
    Abandoned,
    /// The zxid of a transaction is not above the zxid of the last recorded transaction.
    #[error("transaction {got} does not follow {head}")]
    OutOfTurn {
        /// Zxid of the transaction.
        got: Zxid,
        /// Zxid of the last recorded transaction.
        head: Zxid,
    },
}

/// Result of an operation of the history.
pub type Result<T, E = HistoryError> = std::result::Result<T, E>;

impl HistoryError {
    /// Returns whether the files are unusable. After they have been moved aside, the history can be
    /// rebuilt from a snapshot and the log.
    pub fn is_unusable(&self) -> bool {
        matches!(
            self,
            Self::Damaged { .. }
                | Self::Version { .. }
                | Self::OtherPatterns { .. }
                | Self::OtherEnsemble { .. }
        )
    }

    /// Returns whether the tree at the requested moment is unknown.
    pub fn is_unknown_moment(&self) -> bool {
        matches!(self, Self::NotKept { .. } | Self::Hole { .. })
    }

    /// Returns whether the disk is full.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if matches!(
            source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        ))
    }

    pub(crate) fn damaged(path: &Path, reason: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_path_buf(),
            reason: reason.into(),
        }
    }
}

/// Returns the time of the earliest known moment as a part of a sentence, or an empty string for 0.
fn begin_text(oldest_ms: i64) -> String {
    match oldest_ms {
        0 => String::new(),
        ms => format!(", at {}", crate::time_text(ms)),
    }
}

/// Returns a function for `map_err` that adds the operation and the file.
pub(crate) fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> HistoryError {
    let path = path.to_path_buf();
    move |source| HistoryError::Io { what, path, source }
}
