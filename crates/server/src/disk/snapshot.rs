//! The thread that writes snapshots while requests go on.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use hosting::{DueSnapshots, ServerState, SnapshotWork, StateSnapshot, Wanted, Written};
use monitoring::admin::LastSnapshot;
use parking_lot::{Mutex, MutexGuard};
use proto::Zxid;
use recovery::SnapshotSettings;
use replica::Synchronised;
use storage::{Compression, StorageError, SwitchedDisk};
use tokio::sync::oneshot;

use super::pace::Pace;
use crate::failure::Failure;
use crate::inbox::InputSink;
use crate::metrics::Metrics;
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

/// Room for one of each, mostly.
const REQUESTS_MAX: usize = 2;

/// Where the log thread and the core ask for a snapshot.
#[derive(Clone)]
pub(crate) struct SnapshotRequests {
    due: Arc<Mutex<DueSnapshots>>,
    files: Arc<Mutex<()>>,
    requests: Sender<Reason>,
    latest: Arc<Mutex<Option<LastSnapshot>>>,
}

impl SnapshotRequests {
    /// Asks for a snapshot, unless one is being written or was just now: the next trigger will ask
    /// again.
    pub(crate) fn request(&self) {
        // One that is under way keeps a second from being sent, but two of the core's may fill the queue.
        let begins = self.due.lock().begin(clock::session_ms());
        if begins && self.requests.try_send(Reason::Due).is_err() {
            self.due.lock().end();
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
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) work: SnapshotWork<SwitchedDisk>,
}

/// Writes a snapshot whenever one is asked for.
pub(crate) struct Snapshotter {
    state: Arc<ServerState>,
    metrics: Arc<Metrics>,
    failure: Failure,
    work: SnapshotWork<SwitchedDisk>,
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
        let files = Arc::new(Mutex::new(()));
        let abandoned = Arc::new(AtomicBool::new(false));
        let (sender, requests) = crossbeam_channel::bounded(REQUESTS_MAX);
        let (end, ended) = crossbeam_channel::bounded(0);
        let latest = Arc::new(Mutex::new(None));
        let asking = SnapshotRequests {
            due: parts.work.due().clone(),
            files: files.clone(),
            requests: sender,
            latest: latest.clone(),
        };
        (
            Self {
                state: parts.state,
                metrics: parts.metrics,
                failure,
                work: parts.work,
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
    pub(crate) fn run(mut self) {
        while let Ok(reason) = self.requests.recv() {
            let wanted = match reason {
                Reason::Due => Wanted::Due,
                Reason::Synchronised(of) => Wanted::Synchronised(of),
                Reason::Asked(answer) => {
                    // Nobody takes it if whoever asked has gone.
                    let _ = answer.send(self.take_for_operator());
                    continue;
                }
            };
            match self.write(wanted) {
                Ok(written) => {
                    let told = written.and_then(|written| written.told);
                    told.into_iter().for_each(|told| (self.core)(told));
                }
                Err(error) => {
                    tracing::error!(err = %error, "cannot write a snapshot, stopping");
                    self.failure.report(EXIT_SNAPSHOT);
                    return;
                }
            }
        }
        tracing::debug!("snapshot thread ends");
    }

    fn take_for_operator(&mut self) -> Result<Taken, String> {
        let written = self
            .write(Wanted::Asked)
            .map_err(|error| error.to_string())?;
        let Some(Written { zxid, path, .. }) = written else {
            return Err("the tree is being replaced, or the server is ending".to_owned());
        };
        let open = || {
            let file = File::open(&path)?;
            let len = file.metadata()?.len();
            Ok(Taken { zxid, len, file })
        };
        open().map_err(|error: std::io::Error| format!("{}: {error}", path.display()))
    }

    /// Whether a snapshot may take its time: a learner cannot go on without its own, nor without what is in front of it.
    fn may_rest(&self, wanted: Wanted) -> bool {
        !matches!(wanted, Wanted::Synchronised(_)) && self.requests.is_empty()
    }

    /// Writes a snapshot of the tree as it is: fuzzy, since changes go on meanwhile. None if the
    /// server is told to stop and cannot wait for it, or the tree is about to hold another history.
    fn write(&mut self, wanted: Wanted) -> Result<Option<Written>, StorageError> {
        let mut written = None;
        self.work.ask(wanted);
        let (mut pace, mut begun, mut last_zxid) = (Pace::default(), Instant::now(), None);
        while self.work.next().is_some() {
            if self.abandoned.load(Ordering::Acquire) {
                if let Some(snapshot) = self.work.writing() {
                    let (zxid, bytes) = (snapshot.zxid(), snapshot.bytes());
                    tracing::info!(%zxid, bytes, "snapshot given up, the log has it all");
                }
                self.work.give_up();
                return Ok(None);
            }
            let (files, bytes) = (&self.files, limits::SNAPSHOT_CHUNK_BYTES);
            let stepped = self
                .work
                .step(&*self.state, bytes, clock::session_ms, || files.lock());
            written = stepped?;
            let bytes = self.work.writing().map_or(0, StateSnapshot::bytes);
            if self.may_rest(wanted)
                && let Some(rest) = pace.rest(bytes, begun.elapsed())
            {
                let now_at = self.state.tree.read().last_zxid();
                // Where nobody writes, nobody waits for the disk.
                if last_zxid.replace(now_at) != Some(now_at) {
                    std::thread::sleep(rest);
                }
                begun = Instant::now();
            }
        }
        if let Some(written) = &written {
            self.note_written(written);
        }
        Ok(written)
    }

    /// Counts it, and says so.
    pub(crate) fn note_written(&self, written: &Written) {
        let (zxid, now_ms) = (written.zxid, clock::session_ms());
        *self.latest.lock() = Some(LastSnapshot {
            zxid,
            at_s: clock::wall_ms() / 1000,
        });
        let elapsed_ms = now_ms.saturating_sub(written.begun_ms);
        let elapsed_ms = u64::try_from(elapsed_ms).unwrap_or(0);
        self.metrics.snapshottime.record(elapsed_ms);
        tracing::info!(file = %written.path.display(), %zxid, elapsed_ms, "snapshot written");
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
