//! What happens to a disk.

use std::path::PathBuf;

use super::{Naming, SimDisk, SyncFault, Write};
use crate::random::Random;

impl SimDisk {
    /// Lets `changes` more changes happen; the next one, if a write, arrives with its first
    /// `bytes` bytes; then everything fails.
    pub(crate) fn die_after(&self, changes: u64, bytes: usize) {
        self.0.lock().dies_after = Some((changes, bytes));
    }

    /// Lets the next sync of a file fail.
    pub(crate) fn fail_next_sync(&self, fault: SyncFault) {
        self.0.lock().sync_fault = Some(fault);
    }

    /// Whether there is room for anything more.
    pub(crate) fn set_full(&self, is_full: bool) {
        self.0.lock().is_full = is_full;
    }

    pub(crate) fn is_full(&self) -> bool {
        self.0.lock().is_full
    }

    /// The process is gone, the machine is not: all that was written is there.
    pub(crate) fn process_ends(&self) {
        let inner = &mut *self.0.lock();
        inner.dies_after = None;
        inner.is_dead = false;
        inner.sync_fault = None;
    }

    /// The power goes and comes back.
    pub(crate) fn lose_power(&self, random: &mut Random) {
        let inner = &mut *self.0.lock();
        let mut names = std::mem::take(&mut inner.synced_names);
        let kept = random.below(inner.pending_names.len() + 1);
        for naming in inner.pending_names.drain(..).take(kept) {
            match naming {
                Naming::Link(path, inode) => drop(names.insert(path, inode)),
                Naming::Unlink(path) => drop(names.remove(&path)),
            }
        }
        for inode in &mut inner.inodes {
            let kept = random.below(inode.pending.len() + 1);
            let pending = std::mem::take(&mut inode.pending);
            for (at, write) in pending.into_iter().enumerate() {
                match write {
                    write if at < kept => write.apply(&mut inode.synced),
                    Write::At(offset, mut bytes) if at == kept => {
                        bytes.truncate(random.below(bytes.len() + 1));
                        Write::At(offset, bytes).apply(&mut inode.synced);
                    }
                    _ => break,
                }
            }
            inode.now.clone_from(&inode.synced);
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
        inner.dies_after = None;
        inner.is_dead = false;
        inner.sync_fault = None;
    }

    /// Flips one bit of a log or snapshot. Nothing is said of the epoch files: they have no
    /// checksum, so nobody could tell.
    pub(crate) fn rot(&self, random: &mut Random) -> Option<PathBuf> {
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

    /// The disk is replaced by an empty one.
    pub(crate) fn wipe(&self) {
        *self.0.lock() = super::Inner::default();
    }
}
