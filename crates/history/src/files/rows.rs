//! The rows of the index: small records by key, written together or not at all.
//!
//! [`Rows`] is all that the history knows of the store below it. What ships is [`SledRows`].

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use blocking::files;
use parking_lot::Mutex;

use crate::error::{HistoryError, Result, io_error};

/// What is written at once: `None` removes.
pub(crate) type Writes = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// Small records by key.
pub(crate) trait Rows: Send {
    /// All records whose key begins with `prefix`, in the order of the keys.
    fn scan(&self, prefix: u8) -> Result<Vec<(Vec<u8>, Vec<u8>)>>;

    /// Writes all of it or, if the process ends, nothing.
    fn write(&self, writes: Writes) -> Result<()>;

    /// Puts on the disk what was written.
    fn sync(&self) -> Result<()>;

    /// Bytes on disk.
    fn bytes_on_disk(&self) -> u64;
}

/// Leaves of the tree hold so many rows: each is some 50 bytes, and a changed leaf is written whole.
const LEAF_ROWS: usize = 128;
/// For all leaves that are read.
const CACHE_BYTES: usize = 1 << 20;

/// Instances of sled that may be left behind in a directory before it is not opened again: each holds some 100 open
/// files.
const LEFT_MAX: usize = 4;
/// How many this process has left behind in which directory.
static LEFT: LazyLock<Mutex<HashMap<PathBuf, usize>>> = LazyLock::new(Mutex::default);

/// Rows in sled.
///
/// Each value has a checksum of key and value in front (crc32): what sled hands out is believed no
/// more than what any other file holds.
///
/// After an error sled must not even be dropped: it flushes then, and a flush waits for the one before
/// it, for ever if that has failed. So it is left behind, with its threads, files and the lock on its
/// directory; that gets another name, and [`SledRows::open`] goes on with a copy.
pub(crate) struct SledRows {
    /// `None` from the end on.
    db: Option<sled::Db<LEAF_ROWS>>,
    path: PathBuf,
    has_failed: AtomicBool,
    /// Files and directories whose modes need no more care: they existed before, or have the mode of data.
    seen: Mutex<BTreeSet<PathBuf>>,
}

impl SledRows {
    /// Opens the directory; makes it if it is not there.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if LEFT.lock().get(path).is_some_and(|left| *left >= LEFT_MAX) {
            let error = io::Error::other(format!(
                "it could not be written {LEFT_MAX} times; mend the disk and restart the server"
            ));
            return Err(io_error("use the index", path)(error));
        }
        take_back(path)?;
        files::create_dir_all(path).map_err(io_error("create", path))?;
        // A process may have been killed before it set the mode of a file in a directory that it had made.
        let before = match files::is_restricted(path) {
            true => BTreeSet::new(),
            false => files_below(path),
        };
        let mut config = sled::Config::new()
            .path(path)
            .cache_capacity_bytes(CACHE_BYTES);
        // Only when what the rows point to is on disk.
        config.flush_every_ms = None;
        let rows = Self {
            db: Some(config.open().map_err(opening(path))?),
            path: path.to_path_buf(),
            has_failed: AtomicBool::new(false),
            seen: Mutex::new(before),
        };
        rows.restrict_new_files();
        Ok(rows)
    }

    fn ask<T>(&self, ask: impl FnOnce(&sled::Db<LEAF_ROWS>) -> io::Result<T>) -> Result<T> {
        let closed = || io::Error::other("it is closed");
        let answer = self.db.as_ref().ok_or_else(closed).and_then(ask);
        answer.map_err(opening(&self.path))
    }

    fn change(&self, change: impl FnOnce(&sled::Db<LEAF_ROWS>) -> io::Result<()>) -> Result<()> {
        let changed = self.ask(change);
        if changed.is_err() {
            self.has_failed.store(true, Ordering::Relaxed);
        }
        changed
    }
}

impl SledRows {
    /// sled creates files without a mode. The mode of their directory protects them until now.
    fn restrict_new_files(&self) {
        let mut seen = self.seen.lock();
        for path in files_below(&self.path) {
            if seen.contains(&path) {
                continue;
            }
            match files::restrict(&path) {
                Ok(()) => {
                    seen.insert(path);
                }
                // sled removes files that it has merged into others.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    tracing::debug!(err = %error, path = %path.display(), "cannot set the mode of a file");
                }
            }
        }
    }
}

/// All files and directories below this one. sled has two levels.
fn files_below(path: &Path) -> BTreeSet<PathBuf> {
    let list = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let mut found = BTreeSet::new();
    for entry in list(path) {
        found.extend(list(&entry.path()).map(|inner| inner.path()));
        found.insert(entry.path());
    }
    found
}

impl Drop for SledRows {
    fn drop(&mut self) {
        let has_failed = self.has_failed.load(Ordering::Relaxed) || self.sync().is_err();
        let Some(db) = self.db.take_if(|_| has_failed) else {
            return;
        };
        *LEFT.lock().entry(self.path.clone()).or_default() += 1;
        std::mem::forget(db);
        if let Err(error) = fs::rename(&self.path, left(&self.path)) {
            tracing::debug!(err = %error, path = %self.path.display(), "cannot rename an index that has failed");
        }
    }
}

