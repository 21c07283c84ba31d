//! A disk in memory that can die at any operation and then shows what might be left.
//!
//! Written bytes and changed names are pending until they are synced. [`SimDisk::after_kill`] is
//! the disk after SIGKILL: everything that was written is there. [`SimDisk::after_power_loss`] is
//! one of the many disks after a power failure: of each file's pending writes a prefix, the last
//! one cut anywhere, or all of them with sectors missing anywhere; of the pending names a prefix.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

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
enum Rename {
    Link(PathBuf, usize),
    Unlink(PathBuf),
    /// In one piece, as file systems with a journal do it.
    Move(PathBuf, PathBuf, usize),
}

#[derive(Debug, Clone, Default)]
struct Inner {
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    synced_names: BTreeMap<PathBuf, usize>,
    pending_names: Vec<Rename>,
    dirs: BTreeSet<PathBuf>,
    /// Changing operations done.
    operations: u64,
    /// Operations that succeed before the machine dies.
    dies_after: Option<u64>,
    /// Bytes of the last write that still arrive.
    dying_bytes: usize,
    is_dead: bool,
    fails: Option<Failure>,
    used: u64,
}

/// What goes wrong while the machine lives on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Every sync of a file.
    Sync,
    /// The same, and what was written is read back for as long as the machine runs, but no later
    /// sync writes it: Linux marks such pages clean.
    SyncForgets,
    /// Every sync of a directory.
    SyncDir,
    /// Every write beyond so many bytes in all.
    FullAfter(u64),
    /// Every rename.
    Rename,
}

/// Randomness for tests: xorshift.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % bound.max(1)
    }
}

#[derive(Debug, Clone, Default)]
pub struct SimDisk(Arc<Mutex<Inner>>);

#[derive(Debug)]
pub struct SimFile {
    disk: SimDisk,
    inode: usize,
}

#[derive(Debug)]
struct NoLock;

impl DiskLock for NoLock {}

fn dead() -> io::Error {
    io::Error::other("the machine is dead")
}

impl Write {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::At(offset, bytes) => {
                let offset = usize::try_from(*offset).unwrap();
                let end = offset + bytes.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[offset..end].copy_from_slice(bytes);
            }
            Self::SetLen(len) => content.resize(usize::try_from(*len).unwrap(), 0),
        }
    }
}

impl SimDisk {
    /// Lets `operations` more changes happen; the next one, if a write, arrives with its first
    /// `bytes` bytes; then everything fails.
    pub fn die_after(&self, operations: u64, bytes: usize) {
        let mut inner = self.0.lock().unwrap();
        inner.dies_after = Some(inner.operations + operations);
        inner.dying_bytes = bytes;
    }

    pub fn fail(&self, failure: Option<Failure>) {
        self.0.lock().unwrap().fails = failure;
    }

    /// Changing operations so far.
    pub fn operations(&self) -> u64 {
        self.0.lock().unwrap().operations
    }

    pub fn names(&self) -> Vec<String> {
        let inner = self.0.lock().unwrap();
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_string();
        inner.names.keys().map(name).collect()
    }

    pub fn content(&self, path: &Path) -> Vec<u8> {
        let inner = self.0.lock().unwrap();
        inner.inodes[inner.names[path]].now.clone()
    }

    pub fn set_content(&self, path: &Path, content: Vec<u8>) {
        let mut inner = self.0.lock().unwrap();
        let inode = inner.names[path];
        inner.inodes[inode].synced.clone_from(&content);
        inner.inodes[inode].now = content;
    }

    fn reborn(names: BTreeMap<PathBuf, usize>, dirs: BTreeSet<PathBuf>, all: Vec<Vec<u8>>) -> Self {
        let inodes = all
            .into_iter()
            .map(|now| Inode {
                synced: now.clone(),
                now,
                pending: Vec::new(),
            })
            .collect();
        Self(Arc::new(Mutex::new(Inner {
            inodes,
            synced_names: names.clone(),
            names,
            dirs,
            ..Default::default()
        })))
    }

    /// The disk after the process was killed.
    pub fn after_kill(&self) -> Self {
        let inner = self.0.lock().unwrap();
        let all = inner.inodes.iter().map(|inode| inode.now.clone()).collect();
        Self::reborn(inner.names.clone(), inner.dirs.clone(), all)
    }

    /// A disk after a power failure. `loses_sectors`: any sector of any pending write may be missing,
    /// not only those behind a point.
    pub fn after_power_loss(&self, random: &mut Random, loses_sectors: bool) -> Self {
        let inner = self.0.lock().unwrap();
        let mut names = inner.synced_names.clone();
        let kept = random.below(inner.pending_names.len() as u64 + 1);
        for change in inner.pending_names.iter().take(kept.try_into().unwrap()) {
            match change {
                Rename::Link(path, inode) => drop(names.insert(path.clone(), *inode)),
                Rename::Unlink(path) => drop(names.remove(path)),
                Rename::Move(from, to, inode) => {
                    names.remove(from);
                    names.insert(to.clone(), *inode);
                }
            }
        }
        let all = inner
            .inodes
            .iter()
            .map(|inode| {
                let mut content = inode.synced.clone();
                if loses_sectors {
                    for write in &inode.pending {
                        match write {
                            Write::At(offset, bytes) => {
                                lose_sectors(*offset, bytes, &mut content, random);
                            }
                            Write::SetLen(_) => write.apply(&mut content),
                        }
                    }
                    return content;
                }
                let kept = random.below(inode.pending.len() as u64 + 1);
                let (whole, torn) = inode.pending.split_at(kept.try_into().unwrap());
                for write in whole {
                    write.apply(&mut content);
                }
                if let Some(Write::At(offset, bytes)) = torn.first() {
                    let cut = random.below(bytes.len() as u64 + 1);
                    let cut = usize::try_from(cut).unwrap();
                    Write::At(*offset, bytes[..cut].to_vec()).apply(&mut content);
                }
                content
            })
            .collect();
        Self::reborn(names, inner.dirs.clone(), all)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> io::Result<T>) -> io::Result<T> {
        let mut inner = self.0.lock().unwrap();
        if inner.is_dead || inner.dies_after == Some(inner.operations) {
            inner.is_dead = true;
            return Err(dead());
        }
        inner.operations += 1;
        change(&mut inner)
    }
}

