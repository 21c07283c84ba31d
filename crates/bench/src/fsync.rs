//! The other ceiling: how fast this disk makes groups of records durable.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::args::{FsyncArgs, Preallocate};
use super::error::{BenchError, Result};
use super::stats::Stats;
use super::template::Payload;

/// Length of the file when it is preallocated; writing starts over at its end.
/// Source: `preAllocSize` of Apache ZooKeeper.
const FILE_BYTES: u64 = 64 << 20;

/// What was reached.
#[derive(Debug)]
pub(crate) struct FsyncResult {
    /// Time of each write and sync.
    pub(crate) stats: Stats,
    pub(crate) elapsed: Duration,
}

/// Writes and syncs groups for the time asked for.
pub(crate) fn run(args: &FsyncArgs) -> Result<FsyncResult> {
    let mut scratch = Scratch::create(&args.dir, args.preallocate)?;
    let what = format!("write {}", scratch.path.display());
    let group = Payload::new(args.bytes as usize)
        .0
        .repeat(args.group as usize);
    let group_bytes = group.len() as u64;
    let wraps = args.preallocate != Preallocate::None;
    let mut stats = Stats::new();
    let mut at = 0;
    let start = Instant::now();
    while start.elapsed() < args.duration {
        if wraps && at + group_bytes > FILE_BYTES {
            scratch
                .start_over(args.preallocate)
                .map_err(BenchError::io(&what))?;
            at = 0;
        }
        let began = Instant::now();
        scratch
            .file
            .write_all(&group)
            .map_err(BenchError::io(&what))?;
        scratch.file.sync_data().map_err(BenchError::io(&what))?;
        stats.record(
            u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX),
            1,
        );
        at += group_bytes;
    }
    Ok(FsyncResult {
        stats,
        elapsed: start.elapsed(),
    })
}

/// A file that is gone when this is.
struct Scratch {
    path: PathBuf,
    file: File,
}

impl Scratch {
    fn create(dir: &Path, preallocate: Preallocate) -> Result<Self> {
        let path = dir.join(format!("zoarium-bench-fsync-{}", std::process::id()));
        let what = format!("create {}", path.display());
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        let mut scratch = Self {
            file: file.map_err(BenchError::io(what.clone()))?,
            path,
        };
        scratch.fill(preallocate).map_err(BenchError::io(what))?;
        Ok(scratch)
    }

    /// A hole that was written to is one no more, so it is made again.
    fn start_over(&mut self, preallocate: Preallocate) -> std::io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        if preallocate == Preallocate::Sparse {
            self.file.set_len(0)?;
            self.fill(preallocate)?;
        }
        Ok(())
    }

    fn fill(&mut self, preallocate: Preallocate) -> std::io::Result<()> {
        match preallocate {
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

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing can be done about it here, and the name says whose it is.
        let _ = std::fs::remove_file(&self.path);
    }
}
