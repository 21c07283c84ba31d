//! Simulated disk in memory, which distinguishes written data from synced data.
//!
//! Written bytes and changed names are pending until they are synced. Names are synced per
//! directory. After a process is killed, everything that it wrote remains. After a power failure, a
//! file keeps a prefix of its pending writes, and the last write of the prefix may be truncated.
//! Alternatively, the file keeps all pending writes, but any of their sectors may be missing. A
//! directory keeps a prefix of its pending names.

mod damage;
#[cfg(test)]
mod tests;

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
    /// A rename is atomic, as in file systems with a journal.
    Move(PathBuf, PathBuf, usize),
}

#[derive(Debug, Clone, Default)]
struct Inner {
    /// Whether all writes survive a power failure. They are then not recorded as pending.
    is_always_safe: bool,
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    synced_names: BTreeMap<PathBuf, usize>,
    pending_names: Vec<Naming>,
    dirs: BTreeSet<PathBuf>,
    /// Number of further changes before the power fails, and number of bytes that a write during
    /// the failure still writes.
    dies_after: Option<(u64, usize)>,
    is_dead: bool,
    sync_fault: Option<SyncFault>,
    failure: Option<Failure>,
    is_full: bool,
    /// Number of reads that will fail from now on.
    failing_reads: u32,
    /// Whether `rot` or `rot_number` has corrupted a file on this disk.
    has_rotted: bool,
    /// Number of changes before the power failed, including failed ones.
    changes: u64,
    /// Number of written bytes, including overwritten ones.
    bytes: u64,
    /// Number of read bytes.
    read_bytes: u64,
}

/// State of a file after a failed sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncFault {
    /// The written data stays pending.
    Fails,
    /// The written data is lost, because the kernel drops the pages.
    FailsAndForgets,
    /// Reads return the written data while the machine runs, but later syncs do not write it. Linux
    /// marks such pages clean.
    FailsAndShows,
}

/// Persistent fault, which lasts until it is cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Every sync of a file fails.
    Sync(SyncFault),
    /// Every sync of a directory fails.
    SyncDir,
    /// Every write that would exceed this total number of written bytes fails.
    FullAfter(u64),
    /// Every rename fails.
    Rename,
    /// Every read fails.
    Read,
}

/// Disk of one server. Clones share the disk.
#[derive(Debug, Clone, Default)]
pub struct SimDisk(Arc<Mutex<Inner>>);

/// File that is open on this disk.
#[derive(Debug)]
pub struct SimFile {
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

impl Naming {
    fn is_in(&self, dir: &Path) -> bool {
        match self {
            Self::Link(path, _) | Self::Unlink(path) => path.parent() == Some(dir),
            Self::Move(from, to, _) => [from, to].iter().any(|path| path.parent() == Some(dir)),
        }
    }

    /// Returns a directory whose sync makes this change permanent.
    fn dir(&self) -> Option<PathBuf> {
        let (Self::Link(path, _) | Self::Unlink(path) | Self::Move(_, path, _)) = self;
        path.parent().map(Path::to_path_buf)
    }

    fn apply(self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            Self::Link(path, inode) => drop(names.insert(path, inode)),
            Self::Unlink(path) => drop(names.remove(&path)),
            Self::Move(from, to, inode) => {
                names.remove(&from);
                names.insert(to, inode);
            }
        }
    }
}

impl Inode {
    fn of(content: &[u8]) -> Self {
        Self {
            now: content.to_vec(),
            synced: content.to_vec(),
            pending: Vec::new(),
        }
    }

    fn sync(&mut self) {
        for write in self.pending.drain(..) {
            write.apply(&mut self.synced);
        }
    }
}

/// Prefix of every error that this disk simulates.
pub const INJECTED: &str = "injected:";

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
        self.changes += 1;
        Ok(())
    }

    fn write(&mut self, inode: usize, write: Write) {
        let inode = &mut self.inodes[inode];
        write.apply(&mut inode.now);
        if !self.is_always_safe {
            inode.pending.push(write);
        }
    }

    fn has_no_room(&self, more: usize) -> bool {
        let is_too_much = |limit| self.bytes + more as u64 > limit;
        self.is_full
            || matches!(self.failure, Some(Failure::FullAfter(limit)) if is_too_much(limit))
    }

    fn name(&mut self, naming: Naming) {
        naming.clone().apply(&mut self.names);
        if !self.is_always_safe {
            self.pending_names.push(naming);
        }
    }

    fn inode_of(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(missing)
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
            let len = Ok(inner.inodes[*inode].now.len() as u64);
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
                inner.write(inode, Write::SetLen(0));
                return Ok(inode);
            }
            inner.inodes.push(Inode::default());
            let inode = inner.inodes.len() - 1;
            inner.name(Naming::Link(path.to_path_buf(), inode));
            Ok(inode)
        })?;
        Ok(self.file(inode))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(|inner| {
            if inner.failure == Some(Failure::Rename) {
                return Err(injected("the rename fails"));
            }
            let inode = inner.inode_of(from)?;
            inner.name(Naming::Move(from.to_path_buf(), to.to_path_buf(), inode));
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change(|inner| {
            if inner.names.contains_key(path) {
                inner.name(Naming::Unlink(path.to_path_buf()));
            }
            Ok(())
        })
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.change(|inner| {
            if inner.failure == Some(Failure::SyncDir) {
                return Err(injected("the sync of a directory fails"));
            }
            let synced = inner
                .pending_names
                .extract_if(.., |naming| naming.is_in(dir));
            synced.for_each(|naming| naming.apply(&mut inner.synced_names));
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
        let mut inner = self.disk.0.lock();
        if inner.failure == Some(Failure::Read) || inner.failing_reads > 0 {
            inner.failing_reads = inner.failing_reads.saturating_sub(1);
            return Err(injected("the read fails"));
        }
        let content = &inner.inodes[self.inode].now;
        let from = position(offset).min(content.len());
        let count = buf.len().min(content.len() - from);
        buf[..count].copy_from_slice(&content[from..from + count]);
        inner.read_bytes += count as u64;
        Ok(count)
    }

    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        {
            // The write during a power failure is executed partly.
            let inner = &mut *self.disk.0.lock();
            if let Some((0, arriving)) = inner.dies_after.filter(|_| !inner.is_dead) {
                let arriving = arriving.min(bytes.len());
                let write = Write::At(offset, bytes[..arriving].to_vec());
                inner.write(self.inode, write);
            }
        }
        self.disk.change(|inner| {
            if inner.has_no_room(bytes.len()) {
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
            inner.bytes += bytes.len() as u64;
            inner.write(self.inode, Write::At(offset, bytes.to_vec()));
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.change(|inner| {
            let lasting = match inner.failure {
                Some(Failure::Sync(fault)) => Some(fault),
                _ => None,
            };
            let fault = inner.sync_fault.take().or(lasting);
            let inode = &mut inner.inodes[self.inode];
            match fault {
                None => inode.sync(),
                Some(SyncFault::Fails) => {}
                Some(SyncFault::FailsAndForgets) => {
                    inode.pending.clear();
                    inode.now.clone_from(&inode.synced);
                }
                Some(SyncFault::FailsAndShows) => inode.pending.clear(),
            }
            fault.map_or(Ok(()), |_| Err(injected("the sync fails")))
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.change(|inner| {
            inner.write(self.inode, Write::SetLen(len));
            Ok(())
        })
    }
}
