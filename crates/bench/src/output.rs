//! Standard output, whose reader may have enough of it.

use std::io::{self, Write};

/// Prints a short text. A reader that has gone away, like `head`, is no reason to complain.
pub(crate) fn print(text: &str) {
    let mut out = io::stdout().lock();
    let printed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if let Err(error) = printed
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        eprintln!("zoarium: cannot print: {error}");
    }
}
