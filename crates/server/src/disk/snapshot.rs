//! The thread that writes snapshots while requests go on.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use monitoring::admin::LastSnapshot;
use parking_lot::{Mutex, MutexGuard};
use proto::Zxid;
use recovery::{NewSnapshot, SnapshotSettings, TreeReader};
use replica::Input;
use storage::{Compression, DataDirs, RealDisk, StorageError};
use tokio::sync::oneshot;

use crate::failure::Failure;
use crate::inbox::InputSink;
use crate::metrics::Metrics;
use crate::state::ServerState;
use crate::{clock, limits};

/// Exit code when a snapshot cannot be written. Source: ExitCode.ERROR_TAKING_SNAPSHOT.
const EXIT_SNAPSHOT: u8 = 10;

/// Why a snapshot is written.
enum Reason {
    /// Enough was logged since the last one.
    Due,
    /// A learner cannot go on without it: the core is told when it is on disk.
    Synchronised(Synchronised),
    /// An operator wants one, and waits for it. That it cannot be written ends nothing.
    Asked(oneshot::Sender<Result<Taken, String>>),
}

/// A snapshot that an operator has asked for.
#[derive(Debug)]
pub(crate) struct Taken {
    /// The transaction that it is named after.
    pub(crate) zxid: Zxid,
    /// Its length in bytes.
    pub(crate) len: u64,
    /// The file, opened before it can be purged.
    pub(crate) file: File,
}

/// A snapshot that was written.
struct Written {
    zxid: Zxid,
    path: PathBuf,
}

/// A leader's history that takes the place of this server's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Synchronised {
    /// The learner's, for the report.
    pub(crate) attempt: u64,
    /// Of the tree that holds it. Once there is another the snapshot is not wanted any more.
    pub(crate) generation: u64,
}

/// Room for one of each, mostly.
const REQUESTS_MAX: usize = 2;

/// Where the log thread and the core ask for a snapshot.
#[derive(Clone)]
pub(crate) struct SnapshotRequests {
    busy: Arc<AtomicBool>,
    rest: Arc<Rest>,
    files: Arc<Mutex<()>>,
    requests: Sender<Reason>,
    latest: Arc<Mutex<Option<LastSnapshot>>>,
}

/// Until when no snapshot is begun for the number of transactions alone.
///
/// `snapCount` was made for servers that log a few thousand transactions a second. At a hundred
/// thousand, a large tree would be written over and over without a pause, which takes processor and
/// disk from the clients and saves nothing: after a crash a log is read faster than it was written.
#[derive(Default)]
struct Rest {
    until_ms: AtomicU64,
}

impl Rest {
    /// A snapshot took `took`, until `now_ms` (monotonic).
    fn begin(&self, took: Duration, now_ms: u64) {
        let rest = match took {
            took if took < limits::SNAPSHOT_SHORT => Duration::ZERO,
            took => took
                .saturating_mul(limits::SNAPSHOT_REST_FACTOR)
                .min(limits::SNAPSHOT_REST_MAX),
        };
        let rest_ms = u64::try_from(rest.as_millis()).unwrap_or(u64::MAX);
        self.until_ms
            .store(now_ms.saturating_add(rest_ms), Ordering::Release);
    }

    fn is_over(&self, now_ms: u64) -> bool {
        now_ms >= self.until_ms.load(Ordering::Acquire)
    }
}

impl SnapshotRequests {
    /// Asks for a snapshot, unless one is being written or was just now: the next trigger will ask
    /// again.
    pub(crate) fn request(&self) {
        if !self.rest.is_over(clock::monotonic_ms()) {
            tracing::debug!("the last snapshot was large and is recent, none is begun");
        } else if !self.busy.swap(true, Ordering::AcqRel) {
            // `busy` keeps a second from being sent, but two of the core's may fill the queue.
            if self.requests.try_send(Reason::Due).is_err() {
                self.busy.store(false, Ordering::Release);
            }
        } else {
            tracing::warn!("a snapshot is still being written, too busy to start another");
        }
    }

    /// Asks for a snapshot of the tree as it is from now on; the core is told when it is on disk.
    /// Waits while earlier ones are not begun yet.
    pub(crate) fn request_for_core(&self, of: Synchronised) {
        // One that waits already is of an earlier attempt; it is over soon.
        let _ = self.requests.send(Reason::Synchronised(of));
    }

