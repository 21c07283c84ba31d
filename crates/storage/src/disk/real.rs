//! The disk of this machine, through the operating system.

use std::fs::{self, File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use blocking::files;

use crate::disk::{DirEntry, Disk, DiskFile, DiskLock};

/// The disk of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

/// A lock on a file descriptor. It ends when the file is closed, including after SIGKILL.
#[derive(Debug)]
struct FileLock {
    file: File,
}

impl DiskLock for FileLock {}

impl Drop for FileLock {
    /// Releases the lock. Closing the file would not suffice in a program that starts other
    /// programs, because a child shares the descriptor, and therefore the lock, until it executes
    /// its program.
    fn drop(&mut self) {
        if let Err(error) = self.file.unlock() {
            tracing::warn!(
                "cannot unlock a data directory, closing its lock file instead: {error}"
            );
        }
    }
}

impl Disk for RealDisk {
    type File = File;

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        blocking::mark("list a directory");
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let path = entry.path();
            // Follows links, because a snapshot may be a link.
            let metadata = match fs::metadata(&path) {
                // A purge may have removed the file in the meantime.
                Err(_) if is_missing(&path) => continue,
                metadata => metadata,
            };
            let is_dir = metadata.as_ref().is_ok_and(Metadata::is_dir);
            let len = metadata.map(|metadata| if is_dir { 0 } else { metadata.len() });
            entries.push(DirEntry { name, len, is_dir });
        }
        Ok(entries)
    }

    fn is_dir(&self, path: &Path) -> bool {
        blocking::mark("check a directory");
        path.is_dir()
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        files::create_dir_all(dir)
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        blocking::mark("open a file");
        File::open(path)
    }

    fn open_for_change(&self, path: &Path) -> io::Result<File> {
        blocking::mark("open a file");
        files::options().read(true).write(true).open(path)
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        blocking::mark("create a file");
        files::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        files::replace(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        blocking::mark("remove a file");
        match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        blocking::mark("sync a directory");
        File::open(dir)?.sync_all()
    }

    fn reads_ahead(&self) -> bool {
        true
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        blocking::mark("lock a directory");
        let file = files::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(FileLock { file }))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Returns whether the directory does not contain the name. A symbolic link is not followed.
fn is_missing(path: &Path) -> bool {
    let found = fs::symlink_metadata(path);
    found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

impl DiskFile for File {
    fn len(&self) -> io::Result<u64> {
        blocking::mark("check a file");
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        blocking::mark("read a file");
        FileExt::read_at(self, buf, offset)
    }

    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        blocking::mark("write a file");
        FileExt::write_all_at(self, bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        blocking::mark("sync a file");
        File::sync_data(self)
    }

    #[cfg(target_os = "linux")]
    fn forget(&self, offset: u64, len: u64) {
        if let Some(len) = std::num::NonZero::new(len) {
            // The advice is optional, so an error does not matter.
            let _ = rustix::fs::fadvise(self, offset, Some(len), rustix::fs::Advice::DontNeed);
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        blocking::mark("truncate a file");
        File::set_len(self, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_lock_is_free_despite_open_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let file = File::create(&path).unwrap();
        file.try_lock().unwrap();
        // Simulates the copy that a child process has until it executes its program.
        let inherited = file.try_clone().unwrap();
        let lock = FileLock { file };
        assert!(RealDisk.lock(&path).unwrap().is_none());
        drop(lock);
        assert!(RealDisk.lock(&path).unwrap().is_some());
        drop(inherited);
    }
}