/// Where an index is whose instance of sled was left behind.
fn left(path: &Path) -> PathBuf {
    path.with_extension("left")
}

/// Whether there is an index, in use or left behind.
pub(crate) fn are_there(path: &Path) -> bool {
    path.is_dir() || left(path).is_dir()
}

/// A copy of what was left behind takes its place: files that nobody has open or locked.
fn take_back(path: &Path) -> Result<()> {
    let left = left(path);
    if !left.is_dir() {
        return Ok(());
    }
    let again = || {
        if !path.is_dir() {
            let copy = path.with_extension("copy");
            if copy.is_dir() {
                fs::remove_dir_all(&copy)?;
            }
            copy_below(&left, &copy)?;
            fs::rename(&copy, path)?;
            let dir = path.parent().unwrap_or(path);
            fs::File::open(dir)?.sync_all()?;
        }
        fs::remove_dir_all(&left)
    };
    again().map_err(io_error("copy", &left))
}

/// Copies a directory, and syncs all of it.
fn copy_below(from: &Path, to: &Path) -> io::Result<()> {
    files::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_below(&entry.path(), &target)?;
        } else {
            files::copy(&entry.path(), &target)?;
        }
    }
    fs::File::open(to)?.sync_all()
}

/// Damage shows as invalid data; another process that has it open as a lock that is held.
fn opening(path: &Path) -> impl FnOnce(io::Error) -> HistoryError {
    let path = path.to_path_buf();
    move |error| match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
            HistoryError::damaged(&path, error.to_string())
        }
        _ => io_error("use the index", &path)(error),
    }
}

fn checksum(key: &[u8], value: &[u8]) -> [u8; 4] {
    let mut crc = crc32fast::Hasher::new();
    crc.update(key);
    crc.update(value);
    crc.finalize().to_be_bytes()
}

impl Rows for SledRows {
    fn scan(&self, prefix: u8) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut found = Vec::new();
        let rows: Vec<_> = self.ask(|db| db.scan_prefix([prefix]).collect())?;
        for (key, value) in rows {
            let Some((crc, value)) = value.split_first_chunk() else {
                return Err(HistoryError::damaged(&self.path, "a row is too short"));
            };
            if *crc != checksum(&key, value) {
                return Err(HistoryError::damaged(
                    &self.path,
                    "a row's checksum is wrong",
                ));
            }
            found.push((key.to_vec(), value.to_vec()));
        }
        Ok(found)
    }

    fn write(&self, writes: Writes) -> Result<()> {
        let mut batch = sled::Batch::default();
        for (key, value) in writes {
            match value {
                Some(value) => {
                    let mut checked = checksum(&key, &value).to_vec();
                    checked.extend_from_slice(&value);
                    batch.insert(key, checked);
                }
                None => batch.remove(key),
            }
        }
        self.change(|db| db.apply_batch(batch))
    }

    fn sync(&self) -> Result<()> {
        self.change(|db| db.flush().map(drop))?;
        self.restrict_new_files();
        Ok(())
    }

    fn bytes_on_disk(&self) -> u64 {
        bytes_below(&self.path)
    }
}

/// Bytes that the files below a directory take up.
pub(crate) fn bytes_below(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => bytes_below(&entry.path()),
            Ok(meta) => meta.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

/// Keys of the rows.
pub(crate) mod keys {
    /// The state of the index: one row.
    pub(crate) const INDEX: u8 = b'i';
    /// The block that is being filled: one row.
    pub(crate) const OPEN: u8 = b'o';
    /// Blocks by number.
    pub(crate) const BLOCK: u8 = b'b';
    /// Runs by number.
    pub(crate) const RUN: u8 = b'r';
    /// Ephemerals by path: the session.
    pub(crate) const EPHEMERAL: u8 = b'e';

    /// The key of a numbered row.
    pub(crate) fn numbered(kind: u8, number: u64) -> Vec<u8> {
        let mut key = vec![kind];
        key.extend_from_slice(&number.to_be_bytes());
        key
    }

    /// The number of such a key.
    pub(crate) fn number(key: &[u8]) -> Option<u64> {
        let (_, number) = key.split_first()?;
        Some(u64::from_be_bytes(number.try_into().ok()?))
    }

    /// The key of an ephemeral.
    pub(crate) fn ephemeral(path: &str) -> Vec<u8> {
        let mut key = vec![EPHEMERAL];
        key.extend_from_slice(path.as_bytes());
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_failed_too_often_closes_no_other() {
        let dir = tempfile::tempdir().expect("a directory");
        let (bad, good) = (dir.path().join("bad"), dir.path().join("good"));
        for _ in 0..LEFT_MAX {
            let rows = SledRows::open(&bad).expect("it opens");
            rows.has_failed.store(true, Ordering::Relaxed);
        }
        let refused = SledRows::open(&bad).err().expect("it stays closed");
        assert!(refused.to_string().contains("4 times"), "{refused}");
        SledRows::open(&good).expect("nothing is wrong there");
    }
}
