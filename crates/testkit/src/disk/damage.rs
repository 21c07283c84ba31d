//! What happens to a disk, and what is seen of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Failure, Inner, Inode, Naming, SimDisk, SyncFault, Write};
use crate::random::Random;

/// A disk writes a sector whole or not at all.
const SECTOR_BYTES: u64 = 512;

impl SimDisk {
    /// A disk on which what is written is safe at once; it holds these files.
    pub fn always_safe<'a>(files: impl IntoIterator<Item = (&'a Path, &'a [u8])>) -> Self {
        let disk = Self::default();
        {
            let inner = &mut *disk.0.lock();
            inner.is_always_safe = true;
            for (path, content) in files {
                inner
                    .dirs
                    .extend(path.ancestors().skip(1).map(Path::to_path_buf));
                inner.names.insert(path.to_path_buf(), inner.inodes.len());
                inner.inodes.push(Inode::of(content));
            }
        }
        disk
    }

    /// The same disk as another one, which goes its own way from here on.
    fn copy(&self) -> Self {
        Self(Arc::new(Mutex::new(self.0.lock().clone())))
    }

    /// The disk after the process was killed.
    pub fn after_kill(&self) -> Self {
        let disk = self.copy();
        disk.process_ends();
        disk
    }

    /// One of the disks after a power failure; see [`SimDisk::lose_power`].
    pub fn after_power_loss(&self, random: &mut Random, loses_sectors: bool) -> Self {
        let disk = self.copy();
        disk.lose_power(random, loses_sectors);
        disk
    }

    /// The disk after the worst power failure: nothing is left but what is synced.
    pub fn synced_only(&self) -> Self {
        let disk = self.copy();
        {
            let inner = &mut *disk.0.lock();
            inner.names.clone_from(&inner.synced_names);
            inner.pending_names.clear();
            for inode in &mut inner.inodes {
                inode.pending.clear();
                inode.now.clone_from(&inode.synced);
            }
            inner.recover();
        }
        disk
    }

    /// Changes so far.
    pub fn changes(&self) -> u64 {
        self.0.lock().changes
    }

    /// Names of all files, without their directories.
    pub fn names(&self) -> Vec<String> {
        let inner = self.0.lock();
        let name = |path: &PathBuf| Some(path.file_name()?.to_str()?.to_owned());
        inner.names.keys().filter_map(name).collect()
    }

    /// Paths of all files.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.0.lock().names.keys().cloned().collect()
    }

    /// Content of a file, if there is one.
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let inner = self.0.lock();
        let inode = inner.names.get(path)?;
        Some(inner.inodes[*inode].now.clone())
    }

    /// Gives a file another content, which is safe.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn set_content(&self, path: &Path, content: &[u8]) {
        let inner = &mut *self.0.lock();
        let inode = inner.names[path];
        inner.inodes[inode] = Inode::of(content);
    }

    /// What goes wrong from now on.
    pub fn fail(&self, failure: Option<Failure>) {
        self.0.lock().failure = failure;
    }

    /// Lets `changes` more changes happen; the next one, if a write, arrives with its first
    /// `bytes` bytes; then everything fails.
    pub fn die_after(&self, changes: u64, bytes: usize) {
        self.0.lock().dies_after = Some((changes, bytes));
    }

    /// Lets the next sync of a file fail.
    pub fn fail_next_sync(&self, fault: SyncFault) {
        self.0.lock().sync_fault = Some(fault);
    }

    /// Lets the next reads of files fail, so many of them.
    pub fn fail_next_reads(&self, count: u32) {
        self.0.lock().failing_reads = count;
    }

    /// Whether there is room for anything more.
    pub fn set_full(&self, is_full: bool) {
        self.0.lock().is_full = is_full;
    }

    /// Whether it was said to be full.
    pub fn is_full(&self) -> bool {
        self.0.lock().is_full
    }

    /// The process is gone, the machine is not: all that was written is there.
    pub fn process_ends(&self) {
        self.0.lock().recover();
    }

    /// The power goes and comes back. `loses_sectors`: any sector of any pending write may be
    /// missing, not only what comes behind a point.
    pub fn lose_power(&self, random: &mut Random, loses_sectors: bool) {
        let inner = &mut *self.0.lock();
        if inner.is_always_safe {
            return;
        }
        let mut names = std::mem::take(&mut inner.synced_names);
        let mut pending = std::mem::take(&mut inner.pending_names);
        while let Some(dir) = pending.first().and_then(Naming::dir) {
            let here: Vec<Naming> = pending
                .extract_if(.., |naming| naming.is_in(&dir))
                .collect();
            let kept = random.below(here.len() + 1);
            for naming in here.into_iter().take(kept) {
                naming.apply(&mut names);
            }
        }
        for inode in &mut inner.inodes {
            inode.lose_power(random, loses_sectors);
        }
        // Files without a name are gone; numbers begin anew.
        let mut inodes = Vec::new();
        for inode in names.values_mut() {
            inodes.push(std::mem::take(&mut inner.inodes[*inode]));
            *inode = inodes.len() - 1;
        }
        inner.inodes = inodes;
        inner.synced_names.clone_from(&names);
        inner.names = names;
        inner.recover();
    }

    /// Whether bits have flipped since the disk was new.
    pub fn has_rotted(&self) -> bool {
        self.0.lock().has_rotted
    }

    /// Flips one bit of a log or snapshot. Nothing is said of the epoch files: they have no
    /// checksum, so nobody could tell.
    pub fn rot(&self, random: &mut Random) -> Option<PathBuf> {
        let inner = &mut *self.0.lock();
        let is_checked = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("log.") || name.starts_with("snapshot."))
        };
        let files: Vec<(&PathBuf, &usize)> = inner
            .names
            .iter()
            .filter(|(path, _)| is_checked(path))
            .collect();
        let (path, inode) = random.pick(&files)?;
        inner.has_rotted = true;
        let inode = &mut inner.inodes[*inode];
        let at = random.below(inode.now.len());
        let bit = 1u8 << random.below(8);
        for content in [&mut inode.now, &mut inode.synced] {
            if let Some(byte) = content.get_mut(at) {
                *byte ^= bit;
            }
        }
        Some(path.clone())
    }

    /// Makes one of these files unreadable: it is left with a byte that no number has. Epoch files
    /// have no checksum, so any other damage of them could not be told from a number.
    pub fn rot_number(&self, paths: &[&Path], random: &mut Random) -> Option<PathBuf> {
        let inner = &mut *self.0.lock();
        let named = |path: &&Path| Some((path.to_path_buf(), *inner.names.get(*path)?));
        let files: Vec<(PathBuf, usize)> = paths.iter().filter_map(named).collect();
        let (path, inode) = files.get(random.below(files.len()))?;
        inner.has_rotted = true;
        inner.inodes[*inode] = Inode::of(b"\x7f");
        Some(path.clone())
    }

    /// The disk is replaced by an empty one.
    pub fn wipe(&self) {
        *self.0.lock() = Inner::default();
    }
}

