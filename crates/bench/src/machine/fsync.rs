//! Disk limit: the rate at which a disk makes groups of records durable.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::args::{FsyncArgs, Preallocate};
use crate::error::{BenchError, Result};
use crate::rounds::stats::Stats;
use crate::session::template::Payload;

/// Length of the preallocated file. At its end, writing restarts from the beginning. Source:
/// `preAllocSize` of Apache ZooKeeper.
const FILE_BYTES: u64 = 64 << 20;

/// Result of a measurement.
#[derive(Debug)]
pub(crate) struct FsyncResult {
    /// Statistics of the time that each write takes, including its sync.
    pub(crate) stats: Stats,
    pub(crate) elapsed: Duration,
}

/// Writes and syncs groups of records for the requested time.
pub(crate) fn run(args: &FsyncArgs) -> Result<FsyncResult> {
    let mut scratch = Scratch::create(&args.dir, args.preallocate)?;
    let group = Payload::new(args.bytes as usize)
        .0
        .repeat(args.group as usize);
    let mut stats = Stats::new();
    let start = Instant::now();
    while start.elapsed() < args.duration {
        let began = Instant::now();
        scratch.write(&group)?;
        stats.record(
            u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX),
            1,
        );
    }
    Ok(FsyncResult {
        stats,
        elapsed: start.elapsed(),
    })
}

/// Unnamed file. The system deletes it when it is closed, even if the process is killed.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// Name of the file in error messages.
    path: PathBuf,
    file: File,
    preallocate: Preallocate,
    /// Offset of the next write, in bytes.
    at: u64,
}

impl Scratch {
    /// Creates and preallocates a file in `dir`, and removes its name.
    pub(crate) fn create(dir: &Path, preallocate: Preallocate) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("zoarium-bench-fsync-{}-{number}", std::process::id());
        let path = dir.join(name);
        let what = format!("create {}", path.display());
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        let file = file.map_err(BenchError::io(what.clone()))?;
        std::fs::remove_file(&path)
            .map_err(BenchError::io(format!("remove {}", path.display())))?;
        let mut scratch = Self {
            file,
            path,
            preallocate,
            at: 0,
        };
        scratch.fill().map_err(BenchError::io(what))?;
        Ok(scratch)
    }

    /// Writes a group and waits until it is on disk.
    pub(crate) fn write(&mut self, group: &[u8]) -> Result<()> {
        self.write_and_sync(group)
            .map_err(BenchError::io(format!("write {}", self.path.display())))
    }

    fn write_and_sync(&mut self, group: &[u8]) -> io::Result<()> {
        let bytes = group.len() as u64;
        if self.preallocate != Preallocate::None && self.at + bytes > FILE_BYTES {
            self.start_over()?;
        }
        self.file.write_all(group)?;
        self.file.sync_data()?;
        self.at += bytes;
        Ok(())
    }

    /// Continues writing at the beginning of the file. Written parts of a sparse file are no longer
    /// holes, so the content of such a file is first discarded.
    fn start_over(&mut self) -> io::Result<()> {
        self.at = 0;
        self.file.seek(SeekFrom::Start(0))?;
        if self.preallocate == Preallocate::Sparse {
            self.file.set_len(0)?;
            self.fill()?;
        }
        Ok(())
    }

    fn fill(&mut self) -> io::Result<()> {
        match self.preallocate {
            Preallocate::None => {}
            Preallocate::Sparse => self.file.set_len(FILE_BYTES)?,
            Preallocate::Zeroes => {
                let zeroes = vec![0; 1 << 20];
                for _ in 0..FILE_BYTES / zeroes.len() as u64 {
                    self.file.write_all(&zeroes)?;
                }
                self.file.seek(SeekFrom::Start(0))?;
            }
        }
        self.file.sync_all()
    }
}
