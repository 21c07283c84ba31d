//! Errors of this program.

use bench::measure::MeasureError;

pub(crate) type Result<T, E = LabError> = std::result::Result<T, E>;

/// Error that ends the run. A failed measurement is part of the report instead.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LabError {
    #[error("{0}")]
    Argument(String),
    #[error("cannot draw {file}: {reason}")]
    Drawing { file: String, reason: String },
    #[error(transparent)]
    Measure(#[from] MeasureError),
}
