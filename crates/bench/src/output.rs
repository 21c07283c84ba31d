//! Standard output, whose reader may have enough of it, and files of a report.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use super::error::{BenchError, Result};

/// Prints a short text. A reader that has gone away, like `head`, is no reason to complain.
pub(crate) fn print(text: &str) {
    let mut out = terminal::stdout();
    let printed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if let Err(error) = printed
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        terminal::complain!("zoarium: cannot print: {error}");
    }
}

/// Writes a file of a report, in a directory that is made if it is missing.
pub(crate) fn write(dir: &Path, name: &str, text: &str) -> Result<()> {
    let file = dir.join(name);
    let written = fs::create_dir_all(dir).and_then(|()| fs::write(&file, text));
    written.map_err(BenchError::io(format!("write {}", file.display())))
}
