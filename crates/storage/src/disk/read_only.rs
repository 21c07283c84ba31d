//! Read-only disk that simulates a start while a server is running.

use std::io;
use std::path::Path;

use crate::disk::{DirEntry, Disk, DiskLock};

/// Read-only view of another disk.
///
/// Removing a file and syncing a directory do nothing and succeed, because
/// [`recover()`](crate::recover()) performs them and does not depend on their effect. All other
/// changes fail.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadOnly<D>(pub D);

impl<D: Disk> Disk for ReadOnly<D> {
    type File = D::File;

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.0.list(dir)
    }

    fn is_dir(&self, path: &Path) -> bool {
        self.0.is_dir(path)
    }

    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        refused()
    }

    fn open(&self, path: &Path) -> io::Result<D::File> {
        self.0.open(path)
    }

    fn open_for_change(&self, _: &Path) -> io::Result<D::File> {
        refused()
    }

    fn create(&self, _: &Path) -> io::Result<D::File> {
        refused()
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        refused()
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn reads_ahead(&self) -> bool {
        self.0.reads_ahead()
    }

    fn lock(&self, _: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        refused()
    }
}

fn refused<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}
