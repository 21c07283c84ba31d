//! Files of a change history in a directory of the real file system, with their faults.
//!
//! A process ends without a last checkpoint. Its files may then be as the process left them, or a
//! power failure may have removed data that was written since the last checkpoint. In some lives,
//! a file of an earlier life is corrupted.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use history::{HistoryError, Index, IndexSettings, Shape};
use testkit::Random;

/// Number of attempts to open files that are still locked.
const LOCKED_MAX: usize = 100_000;

/// Numbers of events in the files of change histories.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileCounts {
    /// Number of comparisons.
    pub compared: usize,
    /// Number of changes in the compared histories.
    pub changes: usize,
    /// Number of holes in the compared histories.
    pub holes: usize,
    /// Number of these holes in which no transaction is missing.
    pub empty_holes: usize,
    /// Number of compared histories that had dropped old changes.
    pub dropped: usize,
    /// Number of openings of existing files.
    pub opened: usize,
    /// Number of openings that lost transactions.
    pub cut: usize,
    /// Number of corrupted histories that were moved aside.
    pub set_aside: usize,
}

impl std::ops::AddAssign for FileCounts {
    fn add_assign(&mut self, other: Self) {
        self.compared += other.compared;
        self.changes += other.changes;
        self.holes += other.holes;
        self.empty_holes += other.empty_holes;
        self.dropped += other.dropped;
        self.opened += other.opened;
        self.cut += other.cut;
        self.set_aside += other.set_aside;
    }
}

/// Files of one member.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) settings: IndexSettings,
    /// Digest id of an ordinary user.
    pub(super) user: String,
    pub(super) random: RefCell<Random>,
    /// Lengths of the files at the last checkpoint.
    durable: RefCell<BTreeMap<PathBuf, u64>>,
    /// Whether a file of the history has been corrupted.
    is_damaged: Cell<bool>,
    /// Highest time of a recorded transaction, ms.
    newest_ms: Cell<i64>,
    counts: Cell<FileCounts>,
    /// First difference between the files and the memory that was found while recording.
    fault: RefCell<Option<String>>,
}

impl Files {
    /// Draws the settings of a history in a directory that does not exist yet.
    pub(super) fn drawn(dir: &Path, seed: u64, user: String) -> Self {
        let mut random = Random::new(seed);
        let mut settings = IndexSettings::new(dir);
        settings.shape = Shape {
            block_changes: random.pick(&[1, 3, 8]).unwrap_or(3),
            run_blocks: random.pick(&[1, 2, 5]).unwrap_or(2),
            runs_merged: random.pick(&[2, 3]).unwrap_or(2),
            segment_bytes: random.pick(&[500, 2000, 8000, 16 << 20]).unwrap_or(2000),
        };
        settings.age_ms_max = random.pick(&[0, 0, 1500, 4000]).unwrap_or(0);
        settings.bytes_max = random.pick(&[0, 0, 0, 400_000]).unwrap_or(0);
        settings.content_bytes_max = random.pick(&[400, 1500, 1 << 20]).unwrap_or(400);
        Self {
            settings,
            user,
            random: RefCell::new(random),
            durable: RefCell::default(),
            is_damaged: Cell::new(false),
            newest_ms: Cell::new(0),
            counts: Cell::default(),
            fault: RefCell::default(),
        }
    }

    pub(super) fn percent(&self, percent: usize) -> bool {
        self.random.borrow_mut().percent(percent)
    }

    pub(super) fn is_damaged(&self) -> bool {
        self.is_damaged.get()
    }

    pub(super) fn count(&self, more: FileCounts) {
        let mut counts = self.counts.get();
        counts += more;
        self.counts.set(counts);
    }

    pub(super) fn counts(&self) -> FileCounts {
        self.counts.get()
    }

    /// Returns whether old changes may be dropped.
    pub(super) fn may_drop(&self) -> bool {
        self.settings.age_ms_max > 0 || self.settings.bytes_max > 0
    }

    /// Records the time of a transaction.
    pub(super) fn note_time(&self, ms: i64) {
        self.newest_ms.set(self.newest_ms.get().max(ms));
    }

