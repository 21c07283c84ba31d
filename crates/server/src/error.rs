//! Why a server does not start.

use std::io;
use std::net::SocketAddr;

use storage::StorageError;

/// Why a server does not start, with the exit code that operators' scripts know.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The data directory cannot be used or does not recover.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// An address cannot be listened on.
    #[error(
        "cannot listen for clients on {address}: {source} (another server may be running there; see clientPort and clientPortAddress)"
    )]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's answer.
        source: io::Error,
    },
    /// The configuration asks for what this build does not do.
    #[error("{0}")]
    Unsupported(String),
    /// A thread cannot be started.
    #[error("cannot start the {name} thread: {source}")]
    Thread {
        /// Which.
        name: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

impl StartError {
    /// The process's exit code. Source: ExitCode, storage-formats.md section 14.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Storage(error) => exit_code(error),
            Self::Bind { .. } | Self::Thread { .. } => 1,
            Self::Unsupported(_) => 2,
        }
    }
}

/// The exit code of a storage failure, which is never 0.
pub(crate) fn exit_code(error: &StorageError) -> u8 {
    u8::try_from(error.exit_code()).unwrap_or(1).max(1)
}
