//! Rows of the index, which are small records by key, written atomically.
//!
//! [`Rows`] is the only interface through which the history uses its store. The shipped
//! implementation is [`SledRows`].

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use blocking::files;
use parking_lot::Mutex;

use crate::error::{HistoryError, Result, io_error};

/// Rows that are written atomically; `None` removes a row.
pub(crate) type Writes = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// Store of small records by key.
pub(crate) trait Rows: Send {
    /// Returns all records whose key begins with `prefix`, ordered by key.
    fn scan(&self, prefix: u8) -> Result<Vec<(Vec<u8>, Vec<u8>)>>;

    /// Writes all rows atomically. If the process ends meanwhile, all or none of them are stored.
    fn write(&self, writes: Writes) -> Result<()>;

    /// Syncs the written rows to the disk.
    fn sync(&self) -> Result<()>;

    /// Returns the disk usage, bytes.
    fn bytes_on_disk(&self) -> u64;
}

/// Number of rows in a leaf of the tree. A row takes about 50 bytes, and a changed leaf is written
/// as a whole.
const LEAF_ROWS: usize = 128;
/// Cache size for all leaves, bytes.
const CACHE_BYTES: usize = 1 << 20;

/// Maximum number of abandoned sled instances of a directory. When it is reached, the directory is
/// not opened again. Each instance keeps about 100 file descriptors open.
const LEFT_MAX: usize = 4;
/// Number of abandoned instances in this process, by directory.
static LEFT: LazyLock<Mutex<HashMap<PathBuf, usize>>> = LazyLock::new(Mutex::default);

/// Rows stored in sled.
///
/// Each value begins with a checksum of key and value (crc32), because data from sled is not
/// trusted more than data from other files.
///
/// After an error, a sled instance must not even be dropped. It would flush, and a flush waits for
/// the previous flush. If the previous flush has failed, this wait never ends. The instance is
/// therefore abandoned with its threads, its files and the lock on its directory. The directory is
/// renamed, and [`SledRows::open`] continues with a copy.
pub(crate) struct SledRows {
    /// The sled instance; `None` after it has been abandoned.
    db: Option<sled::Db<LEAF_ROWS>>,
    path: PathBuf,
    has_failed: AtomicBool,
    /// Files and directories whose modes are final, because they existed before this opening or
    /// already have the mode of data files.
    seen: Mutex<BTreeSet<PathBuf>>,
}

impl SledRows {
    /// Opens the directory. Creates it if it is missing.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if LEFT.lock().get(path).is_some_and(|left| *left >= LEFT_MAX) {
            let error = io::Error::other(format!(
                "writing the index failed {LEFT_MAX} times; repair the disk and restart the server"
            ));
            return Err(io_error("use the index", path)(error));
        }
        restore_abandoned(path)?;
        files::create_dir_all(path).map_err(io_error("create", path))?;
        // A process may have been killed after creating a file and before setting the file's mode.
        // In a restricted directory, the modes of all existing files are therefore set again.
        let before = if files::is_restricted(path) {
            BTreeSet::new()
        } else {
            files_below(path)
        };
        let mut config = sled::Config::new()
            .path(path)
            .cache_capacity_bytes(CACHE_BYTES);
        // The rows are flushed only after the data to which they point is on disk.
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

    fn read_db<T>(&self, read: impl FnOnce(&sled::Db<LEAF_ROWS>) -> io::Result<T>) -> Result<T> {
        let closed = || io::Error::other("the index is closed");
        let answer = self.db.as_ref().ok_or_else(closed).and_then(read);
        answer.map_err(opening(&self.path))
    }

    fn change(&self, change: impl FnOnce(&sled::Db<LEAF_ROWS>) -> io::Result<()>) -> Result<()> {
        let changed = self.read_db(change);
        if changed.is_err() {
            self.has_failed.store(true, Ordering::Relaxed);
        }
        changed
    }
}

impl SledRows {
    /// Sets the modes of files that sled created. Until then, the mode of their directory protects
    /// them.
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
                // Sled removes files after merging them into others.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    tracing::debug!(err = %error, path = %path.display(), "cannot set the mode of a file");
                }
            }
        }
    }
}

/// Returns all files and directories below a directory of sled, which has two levels.
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
        if let Err(error) = fs::rename(&self.path, abandoned_path(&self.path)) {
            tracing::debug!(err = %error, path = %self.path.display(), "cannot rename a failed index");
        }
    }
}

/// Returns the path of an index whose sled instance was abandoned.
fn abandoned_path(path: &Path) -> PathBuf {
    path.with_extension("left")
}

/// Returns whether there is an index, either in use or abandoned.
pub(crate) fn index_exists(path: &Path) -> bool {
    path.is_dir() || abandoned_path(path).is_dir()
}

/// Replaces an abandoned index with a copy, whose files are neither open nor locked.
fn restore_abandoned(path: &Path) -> Result<()> {
    let left = abandoned_path(path);
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

/// Copies a directory and syncs the copy.
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

/// Converts an error from accessing the index. Corruption has the kind `InvalidData` or
/// `UnexpectedEof`. A lock held by another process has a different kind.
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
        let rows: Vec<_> = self.read_db(|db| db.scan_prefix([prefix]).collect())?;
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

/// Returns the disk usage of the files below a directory, bytes.
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
    /// Prefix of the single row with the state of the index.
    pub(crate) const INDEX: u8 = b'i';
    /// Prefix of the single row with the block that is being filled.
    pub(crate) const OPEN: u8 = b'o';
    /// Prefix of the blocks, by number.
    pub(crate) const BLOCK: u8 = b'b';
    /// Prefix of the runs, by number.
    pub(crate) const RUN: u8 = b'r';
    /// Prefix of the ephemeral znodes, by path. The value is the session.
    pub(crate) const EPHEMERAL: u8 = b'e';

    /// Returns the key of a numbered row.
    pub(crate) fn numbered(kind: u8, number: u64) -> Vec<u8> {
        let mut key = vec![kind];
        key.extend_from_slice(&number.to_be_bytes());
        key
    }

    /// Returns the number in the key of a numbered row.
    pub(crate) fn number(key: &[u8]) -> Option<u64> {
        let (_, number) = key.split_first()?;
        Some(u64::from_be_bytes(number.try_into().ok()?))
    }

    /// Returns the key of an ephemeral znode.
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
    fn a_directory_with_repeated_failures_does_not_close_others() {
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
