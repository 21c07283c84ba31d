//! Standard output that may be long, and whose reader may have enough of it.

use std::io::{self, BufWriter, Write};

/// Writes through one large buffer. What `write` returns is returned; an error of the last flush
/// counts like one in between.
///
/// # Errors
/// What `write` says, and output errors.
pub(crate) fn write_stdout<T, E: From<io::Error>>(
    write: impl FnOnce(&mut dyn Write) -> Result<T, E>,
) -> Result<T, E> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
    let value = write(&mut out)?;
    out.flush()?;
    Ok(value)
}

/// Prints a short text. A reader that has gone away, like `head`, is no reason to complain.
pub(crate) fn print(text: &str) {
    let printed = write_stdout(|out| out.write_all(text.as_bytes()));
    if let Err(error) = printed
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        eprintln!("zoarium: cannot print: {error}");
    }
}

const BUFFER_BYTES: usize = 64 << 10;