    /// Takes a snapshot for an operator.
    ///
    /// # Errors
    /// A sentence that says why there is none.
    pub(crate) async fn take(&self) -> Result<Taken, String> {
        let (answer, taken) = oneshot::channel();
        let requests = self.requests.clone();
        // Room comes as soon as the one before is begun.
        let asking = tokio::task::spawn_blocking(move || requests.send(Reason::Asked(answer)));
        // If it fails the answer does not come either.
        let _ = asking.await;
        let taken = taken.await;
        taken.unwrap_or_else(|_| Err("the server is ending".to_owned()))
    }

    /// The snapshot that was written last, or that the server began with.
    pub(crate) fn latest(&self) -> Option<LastSnapshot> {
        *self.latest.lock()
    }

    /// The server began with this one.
    pub(crate) fn note_loaded(&self, snapshot: LastSnapshot) {
        *self.latest.lock() = Some(snapshot);
    }

    /// While this is held no snapshot gets its name and none is removed: whoever loads or cuts the
    /// history on disk would miss it. One of an earlier generation gets none afterwards either.
    pub(crate) fn hold_files(&self) -> MutexGuard<'_, ()> {
        self.files.lock()
    }
}

/// How the snapshot thread is brought to its end.
pub(crate) struct SnapshotEnd {
    abandoned: Arc<AtomicBool>,
    /// Closed when the thread has ended.
    ended: Receiver<()>,
}

impl SnapshotEnd {
    /// Waits for the end, which comes once nobody can ask for snapshots any more; a snapshot that
    /// is not finished after `grace` is given up.
    pub(crate) fn wait(self, grace: Duration) {
        if self.ended.recv_timeout(grace) == Err(RecvTimeoutError::Timeout) {
            self.abandoned.store(true, Ordering::Release);
            // At the next piece of the tree.
            let _ = self.ended.recv();
        }
    }
}

/// How snapshots are written.
pub(crate) fn snapshot_settings(storage: &config::Storage) -> SnapshotSettings {
    SnapshotSettings {
        compression: compression(storage.snapshot_compression),
        force_sync: storage.force_sync,
        digest_enabled: storage.digest_enabled,
        serialize_last_zxid: storage.serialize_last_processed_zxid,
    }
}

/// What snapshots are made of, and where they go.
pub(crate) struct SnapshotParts {
    pub(crate) state: Arc<ServerState>,
    pub(crate) settings: SnapshotSettings,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) disk: Arc<RealDisk>,
    pub(crate) dirs: DataDirs,
}

/// Writes a snapshot whenever one is asked for.
pub(crate) struct Snapshotter {
    pub(crate) state: Arc<ServerState>,
    pub(crate) settings: SnapshotSettings,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) disk: Arc<RealDisk>,
    pub(crate) dirs: DataDirs,
    pub(crate) failure: Failure,
    busy: Arc<AtomicBool>,
    rest: Arc<Rest>,
    files: Arc<Mutex<()>>,
    abandoned: Arc<AtomicBool>,
    requests: Receiver<Reason>,
    latest: Arc<Mutex<Option<LastSnapshot>>>,
    core: InputSink,
    _ended: Sender<()>,
}

impl Snapshotter {
    pub(crate) fn new(
        parts: SnapshotParts,
        failure: Failure,
        core: InputSink,
    ) -> (Self, SnapshotRequests, SnapshotEnd) {
        let busy = Arc::new(AtomicBool::new(false));
        let rest = Arc::new(Rest::default());
        let files = Arc::new(Mutex::new(()));
        let abandoned = Arc::new(AtomicBool::new(false));
        let (sender, requests) = crossbeam_channel::bounded(REQUESTS_MAX);
        let (end, ended) = crossbeam_channel::bounded(0);
        let latest = Arc::new(Mutex::new(None));
        let asking = SnapshotRequests {
            busy: busy.clone(),
            rest: rest.clone(),
            files: files.clone(),
            requests: sender,
            latest: latest.clone(),
        };
        (
            Self {
                state: parts.state,
                settings: parts.settings,
                metrics: parts.metrics,
                disk: parts.disk,
                dirs: parts.dirs,
                failure,
                busy,
                rest,
                files,
                abandoned: abandoned.clone(),
                requests,
                latest,
                core,
                _ended: end,
            },
            asking,
            SnapshotEnd { abandoned, ended },
        )
    }

