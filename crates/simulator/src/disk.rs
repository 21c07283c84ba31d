//! A disk in memory that keeps apart what is written and what is safe.
//!
//! Written bytes and changed names are pending until they are synced. A process that is killed
//! leaves everything that it wrote; a power failure leaves of each file's pending writes a prefix,
//! the last one cut anywhere, and of the pending names a prefix.

mod damage;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use storage::{DirEntry, Disk, DiskFile, DiskLock};

#[derive(Debug, Clone)]
enum Write {
    At(u64, Vec<u8>),
    SetLen(u64),
}

#[derive(Debug, Clone, Default)]
struct Inode {
    now: Vec<u8>,
    synced: Vec<u8>,
    pending: Vec<Write>,
}

#[derive(Debug, Clone)]
enum Naming {
    Link(PathBuf, usize),
    Unlink(PathBuf),
}

#[derive(Debug, Default)]
struct Inner {
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    synced_names: BTreeMap<PathBuf, usize>,
    pending_names: Vec<Naming>,
    dirs: BTreeSet<PathBuf>,
    /// Changes that still happen before the power goes; of the next write so many bytes arrive.
    dies_after: Option<(u64, usize)>,
    is_dead: bool,
    sync_fault: Option<SyncFault>,
    is_full: bool,
}

/// What the next sync of a file does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SyncFault {
    /// Fails; what was written stays pending.
    Fails,
    /// Fails, and what was written is gone (the kernel drops the pages).
    FailsAndForgets,
}

/// The disk of one server. Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct SimDisk(Arc<Mutex<Inner>>);

/// An open file.
#[derive(Debug)]
pub(crate) struct SimFile {
    disk: SimDisk,
    inode: usize,
}

#[derive(Debug)]
struct NoLock;

impl DiskLock for NoLock {}

impl Write {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::At(offset, bytes) => {
                let offset = position(*offset);
                let end = offset + bytes.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[offset..end].copy_from_slice(bytes);
            }
            Self::SetLen(len) => content.resize(position(*len), 0),
        }
    }
}

fn position(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

impl Inode {
    fn write(&mut self, write: Write) {
        write.apply(&mut self.now);
        self.pending.push(write);
    }

    fn sync(&mut self) {
        for write in self.pending.drain(..) {
            write.apply(&mut self.synced);
        }
    }
}

/// In every error that this disk makes up.
pub(crate) const INJECTED: &str = "injected:";

fn injected(what: &str) -> io::Error {
    io::Error::other(format!("{INJECTED} {what}"))
}

fn missing() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}

impl Inner {
    fn is_dying(&self) -> bool {
        matches!(self.dies_after, Some((0, _)))
    }

    fn count_change(&mut self) -> io::Result<()> {
        if self.is_dead || self.is_dying() {
            self.is_dead = true;
            return Err(injected("the power is gone"));
        }
        if let Some((left, _)) = &mut self.dies_after {
            *left -= 1;
        }
        Ok(())
    }

    fn inode_of(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(missing)
    }

    fn link(&mut self, path: &Path, inode: usize) {
        self.names.insert(path.to_path_buf(), inode);
        let naming = Naming::Link(path.to_path_buf(), inode);
        self.pending_names.push(naming);
    }

    fn unlink(&mut self, path: &Path) -> io::Result<usize> {
        let inode = self.names.remove(path).ok_or_else(missing)?;
        self.pending_names.push(Naming::Unlink(path.to_path_buf()));
        Ok(inode)
    }
}

impl SimDisk {
    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> io::Result<T>) -> io::Result<T> {
        let mut inner = self.0.lock();
        inner.count_change()?;
        change(&mut inner)
    }

    fn file(&self, inode: usize) -> SimFile {
        let disk = self.clone();
        SimFile { disk, inode }
    }
}

impl Disk for SimDisk {
    type File = SimFile;

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let inner = self.0.lock();
        let here = inner.names.iter();
        let here = here.filter(|(path, _)| path.parent() == Some(dir));
        let entry = |(path, inode): (&PathBuf, &usize)| {
            let name = path.file_name()?.to_str()?.to_owned();
            let len = inner.inodes[*inode].now.len() as u64;
            let is_dir = false;
            Some(DirEntry { name, len, is_dir })
        };
        Ok(here.filter_map(entry).collect())
    }

    fn is_dir(&self, path: &Path) -> bool {
        self.0.lock().dirs.contains(path)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let above = dir.ancestors().map(Path::to_path_buf);
        self.0.lock().dirs.extend(above);
        Ok(())
    }

    fn open(&self, path: &Path) -> io::Result<SimFile> {
        let inode = self.0.lock().inode_of(path)?;
        Ok(self.file(inode))
    }

    fn open_for_change(&self, path: &Path) -> io::Result<SimFile> {
        self.open(path)
    }

    fn create(&self, path: &Path) -> io::Result<SimFile> {
        let inode = self.change(|inner| {
            if inner.is_full {
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
            if let Ok(inode) = inner.inode_of(path) {
                inner.inodes[inode].write(Write::SetLen(0));
                return Ok(inode);
            }
            inner.inodes.push(Inode::default());
            let inode = inner.inodes.len() - 1;
            inner.link(path, inode);
            Ok(inode)
        })?;
        Ok(self.file(inode))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(|inner| {
            let inode = inner.unlink(from)?;
            inner.link(to, inode);
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change(|inner| inner.unlink(path).map(drop))
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        self.change(|inner| {
            inner.synced_names.clone_from(&inner.names);
            inner.pending_names.clear();
            Ok(())
        })
    }

    fn lock(&self, _: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        Ok(Some(Box::new(NoLock)))
    }
}

impl DiskFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        let inner = self.disk.0.lock();
        Ok(inner.inodes[self.inode].now.len() as u64)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let inner = self.disk.0.lock();
        let content = &inner.inodes[self.inode].now;
        let from = position(offset).min(content.len());
        let count = buf.len().min(content.len() - from);
        buf[..count].copy_from_slice(&content[from..from + count]);
        Ok(count)
    }

    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        {
            // The write during which the power goes arrives in part.
            let mut inner = self.disk.0.lock();
            if let Some((0, arriving)) = inner.dies_after.filter(|_| !inner.is_dead) {
                let arriving = arriving.min(bytes.len());
                let write = Write::At(offset, bytes[..arriving].to_vec());
                inner.inodes[self.inode].write(write);
            }
        }
        self.disk.change(|inner| {
            if inner.is_full {
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
            inner.inodes[self.inode].write(Write::At(offset, bytes.to_vec()));
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.change(|inner| {
            let fault = inner.sync_fault.take();
            let inode = &mut inner.inodes[self.inode];
            match fault {
                None => inode.sync(),
                Some(SyncFault::Fails) => {}
                Some(SyncFault::FailsAndForgets) => {
                    inode.pending.clear();
                    inode.now.clone_from(&inode.synced);
                }
            }
            fault.map_or(Ok(()), |_| Err(injected("the sync fails")))
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.change(|inner| {
            inner.inodes[self.inode].write(Write::SetLen(len));
            Ok(())
        })
    }
}
