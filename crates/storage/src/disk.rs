//! What the crate needs of a file system.
//!
//! Small on purpose: a simulator implements it over memory, keeps apart what is written and what
//! is synced, and throws the difference away at a crash. Files are written at offsets, because a
//! log is written into space that was allocated before.

use std::fmt;
use std::io;
use std::path::Path;

/// One file of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// Name without directory; names that are not UTF-8 are not listed.
    pub name: String,
    /// Length in bytes; 0 for directories.
    pub len: u64,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// Holds an exclusive lock until dropped. The operating system frees it when the process dies.
pub trait DiskLock: fmt::Debug + Send + Sync {}

/// A file system.
///
/// Durability: bytes are safe after [`DiskFile::sync_data`] on their file and, if the file was
/// created or renamed, [`Disk::sync_dir`] on its directory.
pub trait Disk: fmt::Debug + Send + Sync + 'static {
    /// An open file.
    type File: DiskFile;

    /// Entries of a directory, in any order.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;

    /// Whether a directory of that name exists.
    fn is_dir(&self, path: &Path) -> bool;

    /// Creates a directory and its missing parents.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<Self::File>;

    /// Opens an existing file for writing, content kept. Only truncation needs it.
    fn open_for_change(&self, path: &Path) -> io::Result<Self::File>;

    /// Creates a file for writing; if it exists its content goes.
    fn create(&self, path: &Path) -> io::Result<Self::File>;

    /// Gives a file another name; what had that name before goes, atomically.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the directory's entries durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Takes the exclusive lock on a file, which is created if missing. `None` if another holder,
    /// in this process or another, has it.
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>>;

    /// Whether a thread of its own may read what will be wanted next. Not where the order of what is done has to repeat
    /// itself.
    fn reads_ahead(&self) -> bool {
        false
    }

    /// The whole content of a small file; `None` if there is no such file.
    ///
    /// # Errors
    /// Also if the file is longer than `len_max` bytes.
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
                format!("{len} bytes where at most {len_max} are expected"),
            ));
        }
        let mut content = vec![0; len];
        let read = read_full_at(&file, 0, &mut content)?;
        content.truncate(read);
        Ok(Some(content))
    }
}

/// An open file. All positions are explicit, there is no cursor.
pub trait DiskFile: fmt::Debug + Send + Sync + 'static {
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file holds nothing.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads up to `buf.len()` bytes at `offset`; 0 at the end of the file.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;

    /// Writes all bytes at `offset`, extending the file if they reach beyond its end.
    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes what was written durable, and the length. Not the name: see [`Disk::sync_dir`].
    fn sync_data(&self) -> io::Result<()>;

    /// Says that these bytes, which are synced, will not be read again soon: nothing need be kept
    /// in memory for them. Only a hint.
    fn forget(&self, _offset: u64, _len: u64) {}

    /// Cuts the file, or extends it with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
}

/// Fills `buf` from `offset`; fewer bytes than asked for only at the end of the file.
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
