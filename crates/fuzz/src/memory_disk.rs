//! Files in memory.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use storage::{DirEntry, Disk, DiskFile, DiskLock};

type Content = Arc<Mutex<Vec<u8>>>;

/// A disk whose files are never on one. Directories exist as soon as they are asked for.
#[derive(Debug, Default)]
pub struct MemoryDisk {
    files: Mutex<BTreeMap<PathBuf, Content>>,
}

/// A file of a [`MemoryDisk`].
#[derive(Debug)]
pub struct MemoryFile(Content);

#[derive(Debug)]
struct NoLock;

impl DiskLock for NoLock {}

impl MemoryDisk {
    /// A disk with these files.
    pub fn with_files<'a>(files: impl IntoIterator<Item = (&'a Path, &'a [u8])>) -> Self {
        let shared = |(path, content): (&Path, &[u8])| {
            let content = Arc::new(Mutex::new(content.to_vec()));
            (path.to_path_buf(), content)
        };
        Self {
            files: Mutex::new(files.into_iter().map(shared).collect()),
        }
    }

    /// Content of a file, if there is one.
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        Some(self.files.lock().get(path)?.lock().clone())
    }

    fn find(&self, path: &Path) -> io::Result<MemoryFile> {
        let content = self.files.lock().get(path).cloned();
        content
            .map(MemoryFile)
            .ok_or(io::ErrorKind::NotFound.into())
    }
}

impl Disk for MemoryDisk {
    type File = MemoryFile;

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let files = self.files.lock();
        let inside = files.iter().filter(|(path, _)| path.parent() == Some(dir));
        let entry = |(path, content): (&PathBuf, &Content)| {
            Some(DirEntry {
                name: path.file_name()?.to_str()?.to_owned(),
                len: content.lock().len() as u64,
                is_dir: false,
            })
        };
        Ok(inside.filter_map(entry).collect())
    }

    fn is_dir(&self, path: &Path) -> bool {
        !self.files.lock().contains_key(path)
    }

    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn open(&self, path: &Path) -> io::Result<MemoryFile> {
        self.find(path)
    }

    fn open_for_change(&self, path: &Path) -> io::Result<MemoryFile> {
        self.find(path)
    }

    fn create(&self, path: &Path) -> io::Result<MemoryFile> {
        let content = Content::default();
        self.files
            .lock()
            .insert(path.to_path_buf(), content.clone());
        Ok(MemoryFile(content))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = self.files.lock();
        let content = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_path_buf(), content);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = self.files.lock().remove(path);
        removed.map(|_| ()).ok_or(io::ErrorKind::NotFound.into())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, _: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        Ok(Some(Box::new(NoLock)))
    }
}

impl DiskFile for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().len() as u64)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let content = self.0.lock();
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = content.get(start..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut content = self.0.lock();
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let end = start + bytes.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[start..end].copy_from_slice(bytes);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        self.0.lock().resize(len, 0);
        Ok(())
    }
}
