//! The rows of the index: small records by key, written together or not at all.
//!
//! [`Rows`] is all that the history knows of the store below it. What ships is [`SledRows`].

use std::path::{Path, PathBuf};

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

/// Rows in sled.
///
/// Each value has a checksum of key and value in front (crc32): what sled hands out is believed no
/// more than what any other file holds.
pub(crate) struct SledRows {
    db: sled::Db<LEAF_ROWS>,
    path: PathBuf,
}

impl SledRows {
    /// Opens the directory; makes it if it is not there.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let mut config = sled::Config::new()
            .path(path)
            .cache_capacity_bytes(CACHE_BYTES);
        // Only when what the rows point to is on disk.
        config.flush_every_ms = None;
        Ok(Self {
            db: config.open().map_err(opening(path))?,
            path: path.to_path_buf(),
        })
    }
}

/// Damage shows as invalid data; another process that has it open as a lock that is held.
fn opening(path: &Path) -> impl FnOnce(std::io::Error) -> HistoryError {
    let path = path.to_path_buf();
    move |error| match error.kind() {
        std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof => {
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
        for row in self.db.scan_prefix([prefix]) {
            let (key, value) = row.map_err(opening(&self.path))?;
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
        self.db.apply_batch(batch).map_err(opening(&self.path))
    }

    fn sync(&self) -> Result<()> {
        self.db.flush().map_err(opening(&self.path))?;
        Ok(())
    }

    fn bytes_on_disk(&self) -> u64 {
        bytes_below(&self.path)
    }
}

/// Bytes that the files below a directory take up.
pub(crate) fn bytes_below(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
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
