//! Files of the audit log: the current file and numbered older files.
//!
//! Source: logback's FixedWindowRollingPolicy and SizeBasedTriggeringPolicy, as configured in
//! conf/logback.xml.

#![allow(
    clippy::disallowed_methods,
    reason = "runs on the audit thread, and at the start of the server"
)]

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// File that grows up to a maximum size. It is then renamed to `<name>.1`, `<name>.1` to
/// `<name>.2`, and so on, and the oldest file is removed.
pub(super) struct RollingFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
    kept: u32,
    /// Text that has not been written yet.
    gathered: Vec<u8>,
}

/// Number of bytes that are buffered before they are written.
const GATHERED_MAX: usize = 64 << 10;

impl RollingFile {
    /// Opens or creates the file. Keeps `kept` older files.
    pub(super) fn open(path: &Path, bytes_max: u64, kept: u32) -> io::Result<Self> {
        let (file, bytes) = open(path)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            bytes,
            bytes_max,
            kept,
            gathered: Vec::new(),
        })
    }

    /// Appends a line. The line may be in memory until [`Self::flush`].
    ///
    /// # Errors
    /// If the file cannot be renamed, in which case the line goes to the old file, or if the
    /// buffered text cannot be written, in which case the text is lost.
    pub(super) fn append(&mut self, line: &str) -> io::Result<()> {
        let rolled = if self.bytes + self.gathered.len() as u64 >= self.bytes_max {
            self.flush().and_then(|()| self.roll())
        } else {
            Ok(())
        };
        self.gathered.extend_from_slice(line.as_bytes());
        self.gathered.push(b'\n');
        if self.gathered.len() >= GATHERED_MAX {
            self.flush()?;
        }
        rolled
    }

    /// Writes the buffered text. Drops text that cannot be written, so that it cannot accumulate.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        blocking::mark("write the audit log");
        let written = self.file.write_all(&self.gathered);
        self.bytes += self.gathered.len() as u64;
        self.gathered.clear();
        written
    }

    /// Renames the files. If renaming fails, the same file remains in use.
    fn roll(&mut self) -> io::Result<()> {
        remove_if_there(&self.numbered(self.kept))?;
        for number in (1..self.kept).rev() {
            let (from, to) = (self.numbered(number), self.numbered(number + 1));
            rename_if_there(&from, &to)?;
        }
        rename_if_there(&self.path, &self.numbered(1))?;
        (self.file, self.bytes) = open(&self.path)?;
        Ok(())
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(format!(".{number}"));
        name.into()
    }
}

/// Checks whether the audit log can be opened at this path. Does not change anything.
///
/// # Errors
/// If the file, or the directory in which it would be created, cannot be written.
pub fn check(path: &Path) -> io::Result<()> {
    if path.symlink_metadata().is_ok() {
        return OpenOptions::new().append(true).open(path).map(drop);
    }
    // A relative path is relative to the working directory.
    let whole = std::path::absolute(path)?;
    let mut dirs = whole.ancestors().skip(1);
    let dir = dirs.find(|dir| dir.symlink_metadata().is_ok());
    let dir = dir.unwrap_or(Path::new("/"));
    if !dir.is_dir() {
        let reason = format!("{} is not a directory", dir.display());
        return Err(io::Error::new(io::ErrorKind::NotADirectory, reason));
    }
    Ok(access(dir, Access::WRITE_OK | Access::EXEC_OK)?)
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    blocking::mark("open the audit log");
    if let Some(parent) = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        fs::create_dir_all(parent)?;
    }
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    fs::remove_file(path).or_else(unless_absent)
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to).or_else(unless_absent)
}

fn unless_absent(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(dir: &Path, name: &str) -> Option<String> {
        fs::read_to_string(dir.join(name)).ok()
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_found_without_a_change() {
        let dir = tempfile::tempdir().unwrap();
        check(&dir.path().join("logs/audit.log")).unwrap();
        assert!(!dir.path().join("logs").exists());
        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        check(&file).unwrap();
        assert!(check(&file.join("audit.log")).is_err());
        assert!(check(dir.path()).is_err());
    }

    #[test]
    fn full_files_move_up_by_one_and_the_oldest_goes() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = RollingFile::open(&dir.path().join("audit.log"), 10, 2).unwrap();
        for line in ["first", "second", "third", "fourth", "fifth", "6", "7"] {
            log.append(line).unwrap();
        }
        log.flush().unwrap();
        let text = |name| read(dir.path(), name);
        assert_eq!(text("audit.log").as_deref(), Some("fifth\n6\n7\n"));
        assert_eq!(text("audit.log.1").as_deref(), Some("third\nfourth\n"));
        assert_eq!(text("audit.log.2").as_deref(), Some("first\nsecond\n"));
        assert_eq!(text("audit.log.3"), None);
    }

    #[test]
    fn a_file_that_is_there_is_continued_and_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logs/audit.log");
        let mut log = RollingFile::open(&path, 8, 3).unwrap();
        log.append("before").unwrap();
        log.flush().unwrap();
        let mut log = RollingFile::open(&path, 8, 3).unwrap();
        log.append("x").unwrap();
        log.append("behind").unwrap();
        log.flush().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "behind\n");
        assert_eq!(read(dir.path(), "logs/audit.log.1").unwrap(), "before\nx\n");
    }

    #[test]
    fn lines_go_on_in_the_same_file_if_it_cannot_be_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = RollingFile::open(&dir.path().join("audit.log"), 1, 1).unwrap();
        log.append("one").unwrap();
        log.flush().unwrap();
        // A non-empty directory prevents the rename to audit.log.1.
        fs::create_dir_all(dir.path().join("audit.log.1/in")).unwrap();
        assert!(log.append("two").is_err());
        fs::remove_dir_all(dir.path().join("audit.log.1")).unwrap();
        log.append("three").unwrap();
        log.flush().unwrap();
        assert_eq!(read(dir.path(), "audit.log.1").unwrap(), "one\ntwo\n");
        assert_eq!(read(dir.path(), "audit.log").unwrap(), "three\n");
    }
}
