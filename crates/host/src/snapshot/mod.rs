//! Writing of a snapshot while transactions continue.

pub(crate) mod work;

use std::path::PathBuf;
use std::sync::Arc;

use proto::Zxid;
use recovery::{DurableReader, LogEnd, NewSnapshot, SnapshotSettings};
use replica::{Input, State, Synchronised};
use storage::{DataDirs, Disk, StorageError};

use crate::{Fact, ModelTrace, SnapshotReason};

/// Number of tree bytes that a snapshot encodes under one shared lock, for a file or for a learner.
/// The number is small (about 50 us of work), because the thread may lose the processor while it
/// holds the lock.
pub const SNAPSHOT_CHUNK_BYTES: usize = 48 << 10;

/// A snapshot in progress. If it is dropped before its end, its file is removed.
#[derive(Debug)]
pub struct StateSnapshot<D: Disk> {
    snapshot: NewSnapshot<D>,
    of: Option<Synchronised>,
    begun_ms: i64,
    chunk: Vec<u8>,
    is_whole: bool,
}

/// Progress of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SnapshotProgress {
    /// More pieces must be written.
    More,
    /// Everything is written, but the log on disk does not contain all of it yet.
    NotLogged,
    /// Everything is written and logged. The file does not have its final name yet.
    Whole,
    /// The snapshot is abandoned, because the tree has been or will be replaced. The snapshot might
    /// contain data that is never committed.
    GivenUp,
}

/// A snapshot on disk.
#[derive(Debug)]
pub struct WrittenSnapshot {
    /// Transaction in the snapshot's name.
    pub zxid: Zxid,
    /// Path of the snapshot.
    pub path: PathBuf,
    /// Time at which the snapshot began, ms.
    pub begun_ms: i64,
    /// Report for the replica if a role requested the snapshot.
    pub input: Option<Input>,
}

impl<D: Disk> StateSnapshot<D> {
    /// Begins a snapshot of the current tree at this time in ms. Returns `None` if the tree must
    /// not become durable, because it is not established or the role that requested the snapshot is
    /// over.
    ///
    /// # Errors
    /// If the file cannot be created.
    // Model: StartSnapshot.
    pub(super) fn begin(
        state: &impl State,
        disk: Arc<D>,
        dirs: DataDirs,
        settings: SnapshotSettings,
        wanted: SnapshotReason,
        begun_ms: i64,
        trace: Option<&ModelTrace>,
    ) -> Result<Option<Self>, StorageError> {
        let tree = state.tree();
        let (zxid, generation) = (tree.last_zxid(), state.generation());
        let mut of = None;
        let reader = match wanted {
            SnapshotReason::Due | SnapshotReason::Operator => {
                let reader = DurableReader::established(&tree, generation);
                reader.map_err(|error| error.to_string())
            }
            SnapshotReason::First => Ok(DurableReader::still(&tree, generation)),
            SnapshotReason::Synchronised(ordered) => {
                of = Some(ordered);
                let reader = DurableReader::taken_over(&tree, generation, ordered.generation);
                reader.map_err(|_| "the role that requested the snapshot has ended".to_owned())
            }
        };
        if let (Some(trace), None, Ok(_)) = (trace, of, &reader) {
            // The tree is still locked, so the fact precedes facts about later changes.
            trace.add(Fact::BeganSnapshot { zxid });
        }
        drop(tree);
        let reader = match reader {
            Ok(reader) => reader,
            Err(reason) => {
                tracing::info!(%zxid, reason, "snapshot not started");
                return Ok(None);
            }
        };
        Ok(Some(Self {
            snapshot: NewSnapshot::new(disk, dirs, settings, reader)?,
            of,
            begun_ms,
            chunk: Vec::new(),
            is_whole: false,
        }))
    }

    /// Returns the last transaction that the snapshot certainly contains. The file is named after
    /// it.
    pub fn zxid(&self) -> Zxid {
        self.snapshot.zxid()
    }

    /// Returns the uncompressed size so far, bytes.
    pub fn bytes(&self) -> u64 {
        self.snapshot.bytes()
    }

    /// Returns whether everything is written, so that the snapshot only waits for the log.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Reads about `bytes` bytes while the tree is locked for reading, and writes them after the
    /// lock is released. Once everything is written, checks whether the log on disk contains it.
    ///
    /// # Errors
    /// If the bytes cannot be written.
    pub(super) fn write_some(
        &mut self,
        state: &impl State,
        log: &LogEnd,
        bytes: usize,
    ) -> Result<SnapshotProgress, StorageError> {
        let Self {
            snapshot, chunk, ..
        } = self;
        chunk.clear();
        let more = if self.is_whole {
            snapshot.check(state.generation()).map(|()| false)
        } else {
            chunk.reserve(bytes);
            // The hold is shared and short, so writers wait for at most one chunk.
            let tree = state.tree();
            snapshot.read(&tree, state.generation(), bytes, chunk)
        };
        let Ok(more) = more else {
            self.log_abandoned();
            return Ok(SnapshotProgress::GivenUp);
        };
        snapshot.write(chunk)?;
        self.is_whole = !more;
        Ok(if more {
            SnapshotProgress::More
        } else if self.snapshot.is_logged(log) {
            SnapshotProgress::Whole
        } else {
            SnapshotProgress::NotLogged
        })
    }

    /// Renames the file to its final name. Returns `None` if the tree has been replaced. During
    /// this call, the files must not be loaded or cut. `log` is the end of the log on disk.
    ///
    /// # Errors
    /// If the file cannot be written, or other snapshots cannot be removed.
    // Model: FinishSnapshot.
    pub(super) fn finish(
        self,
        state: &impl State,
        log: &LogEnd,
        trace: Option<&ModelTrace>,
    ) -> Result<Option<WrittenSnapshot>, StorageError> {
        if self.snapshot.check(state.generation()).is_err() {
            self.log_abandoned();
            return Ok(None);
        }
        let (zxid, of) = (self.zxid(), self.of);
        let input = of.map(|Synchronised { attempt, .. }| Input::SnapshotWritten { attempt, zxid });
        let trace = trace.filter(|_| of.is_none());
        if let Some(trace) = trace {
            let (covers, logged) = (self.snapshot.covers(), log.get());
            trace.add(Fact::NamesSnapshot {
                zxid,
                covers,
                logged,
            });
            trace.write();
        }
        let path = self.snapshot.finish(of.is_some())?;
        if let Some(trace) = trace {
            trace.add(Fact::NamedSnapshot {});
            trace.write();
        }
        Ok(Some(WrittenSnapshot {
            zxid,
            path,
            begun_ms: self.begun_ms,
            input,
        }))
    }

    fn log_abandoned(&self) {
        let zxid = self.zxid();
        tracing::info!(%zxid, "snapshot cancelled because it would contain uncommitted transactions");
    }
}