impl Inner {
    /// What was to happen to the process before does not happen to the next one.
    fn recover(&mut self) {
        self.dies_after = None;
        self.is_dead = false;
        self.sync_fault = None;
        self.failing_reads = 0;
    }
}

impl Inode {
    fn lose_power(&mut self, random: &mut Random, loses_sectors: bool) {
        let pending = std::mem::take(&mut self.pending);
        let kept = random.below(pending.len() + 1);
        for (at, write) in pending.into_iter().enumerate() {
            match write {
                Write::At(offset, bytes) if loses_sectors => {
                    lose_sectors(offset, &bytes, &mut self.synced, random);
                }
                write if loses_sectors || at < kept => write.apply(&mut self.synced),
                Write::At(offset, mut bytes) if at == kept => {
                    bytes.truncate(random.below(bytes.len() + 1));
                    Write::At(offset, bytes).apply(&mut self.synced);
                }
                _ => break,
            }
        }
        self.now.clone_from(&self.synced);
    }
}

fn lose_sectors(offset: u64, mut bytes: &[u8], content: &mut Vec<u8>, random: &mut Random) {
    let mut position = offset;
    while !bytes.is_empty() {
        let in_sector = SECTOR_BYTES - position % SECTOR_BYTES;
        let len = usize::try_from(in_sector).map_or(bytes.len(), |len| len.min(bytes.len()));
        let (sector, rest) = bytes.split_at(len);
        if random.percent(75) {
            Write::At(position, sector.to_vec()).apply(content);
        }
        position += len as u64;
        bytes = rest;
    }
}
