//! The file-system operations that this crate uses.
//!
//! The interface is small on purpose. A simulator implements it in memory, distinguishes written
//! from synced data, and discards the difference in a crash. Files are written at offsets, because
//! a log is written into preallocated space.

pub(crate) mod durable;
pub(crate) mod read_only;
pub(crate) mod real;

use std::fmt;
use std::io;
use std::path::Path;

/// Entry in a directory.
#[derive(Debug)]
pub struct DirEntry {
    /// Name without the directory. Names that are not UTF-8 are not listed.
    pub name: String,
    /// Length, bytes; 0 for directories. An error if the entry exists but cannot be examined, for
    /// example a dangling symbolic link. A history without the file of this entry may be incomplete.
    pub len: io::Result<u64>,
    /// Whether the entry is known to be a directory.
    pub is_dir: bool,
}

/// An exclusive lock that is held until dropped. The operating system releases it when the process
/// dies.
pub trait DiskLock: fmt::Debug + Send + Sync {}

/// A file system.
///
/// Bytes are durable after [`DiskFile::sync_data`] on their file and, if the file was created or
/// renamed, [`Disk::sync_dir`] on its directory.
#[expect(
    clippy::missing_errors_doc,
    reason = "all errors are those of the file system"
)]
pub trait Disk: fmt::Debug + Send + Sync + 'static {
    /// File opened on this disk.
    type File: DiskFile;

    /// Returns the entries of a directory, in any order.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;

    /// Returns whether a directory exists at this path.
    fn is_dir(&self, path: &Path) -> bool;

    /// Creates a directory and its missing parents.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<Self::File>;

    /// Opens an existing file for reading and writing, and keeps its content.
    fn open_for_change(&self, path: &Path) -> io::Result<Self::File>;

    /// Creates a file for writing. The content of an existing file is removed.
    fn create(&self, path: &Path) -> io::Result<Self::File>;

    /// Renames a file. An existing file with the new name is replaced atomically.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. A missing file counts as removed, because a purge of another process may
    /// remove it at any time.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the directory's entries durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Acquires the exclusive lock on a file, which is created if missing. Returns `None` if
    /// another holder, in this or another process, has the lock.
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>>;

    /// Returns whether a separate thread may read ahead. Returns `false` if the order of operations
    /// must be repeatable.
    fn reads_ahead(&self) -> bool {
        false
    }

    /// Reads the whole content of a small file. Returns `None` if the file does not exist.
    ///
    /// # Errors
    /// If the file cannot be read or is longer than `len_max` bytes.
    fn read_small(&self, path: &Path, len_max: usize) -> io::Result<Option<Vec<u8>>> {
        let file = match self.open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let len = usize::try_from(file.len()?).unwrap_or(usize::MAX);
        if len > len_max {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the file has {len} bytes, but at most {len_max} are expected"),
            ));
        }
        let mut content = vec![0; len];
        let read = read_full_at(&file, 0, &mut content)?;
        content.truncate(read);
        Ok(Some(content))
    }
}

/// A file opened on a disk. All positions are explicit; there is no cursor.
#[expect(
    clippy::missing_errors_doc,
    reason = "all errors are those of the file system"
)]
pub trait DiskFile: fmt::Debug + Send + Sync + 'static {
    /// Returns the length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Returns whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads up to `buf.len()` bytes at `offset`. Returns 0 at the end of the file.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;

    /// Writes all bytes at `offset`. Extends the file if they reach beyond its end.
    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes the written bytes and the length durable, but not the name (see [`Disk::sync_dir`]).
    fn sync_data(&self) -> io::Result<()>;

    /// Informs the file system that these synced bytes will not be read soon and need not stay in
    /// memory. This is only a hint.
    fn forget(&self, _offset: u64, _len: u64) {}

    /// Cuts the file or extends it with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
}

/// Fills `buf` with the bytes at `offset`. Returns the number of bytes read, which is smaller than
/// `buf` only at the end of the file.
pub(crate) fn read_full_at<F: DiskFile>(
    file: &F,
    offset: u64,
    buf: &mut [u8],
) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(offset + done as u64, rest) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
