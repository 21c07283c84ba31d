//! Errors of operations on data directories.

use std::io;
use std::path::Path;

use storage::StorageError;

/// Reason why an operation on a data directory failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file is corrupt, or an operation on it failed.
    #[error("{0}")]
    Storage(#[from] StorageError),
    /// The output could not be written.
    #[error("cannot print: {0}")]
    Print(io::Error),
    /// The files do not match the request. The caller should name other files or another moment.
    #[error("{0}")]
    Usage(String),
    /// A file cannot be created, read or written, a request is not permitted, or a check of the
    /// data failed.
    #[error("{0}")]
    Refused(String),
}

/// Returns a function for `map_err` that adds the operation and the file.
pub fn file_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = path.display().to_string();
    move |error| Error::Refused(format!("cannot {action} {path}: {error}"))
}
