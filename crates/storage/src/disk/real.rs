//! The disk of this machine, through the operating system.

use std::fs::{self, File, TryLockError};
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
            // Follows links, because a snapshot may be a link. A file without metadata is skipped,
            // because a purge may have removed it in the meantime.
            let Ok(metadata) = fs::metadata(entry.path()) else {
                continue;
            };
            let is_dir = metadata.is_dir();
            let len = if is_dir { 0 } else { metadata.len() };
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
        fs::remove_file(path)
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