fn lose_sectors(offset: u64, bytes: &[u8], content: &mut Vec<u8>, random: &mut Random) {
    let mut at = 0;
    while at < bytes.len() {
        let position = offset + at as u64;
        let sector_end = (position / 512 + 1) * 512 - offset;
        let end = usize::try_from(sector_end).unwrap().min(bytes.len());
        if random.below(4) > 0 {
            Write::At(position, bytes[at..end].to_vec()).apply(content);
        }
        at = end;
    }
}

impl Disk for SimDisk {
    type File = SimFile;

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let inner = self.0.lock().unwrap();
        Ok(inner
            .names
            .iter()
            .filter(|(path, _)| path.parent() == Some(dir))
            .map(|(path, inode)| DirEntry {
                name: path.file_name().unwrap().to_str().unwrap().to_string(),
                len: inner.inodes[*inode].now.len() as u64,
                is_dir: false,
            })
            .collect())
    }

    fn is_dir(&self, path: &Path) -> bool {
        self.0.lock().unwrap().dirs.contains(path)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut inner = self.0.lock().unwrap();
        inner.dirs.extend(dir.ancestors().map(Path::to_path_buf));
        Ok(())
    }

    fn open(&self, path: &Path) -> io::Result<SimFile> {
        let inner = self.0.lock().unwrap();
        let inode = *inner
            .names
            .get(path)
            .ok_or(io::Error::from(io::ErrorKind::NotFound))?;
        Ok(SimFile {
            disk: self.clone(),
            inode,
        })
    }

    fn open_for_change(&self, path: &Path) -> io::Result<SimFile> {
        self.open(path)
    }

    fn create(&self, path: &Path) -> io::Result<SimFile> {
        let inode = self.change(|inner| {
            if let Some(inode) = inner.names.get(path).copied() {
                inner.inodes[inode].now.clear();
                inner.inodes[inode].pending.push(Write::SetLen(0));
                return Ok(inode);
            }
            inner.inodes.push(Inode::default());
            let inode = inner.inodes.len() - 1;
            inner.names.insert(path.to_path_buf(), inode);
            inner
                .pending_names
                .push(Rename::Link(path.to_path_buf(), inode));
            Ok(inode)
        })?;
        Ok(SimFile {
            disk: self.clone(),
            inode,
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(|inner| {
            if inner.fails == Some(Failure::Rename) {
                return Err(io::Error::other("injected"));
            }
            let inode = inner
                .names
                .remove(from)
                .ok_or(io::Error::from(io::ErrorKind::NotFound))?;
            inner.names.insert(to.to_path_buf(), inode);
            let (from, to) = (from.to_path_buf(), to.to_path_buf());
            inner.pending_names.push(Rename::Move(from, to, inode));
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change(|inner| {
            inner
                .names
                .remove(path)
                .ok_or(io::Error::from(io::ErrorKind::NotFound))?;
            inner.pending_names.push(Rename::Unlink(path.to_path_buf()));
            Ok(())
        })
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        self.change(|inner| {
            if inner.fails == Some(Failure::SyncDir) {
                return Err(io::Error::other("injected"));
            }
            inner.synced_names = inner.names.clone();
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
        let inner = self.disk.0.lock().unwrap();
        Ok(inner.inodes[self.inode].now.len() as u64)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let inner = self.disk.0.lock().unwrap();
        let content = &inner.inodes[self.inode].now;
        let from = usize::try_from(offset).unwrap().min(content.len());
        let count = buf.len().min(content.len() - from);
        buf[..count].copy_from_slice(&content[from..from + count]);
        Ok(count)
    }

    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        {
            // The write during which the machine dies arrives in part.
            let mut inner = self.disk.0.lock().unwrap();
            if !inner.is_dead && inner.dies_after == Some(inner.operations) {
                let cut = inner.dying_bytes.min(bytes.len());
                let write = Write::At(offset, bytes[..cut].to_vec());
                let inode = &mut inner.inodes[self.inode];
                if cut > 0 {
                    write.apply(&mut inode.now);
                    inode.pending.push(write);
                }
            }
        }
        self.disk.change(|inner| {
            inner.used += bytes.len() as u64;
            if let Some(Failure::FullAfter(limit)) = inner.fails
                && inner.used > limit
            {
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
            let write = Write::At(offset, bytes.to_vec());
            let inode = &mut inner.inodes[self.inode];
            write.apply(&mut inode.now);
            inode.pending.push(write);
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.change(|inner| {
            if inner.fails == Some(Failure::Sync) {
                return Err(io::Error::other("injected"));
            }
            let inode = &mut inner.inodes[self.inode];
            if inner.fails == Some(Failure::SyncForgets) {
                inode.pending.clear();
                return Err(io::Error::other("injected"));
            }
            for write in inode.pending.drain(..) {
                write.apply(&mut inode.synced);
            }
            Ok(())
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.change(|inner| {
            let inode = &mut inner.inodes[self.inode];
            let write = Write::SetLen(len);
            write.apply(&mut inode.now);
            inode.pending.push(write);
            Ok(())
        })
    }
}
