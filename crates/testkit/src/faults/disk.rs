//! Disk for a server that a test kills inside the test's own process.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use storage::{DirEntry, Disk, DiskFile, DiskLock, RealDisk};

/// Disk of this machine that can be switched off. It then refuses all changes.
///
/// Data that was written earlier remains, synced or not, as after a process is killed. A power
/// failure would lose the data that was not synced.
#[derive(Debug, Clone, Default)]
pub struct SwitchedDisk {
    switch: Arc<Switch>,
}

#[derive(Debug, Default)]
struct Switch {
    is_off: AtomicBool,
    sync_delay_ms: AtomicU64,
    /// Number of changes until a fault, plus 1. With 0, no fault is due.
    countdown: AtomicU64,
    /// Whether the fault is a single error. Otherwise the disk is switched off.
    is_single_error: AtomicBool,
    has_erred: AtomicBool,
}

/// File on a [`SwitchedDisk`].
#[derive(Debug)]
pub struct SwitchedFile {
    file: File,
    switch: Arc<Switch>,
}

impl SwitchedDisk {
    /// Refuses all further changes. A change that has already begun may still complete.
    pub fn switch_off(&self) {
        self.switch.is_off.store(true, Ordering::SeqCst);
    }

    /// Delays each sync of a file by `delay`. Zero removes the delay.
    pub fn slow_down(&self, delay: Duration) {
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.switch.sync_delay_ms.store(delay_ms, Ordering::Relaxed);
    }

    /// Switches the disk off after this number of further changes.
    pub fn switch_off_after(&self, changes: u64) {
        self.arm(changes, false);
    }

    /// Refuses one change, after this number of further changes.
    pub fn fail_once_after(&self, changes: u64) {
        self.arm(changes, true);
    }

    fn arm(&self, changes: u64, is_single_error: bool) {
        let switch = &self.switch;
        switch
            .is_single_error
            .store(is_single_error, Ordering::SeqCst);
        switch.countdown.store(changes + 1, Ordering::SeqCst);
    }

    /// Returns whether the disk is off.
    pub fn is_off(&self) -> bool {
        self.switch.is_off.load(Ordering::SeqCst)
    }

    /// Returns whether the disk is off, or the error of [`Self::fail_once_after`] has happened.
    pub fn has_failed(&self) -> bool {
        self.is_off() || self.switch.has_erred.load(Ordering::SeqCst)
    }

    fn keep(&self, file: File) -> SwitchedFile {
        let switch = self.switch.clone();
        SwitchedFile { file, switch }
    }
}

impl Switch {
    fn check(&self) -> io::Result<()> {
        let one_less = |left: u64| left.checked_sub(1);
        let counted = self
            .countdown
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
        if counted == Ok(1) {
            if self.is_single_error.load(Ordering::SeqCst) {
                self.has_erred.store(true, Ordering::SeqCst);
                return Err(io::Error::other("the disk failed once"));
            }
            self.is_off.store(true, Ordering::SeqCst);
        }
        if self.is_off.load(Ordering::SeqCst) {
            return Err(io::Error::other("the server was killed"));
        }
        Ok(())
    }
}

impl Disk for SwitchedDisk {
    type File = SwitchedFile;

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        RealDisk.list(dir)
    }

    fn is_dir(&self, path: &Path) -> bool {
        RealDisk.is_dir(path)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.switch.check()?;
        RealDisk.create_dir_all(dir)
    }

    fn open(&self, path: &Path) -> io::Result<SwitchedFile> {
        Ok(self.keep(RealDisk.open(path)?))
    }

    fn open_for_change(&self, path: &Path) -> io::Result<SwitchedFile> {
        self.switch.check()?;
        Ok(self.keep(RealDisk.open_for_change(path)?))
    }

    fn create(&self, path: &Path) -> io::Result<SwitchedFile> {
        self.switch.check()?;
        Ok(self.keep(RealDisk.create(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.switch.check()?;
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.switch.check()?;
        RealDisk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.switch.check()?;
        RealDisk.sync_dir(dir)
    }

    fn reads_ahead(&self) -> bool {
        RealDisk.reads_ahead()
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        RealDisk.lock(path)
    }
}

impl DiskFile for SwitchedFile {
    fn len(&self) -> io::Result<u64> {
        DiskFile::len(&self.file)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        DiskFile::read_at(&self.file, offset, buf)
    }

    fn write_all_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.switch.check()?;
        DiskFile::write_all_at(&self.file, offset, bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        let delay_ms = self.switch.sync_delay_ms.load(Ordering::Relaxed);
        if delay_ms > 0 {
            std::thread::sleep(Duration::from_millis(delay_ms));
        }
        self.switch.check()?;
        DiskFile::sync_data(&self.file)
    }

    fn forget(&self, offset: u64, len: u64) {
        DiskFile::forget(&self.file, offset, len);
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.switch.check()?;
        DiskFile::set_len(&self.file, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_off_changes_nothing_and_can_be_read() {
        let directory = tempfile::tempdir().unwrap();
        let (one, two) = (directory.path().join("1"), directory.path().join("2"));
        let disk = SwitchedDisk::default();
        let file = disk.create(&one).unwrap();
        file.write_all_at(0, b"before").unwrap();
        disk.clone().switch_off();
        for refused in [
            file.write_all_at(0, b"after"),
            file.sync_data(),
            file.set_len(0),
            disk.rename(&one, &two),
            disk.remove(&one),
            disk.sync_dir(directory.path()),
            disk.create(&one).map(drop),
            disk.open_for_change(&one).map(drop),
            disk.create_dir_all(&two),
        ] {
            assert_eq!(refused.unwrap_err().to_string(), "the server was killed");
        }
        let content = disk.read_small(&one, 100).unwrap();
        assert_eq!(content, Some(b"before".to_vec()));
    }

    #[test]
    fn faults_happen_after_the_given_number_of_changes() {
        let directory = tempfile::tempdir().unwrap();
        let disk = SwitchedDisk::default();
        let file = disk.create(&directory.path().join("1")).unwrap();
        disk.fail_once_after(1);
        file.write_all_at(0, b"a").unwrap();
        assert!(!disk.has_failed());
        assert!(file.write_all_at(1, b"b").is_err());
        assert!(disk.has_failed());
        file.write_all_at(1, b"b").unwrap();
        disk.switch_off_after(1);
        file.write_all_at(2, b"c").unwrap();
        assert!(file.write_all_at(3, b"d").is_err());
        assert!(file.write_all_at(3, b"d").is_err());
    }
}
