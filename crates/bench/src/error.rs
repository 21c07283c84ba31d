//! Errors of a benchmark.

use std::io;
use std::sync::Arc;

use client::Code;

pub(crate) type Result<T, E = BenchError> = std::result::Result<T, E>;

/// Error that ends the run. Errors of single operations are only counted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    #[error("{0}")]
    Client(#[from] client::Error),
    #[error(
        "{0}; a server accepts only maxClientCnxns connections from one address (60 by default)"
    )]
    TooManyConnections(client::Error),
    #[error("cannot {what} at {server}: {}", Code(*.code))]
    Refused {
        what: String,
        server: Arc<str>,
        code: i32,
    },
    #[error("cannot {what} at {server}: {reason}")]
    Lost {
        what: String,
        server: Arc<str>,
        reason: client::LossReason,
    },
    #[error("cannot {what}: {source}")]
    Io { what: String, source: io::Error },
    #[error("the run was cancelled because the servers did not answer for {0} s")]
    Stalled(u64),
    #[error("{0}")]
    Argument(String),
    #[error("--tls: {0}")]
    Tls(#[from] client::tls::TlsError),
}

impl BenchError {
    /// Returns a function that adds the failed operation to an I/O error.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
