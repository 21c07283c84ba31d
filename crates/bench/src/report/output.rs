//! Standard output, which its reader may close early, and the files of a report.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use crate::error::{BenchError, Result};

/// Prints a short text. It is not an error if a reader such as `head` has closed the output.
pub fn print(text: &str) {
    let mut out = terminal::stdout();
    let printed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if let Err(error) = printed
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        terminal::complain!("zoarium: cannot print: {error}");
    }
}

/// Writes a file of a report. Creates its directory if it is missing.
pub(crate) fn write(dir: &Path, name: &str, text: &str) -> Result<()> {
    let file = dir.join(name);
    let written = fs::create_dir_all(dir).and_then(|()| fs::write(&file, text));
    written.map_err(BenchError::io(format!("write {}", file.display())))
}