    /// Returns the highest time of a recorded transaction, ms.
    pub(super) fn newest_ms(&self) -> i64 {
        self.newest_ms.get()
    }

    /// Records a difference between the files and the memory.
    pub(super) fn fail(&self, text: String) {
        self.fault.borrow_mut().get_or_insert(text);
    }

    pub(super) fn fault(&self) -> Option<String> {
        self.fault.borrow().clone()
    }

    /// Records that the index has written a checkpoint.
    pub(super) fn synced(&self) {
        let lengths = self.list().into_iter();
        let lengths = lengths.map(|path| {
            let len = fs::metadata(&path).map_or(0, |found| found.len());
            (path, len)
        });
        self.durable.replace(lengths.collect());
    }

    /// Returns the files of the history, except the rows of the index.
    fn list(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.settings.dir).into_iter().flatten();
        let paths = entries.flatten().map(|entry| entry.path());
        let mut files: Vec<PathBuf> = paths.filter(|path| path.is_file()).collect();
        files.sort();
        files
    }

    /// Opens the history.
    ///
    /// # Errors
    /// If the shipped index cannot be opened.
    pub(super) fn open(&self) -> history::Result<Index> {
        for _ in 0..LOCKED_MAX {
            match Index::open(self.settings.clone()) {
                // Threads of the closed index may still have its files open.
                Err(HistoryError::Io { source, .. })
                    if source.kind() == std::io::ErrorKind::WouldBlock =>
                {
                    std::thread::yield_now();
                }
                opened => return opened,
            }
        }
        Index::open(self.settings.clone())
    }

    /// Ends the process that writes the history.
    pub(super) fn end(&self, index: Index) {
        let copy = self.settings.dir.with_extension("copy");
        let is_killed = self.percent(30) && copy_below(&self.settings.dir, &copy).is_ok();
        drop(index);
        if is_killed {
            // The process has written nothing more.
            let replaced = fs::remove_dir_all(&self.settings.dir)
                .and_then(|()| fs::rename(&copy, &self.settings.dir));
            replaced.expect("the files of a simulated member can be replaced");
        }
        if self.percent(50) {
            self.lose_unsynced();
        }
    }

    /// Removes any part of the data that was written since the last checkpoint.
    fn lose_unsynced(&self) {
        let durable = self.durable.borrow();
        for path in self.list() {
            let len = fs::metadata(&path).map_or(0, |found| found.len());
            let least = durable.get(&path).copied();
            if least.is_none() && self.percent(30) {
                fs::remove_file(&path).expect("a file of a simulated member can be removed");
                continue;
            }
            let least = least.unwrap_or(0);
            let lost = usize::try_from(len.saturating_sub(least)).unwrap_or(0);
            let lost = self.random.borrow_mut().below(lost + 1) as u64;
            let file = fs::OpenOptions::new().write(true).open(&path);
            file.and_then(|file| file.set_len(len - lost))
                .expect("a file of a simulated member can be truncated");
        }
    }

    /// Corrupts one file of the history in some calls.
    pub(super) fn may_damage(&self) {
        let files = self.list();
        let mut random = self.random.borrow_mut();
        if !random.percent(8) {
            return;
        }
        let Some(path) = files.get(random.below(files.len())) else {
            return;
        };
        let mut bytes = fs::read(path).unwrap_or_default();
        let at = random.below(bytes.len());
        match bytes.get_mut(at) {
            Some(byte) if random.percent(70) => *byte ^= 1 << random.below(8),
            _ => bytes.truncate(at),
        }
        fs::write(path, bytes).expect("a file of a simulated member can be written");
        self.is_damaged.set(true);
    }

    /// Removes the history.
    pub(super) fn remove(&self) {
        self.forget();
        let _missing = fs::remove_dir_all(&self.settings.dir);
    }

    /// Moves an unusable history aside.
    pub(super) fn set_aside(&self) {
        self.forget();
        self.count(FileCounts {
            set_aside: 1,
            ..FileCounts::default()
        });
        if let Err(error) = history::set_aside(&self.settings.dir) {
            self.fail(format!("cannot move the change history aside: {error}"));
        }
    }

    fn forget(&self) {
        self.durable.take();
        self.is_damaged.set(false);
    }
}

fn copy_below(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_below(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
