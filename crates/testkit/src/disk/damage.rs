//! Damage to a simulated disk, and inspection of its contents.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Failure, Inner, Inode, Naming, SimDisk, SyncFault, Write};
use crate::random::Random;

/// Size of a sector, bytes. A disk writes a sector completely or not at all.
const SECTOR_BYTES: u64 = 512;

impl SimDisk {
    /// Creates a disk that contains these files and on which all writes survive a power failure.
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

    /// Returns the number of bytes that were read from files so far.
    pub fn read_bytes(&self) -> u64 {
        self.0.lock().read_bytes
    }

    /// Returns an independent copy of the disk.
    fn copy(&self) -> Self {
        Self(Arc::new(Mutex::new(self.0.lock().clone())))
    }

    /// Returns a copy of the disk as it is after the process was killed.
    #[must_use]
    pub fn after_kill(&self) -> Self {
        let disk = self.copy();
        disk.process_ends();
        disk
    }

    /// Returns a copy of the disk after a random power failure. See [`SimDisk::lose_power`].
    #[must_use]
    pub fn after_power_loss(&self, random: &mut Random, loses_sectors: bool) -> Self {
        let disk = self.copy();
        disk.lose_power(random, loses_sectors);
        disk
    }

    /// Returns a copy of the disk after the worst power failure, in which only synced data remains.
    #[must_use]
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

    /// Hashes all files, and the synced state, which is all that the worst power failure leaves.
    pub fn hash_files(&self, hasher: &mut impl Hasher) {
        let inner = self.0.lock();
        let mut hash_all = |names: &BTreeMap<PathBuf, usize>| {
            names.len().hash(hasher);
            for (path, inode) in names {
                let file = &inner.inodes[*inode];
                (path, &file.now, &file.synced).hash(hasher);
            }
        };
        hash_all(&inner.names);
        hash_all(&inner.synced_names);
    }

    /// Returns the number of changes so far.
    pub fn changes(&self) -> u64 {
        self.0.lock().changes
    }

    /// Returns the names of all files, without their directories.
    pub fn names(&self) -> Vec<String> {
        let inner = self.0.lock();
        let name = |path: &PathBuf| Some(path.file_name()?.to_str()?.to_owned());
        inner.names.keys().filter_map(name).collect()
    }

    /// Returns the paths of all files.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.0.lock().names.keys().cloned().collect()
    }

    /// Returns the content of a file, if it exists.
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let inner = self.0.lock();
        let inode = inner.names.get(path)?;
        Some(inner.inodes[*inode].now.clone())
    }

    /// Replaces the content of a file. The new content is synced.
    ///
    /// # Panics
    /// If the file does not exist.
    pub fn set_content(&self, path: &Path, content: &[u8]) {
        let inner = &mut *self.0.lock();
        let inode = inner.names[path];
        inner.inodes[inode] = Inode::of(content);
    }

    /// Sets or clears the persistent fault.
    pub fn fail(&self, failure: Option<Failure>) {
        self.0.lock().failure = failure;
    }

    /// Permits `changes` more changes. If the change after them is a write, its first `bytes` bytes
    /// are written, but the write fails, like all later changes. Reads succeed.
    pub fn die_after(&self, changes: u64, bytes: usize) {
        self.0.lock().dies_after = Some((changes, bytes));
    }

    /// Makes the next sync of a file fail.
    pub fn fail_next_sync(&self, fault: SyncFault) {
        self.0.lock().sync_fault = Some(fault);
    }

    /// Makes the next `count` reads of files fail.
    pub fn fail_next_reads(&self, count: u32) {
        self.0.lock().failing_reads = count;
    }

    /// Sets whether the disk is full.
    pub fn set_full(&self, is_full: bool) {
        self.0.lock().is_full = is_full;
    }

    /// Returns whether the disk is set to full.
    pub fn is_full(&self) -> bool {
        self.0.lock().is_full
    }

    /// Simulates the end of the process. The machine continues, so all written data remains.
    pub fn process_ends(&self) {
        self.0.lock().recover();
    }

    /// Simulates a power failure and a restart. If `loses_sectors` is set, any sector of any
    /// pending write may be missing. Otherwise each file keeps a random prefix of its pending
    /// writes. A disk that is always safe does not change.
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
        // Removes files without a name, and renumbers the others.
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

    /// Returns whether [`SimDisk::rot`] or [`SimDisk::rot_number`] has corrupted a file on this
    /// disk.
    pub fn has_rotted(&self) -> bool {
        self.0.lock().has_rotted
    }

    /// Flips a random bit in a random log or snapshot, and returns the path of the file. Epoch
    /// files are excluded because they lack a checksum, so the corruption would be undetectable.
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

    /// Replaces the content of a random one of these files with a byte that is never part of a
    /// number, and returns the path of the file. Epoch files lack a checksum, so other corruption
    /// could look like a valid number.
    pub fn rot_number(&self, paths: &[&Path], random: &mut Random) -> Option<PathBuf> {
        let inner = &mut *self.0.lock();
        let named = |path: &&Path| Some((path.to_path_buf(), *inner.names.get(*path)?));
        let files: Vec<(PathBuf, usize)> = paths.iter().filter_map(named).collect();
        let (path, inode) = files.get(random.below(files.len()))?;
        inner.has_rotted = true;
        inner.inodes[*inode] = Inode::of(b"\x7f");
        Some(path.clone())
    }

    /// Replaces the disk with an empty one.
    pub fn wipe(&self) {
        *self.0.lock() = Inner::default();
    }
}

impl Inner {
    /// Clears the faults that were planned for the previous process.
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
