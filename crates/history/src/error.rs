//! Why the history has no answer, or cannot be written.

use std::io;
use std::path::{Path, PathBuf};

use proto::Zxid;

/// Errors of the history. None of them concerns the server that feeds it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// A file cannot be read or written.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file does not hold what it should. The history is to be moved aside and made again.
    #[error("the history is damaged: {path}: {reason}")]
    Damaged {
        /// The file, or the directory of the index.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The files are of a version that this build does not know.
    #[error("the history in {path} has format {found}, this build reads {known}")]
    Version {
        /// The directory.
        path: PathBuf,
        /// What it says.
        found: u32,
        /// What can be read.
        known: u32,
    },
    /// It was recorded with other patterns of paths.
    #[error("the history in {path} was recorded with other patterns of paths ({found})")]
    OtherPatterns {
        /// The directory.
        path: PathBuf,
        /// Those that it was recorded with.
        found: String,
    },
    /// It has a transaction that the log has not: it is another ensemble's.
    #[error("the history has another transaction {zxid} than the log: it is of another ensemble")]
    OtherEnsemble {
        /// Which.
        zxid: Zxid,
    },
    /// There is no history in that directory.
    #[error("there is no history in {path}")]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// That time has not come.
    #[error("transaction {wanted} is not recorded yet: the history reaches to {head}")]
    Future {
        /// What was asked for.
        wanted: Zxid,
        /// The last transaction recorded.
        head: Zxid,
    },
    /// That far back nothing is kept.
    #[error("the tree at {wanted} is no longer kept: the history begins after {oldest}")]
    NotKept {
        /// What was asked for.
        wanted: Zxid,
        /// The earliest moment for which the tree is known.
        oldest: Zxid,
    },
    /// Nothing was recorded at that time.
    #[error("the history has a hole from {from} to {to}: the tree between is not known")]
    Hole {
        /// The last transaction recorded before it.
        from: Zxid,
        /// The first moment behind it for which the tree is known.
        to: Zxid,
    },
    /// No time of a recorded change is that early.
    #[error(
        "no recorded change is as old as that: the history begins at {oldest_ms} ms since 1970"
    )]
    TooEarly {
        /// The time of the earliest moment that is known.
        oldest_ms: i64,
    },
    /// The patterns leave this path out.
    #[error("{path} is not recorded: history.include and history.exclude leave it out")]
    NotRecorded {
        /// The path.
        path: String,
    },
    /// A path or pattern that makes no sense.
    #[error("{text:?} is not a path: {reason}")]
    BadPath {
        /// What was given.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The caller may not read the znode, now or then.
    #[error("no permission to read {path}")]
    NoPermission {
        /// The znode.
        path: String,
    },
    /// A query chooses by origin, and the caller may not see origins.
    #[error("by and session choose changes by their origin, which only administrators may see")]
    OriginHidden,
    /// Whoever asked does not wait for the answer any more.
    #[error("the query was given up: nobody waits for its answer")]
    Abandoned,
    /// A transaction came out of turn.
    #[error("transaction {got} does not follow {head}")]
    OutOfTurn {
        /// What came.
        got: Zxid,
        /// What was recorded last.
        head: Zxid,
    },
}

/// Results of the history.
pub type Result<T, E = HistoryError> = std::result::Result<T, E>;

impl HistoryError {
    /// Whether the files are of no use any more: moved aside, they can be made again from snapshot
    /// and log.
    pub fn is_unusable(&self) -> bool {
        matches!(
            self,
            Self::Damaged { .. }
                | Self::Version { .. }
                | Self::OtherPatterns { .. }
                | Self::OtherEnsemble { .. }
        )
    }

    /// Whether the tree of that moment is not known.
    pub fn is_unknown_moment(&self) -> bool {
        matches!(self, Self::NotKept { .. } | Self::Hole { .. })
    }

    /// Whether the disk is full.
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

/// For `map_err`: what was tried with which file.
pub(crate) fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> HistoryError {
    let path = path.to_path_buf();
    move |source| HistoryError::Io { what, path, source }
}