    /// Runs until nobody can ask any more.
    pub(crate) fn run(self) {
        while let Ok(reason) = self.requests.recv() {
            let written = match reason {
                Reason::Due => self.take(),
                Reason::Synchronised(of) => self.take_over(of),
                Reason::Asked(answer) => {
                    // Nobody takes it if whoever asked has gone.
                    let _ = answer.send(self.take_for_operator());
                    continue;
                }
            };
            if matches!(reason, Reason::Due) {
                self.busy.store(false, Ordering::Release);
            }
            match (written, reason) {
                (Err(error), _) => {
                    tracing::error!(err = %error, "cannot write a snapshot, stopping");
                    self.failure.report(EXIT_SNAPSHOT);
                    return;
                }
                (Ok(Some(zxid)), Reason::Synchronised(Synchronised { attempt, .. })) => {
                    (self.core)(Input::SnapshotWritten { attempt, zxid });
                }
                (Ok(_), _) => {}
            }
        }
        tracing::debug!("snapshot thread ends");
    }

    /// Writes a snapshot of the tree as it is: fuzzy, since changes go on meanwhile. None if the
    /// server is told to stop and cannot wait for it, or the tree is about to hold another history.
    pub(crate) fn take(&self) -> Result<Option<Zxid>, StorageError> {
        Ok(self.write(None)?.map(|written| written.zxid))
    }

    fn take_for_operator(&self) -> Result<Taken, String> {
        let written = self.write(None).map_err(|error| error.to_string())?;
        let Some(Written { zxid, path }) = written else {
            return Err("the tree is being replaced, or the server is ending".to_owned());
        };
        let open = || {
            let file = File::open(&path)?;
            let len = file.metadata()?.len();
            Ok(Taken { zxid, len, file })
        };
        open().map_err(|error: std::io::Error| format!("{}: {error}", path.display()))
    }

    /// The same of a leader's history, and this server's own snapshots are removed.
    fn take_over(&self, of: Synchronised) -> Result<Option<Zxid>, StorageError> {
        Ok(self.write(Some(of))?.map(|written| written.zxid))
    }

    fn write(&self, of: Option<Synchronised>) -> Result<Option<Written>, StorageError> {
        let started = Instant::now();
        let state = &self.state;
        let (reader, generation) = {
            let tree = state.tree.read();
            let generation = state.tree_generation();
            (TreeReader::new(&tree, generation), generation)
        };
        let zxid = reader.zxid();
        if of.is_some_and(|of| of.generation != generation) {
            tracing::info!(%zxid, "snapshot not begun, the role that asked for it is over");
            return Ok(None);
        }
        let (disk, dirs) = (self.disk.clone(), self.dirs.clone());
        let mut snapshot = NewSnapshot::new(disk, dirs, self.settings, reader)?;
        let mut chunk = Vec::with_capacity(limits::SNAPSHOT_CHUNK_BYTES);
        loop {
            chunk.clear();
            // Shared and short: writers wait for one chunk at most.
            let more = {
                let tree = state.tree.read();
                let (generation, bytes) = (state.tree_generation(), limits::SNAPSHOT_CHUNK_BYTES);
                snapshot.read(&tree, generation, bytes, &mut chunk)
            };
            let Ok(more) = more else {
                tracing::info!(%zxid, "snapshot given up, it would hold what may never be committed");
                return Ok(None);
            };
            snapshot.write(&chunk)?;
            if self.abandoned.load(Ordering::Acquire) {
                // Dropped, it removes what there is.
                tracing::info!(%zxid, bytes = snapshot.bytes(), "snapshot given up, the log has it all");
                return Ok(None);
            }
            if !more {
                break;
            }
        }
        let files = self.files.lock();
        let trailer = {
            let tree = state.tree.read();
            snapshot.trailer(&tree, state.tree_generation())
        };
        let Ok(trailer) = trailer else {
            tracing::info!(%zxid, "snapshot given up, it would hold what may never be committed");
            return Ok(None);
        };
        let path = snapshot.finish(trailer, of.is_some())?;
        *self.latest.lock() = Some(LastSnapshot {
            zxid,
            at_s: clock::wall_ms() / 1000,
        });
        drop(files);
        let elapsed = started.elapsed();
        self.rest.begin(elapsed, clock::monotonic_ms());
        let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        self.metrics.snapshottime.record(elapsed_ms);
        tracing::info!(file = %path.display(), %zxid, elapsed_ms, "snapshot written");
        Ok(Some(Written { zxid, path }))
    }
}

/// Whether snapshots are compressed, in storage's words.
fn compression(method: config::SnapshotCompression) -> Compression {
    match method {
        config::SnapshotCompression::None => Compression::None,
        config::SnapshotCompression::Gz => Compression::Gzip,
        config::SnapshotCompression::Snappy => Compression::Snappy,
    }
}

#[cfg(test)]
#[path = "snapshot_tests.rs"]
mod tests;
