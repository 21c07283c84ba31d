//! Standard output that may be long, and whose reader may have enough of it.

use std::io::{self, BufWriter, Write};

use clap::ValueEnum;

/// How an answer looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    Text,
    /// One object a line, or one in all
    Json,
}

/// Writes through one large buffer. What `write` returns is returned; an error of the last flush
/// counts like one in between.
///
/// # Errors
/// What `write` says, and output errors.
pub(crate) fn write_stdout<T, E: From<io::Error>>(
    write: impl FnOnce(&mut dyn Write) -> Result<T, E>,
) -> Result<T, E> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, terminal::stdout());
    let value = write(&mut out)?;
    out.flush()?;
    Ok(value)
}

const BUFFER_BYTES: usize = 64 << 10;
