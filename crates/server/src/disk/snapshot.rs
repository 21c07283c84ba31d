//! The thread that writes snapshots while requests are served.

#![allow(clippy::disallowed_methods, reason = "runs on the snapshot thread")]

use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use executor::Mailbox;
use executor::sync::{Mutex, MutexGuard};
use host::{
    DueSnapshots, SNAPSHOT_CHUNK_BYTES, ServerState, SnapshotReason, SnapshotWork, StateSnapshot,
    WrittenSnapshot,
};
use metrics::Metrics;
use metrics::view::LastSnapshot;
use proto::Zxid;
use recovery::SnapshotSettings;
use replica::Synchronised;
use storage::{Compression, Disk, Recovered, SnapshotFile, StorageError};
use tokio::sync::oneshot;

use super::pace::Pace;
use crate::clock;
use crate::failure::Failure;
use crate::inbox::InputSink;

/// Exit code if a snapshot cannot be written. Source: ExitCode.ERROR_TAKING_SNAPSHOT.
const EXIT_SNAPSHOT: u8 = 10;

/// Pause between two checks whether the log on disk contains everything in a written snapshot.
const LOG_CHECK_PAUSE: Duration = Duration::from_millis(2);

/// Reason for a snapshot.
enum RequestReason {
    /// Enough transactions have been logged since the last snapshot.
    Due,
    /// The leader or an operator has replaced this server's tree. The replica waits for the
    /// snapshot of the new tree, and the core receives an input when the snapshot is on disk.
    Synchronised(Synchronised),
    /// An operator requested a snapshot and waits for it. A failure does not stop the server.
    Operator(oneshot::Sender<Result<OperatorSnapshot, String>>),
}

/// A snapshot requested by an operator.
#[derive(Debug)]
pub(crate) struct OperatorSnapshot {
    /// Transaction in the snapshot's name.
    pub(crate) zxid: Zxid,
    /// Length in bytes.
    pub(crate) len: u64,
    /// The file, opened before it could be purged.
    pub(crate) file: File,
}

/// Pending requests, by reason. The log thread holds its file while it requests a snapshot, so it
/// must never wait for the snapshot thread.
#[derive(Default)]
struct PendingRequests {
    due: bool,
    /// Newest request after the tree was replaced. It overwrites an older request, whose role or
    /// restore is over.
    synchronised: Option<Synchronised>,
    /// Requests from operators, one for each that waits. A connection to the admin server makes one
    /// request at a time.
    operators: VecDeque<oneshot::Sender<Result<OperatorSnapshot, String>>>,
}

impl PendingRequests {
    /// Removes and returns the next request. The replica cannot continue without the snapshot of a
    /// new tree, so the request for this snapshot comes first.
    fn take(&mut self) -> Option<RequestReason> {
        if let Some(of) = self.synchronised.take() {
            return Some(RequestReason::Synchronised(of));
        }
        if std::mem::take(&mut self.due) {
            return Some(RequestReason::Due);
        }
        // A disconnected operator no longer needs the snapshot.
        self.operators.retain(|answer| !answer.is_closed());
        self.operators.pop_front().map(RequestReason::Operator)
    }

    fn is_empty(&self) -> bool {
        !self.due && self.synchronised.is_none() && self.operators.is_empty()
    }
}

/// Mailbox of the snapshot thread. Dropping this value ends the thread.
struct Requests(Arc<Mailbox<PendingRequests>>);

impl Drop for Requests {
    fn drop(&mut self) {
        self.0.finish();
    }
}

/// Handle through which the log thread and operators request snapshots. Posting a request does not
/// wait for the snapshot thread.
#[derive(Clone)]
pub(crate) struct SnapshotRequests {
    due: Arc<Mutex<DueSnapshots>>,
    files: Arc<Mutex<()>>,
    requests: Arc<Requests>,
    latest: Arc<Mutex<Option<LastSnapshot>>>,
}

impl SnapshotRequests {
    /// Requests a due snapshot, unless one is being written or was written recently. In that case
    /// the snapshot is requested again at the next trigger.
    pub(crate) fn request(&self) {
        let begins = self.due.lock().begin(clock::session_ms());
        self.begin_due(begins);
    }

    /// Requests the due snapshot that was deferred until the tree was established, if any.
    pub(crate) fn resume(&self) {
        let begins = self.due.lock().resume(clock::session_ms());
        self.begin_due(begins);
    }

    fn begin_due(&self, begins: bool) {
        if begins {
            self.requests.0.post(|pending| pending.due = true);
        }
    }

    /// Requests a snapshot of the current tree, or of a later state. The core receives an input
    /// when the snapshot is on disk, unless another request from the core replaces this one before
    /// it begins.
    pub(crate) fn request_for_core(&self, of: Synchronised) {
        self.requests
            .0
            .post(|pending| pending.synchronised = Some(of));
    }

    /// Takes a snapshot for an operator.
    ///
    /// # Errors
    /// If the snapshot cannot be taken. Returns the reason.
    pub(crate) async fn take(&self) -> Result<OperatorSnapshot, String> {
        let (answer, taken) = oneshot::channel();
        // If the mailbox is closed, the sender for the answer is dropped.
        self.requests
            .0
            .post(|pending| pending.operators.push_back(answer));
        let taken = taken.await;
        taken.unwrap_or_else(|_| Err("the server is stopping".to_owned()))
    }

    /// Returns the last snapshot that was written, or that was loaded at the start.
    pub(crate) fn latest(&self) -> Option<LastSnapshot> {
        *self.latest.lock()
    }

    /// Records the snapshot that was loaded at the start. Requests a snapshot if one is due.
    pub(crate) fn begin(&self, recovered: &Recovered, is_due: bool) {
        if let Some(loaded) = recovered.snapshot.as_ref().and_then(loaded_snapshot) {
            *self.latest.lock() = Some(loaded);
        }
        if is_due {
            self.request();
        }
    }

    /// Locks the snapshot files. Until the unlock, the snapshot thread does not rename a snapshot
    /// to its final name and does not remove one, because a thread that loads or cuts the log would
    /// miss the file. Afterwards, it still does not rename snapshots of an earlier generation.
    pub(crate) fn lock_files(&self) -> MutexGuard<'_, ()> {
        blocking::mark("wait for the snapshot files");
        self.files.lock()
    }
}

/// Returns the zxid of a snapshot and the time of its file. Source: FileSnap, SnapshotInfo.
#[allow(clippy::disallowed_methods, reason = "runs at the start of the server")]
fn loaded_snapshot(file: &SnapshotFile) -> Option<LastSnapshot> {
    let written = std::fs::metadata(&file.path).ok()?.modified().ok()?;
    let since = written.duration_since(UNIX_EPOCH).ok()?;
    Some(LastSnapshot {
        zxid: file.zxid,
        at_s: i64::try_from(since.as_secs()).ok()?,
    })
}

/// Handle that stops the snapshot thread.
pub(crate) struct SnapshotEnd {
    abandoned: Arc<AtomicBool>,
    /// Channel that closes when the thread has ended.
    ended: Receiver<()>,
}

impl SnapshotEnd {
    /// Waits until the thread ends, which happens after the last request handle is dropped.
    /// Abandons a snapshot that is not finished after `grace`.
    pub(crate) fn wait(self, grace: Duration) {
        blocking::mark("wait for the snapshot thread");
        if self.ended.recv_timeout(grace) == Err(RecvTimeoutError::Timeout) {
            self.abandoned.store(true, Ordering::Release);
            // The thread stops before the next part of the tree.
            let _ = self.ended.recv();
        }
    }
}

/// Returns the settings for snapshots.
pub(crate) fn snapshot_settings(storage: &config::Storage) -> SnapshotSettings {
    SnapshotSettings {
        compression: compression(storage.snapshot_compression),
        force_sync: storage.force_sync,
        digest_enabled: storage.digest_enabled,
        serialize_last_zxid: storage.serialize_last_processed_zxid,
    }
}

/// Parts from which the snapshot thread is constructed.
pub(crate) struct SnapshotParts<D: Disk> {
    pub(crate) state: Arc<ServerState>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) work: SnapshotWork<D>,
}

/// State of the snapshot thread, which writes the requested snapshots.
pub(crate) struct Snapshotter<D: Disk> {
    state: Arc<ServerState>,
    metrics: Arc<Metrics>,
    failure: Failure,
    work: SnapshotWork<D>,
    files: Arc<Mutex<()>>,
    abandoned: Arc<AtomicBool>,
    requests: Arc<Mailbox<PendingRequests>>,
    latest: Arc<Mutex<Option<LastSnapshot>>>,
    core: InputSink,
    _ended: Sender<()>,
}

impl<D: Disk> Snapshotter<D> {
    pub(crate) fn new(
        parts: SnapshotParts<D>,
        failure: Failure,
        core: InputSink,
    ) -> (Self, SnapshotRequests, SnapshotEnd) {
        let files = Arc::new(Mutex::new(()));
        let abandoned = Arc::new(AtomicBool::new(false));
        let requests = Arc::new(Mailbox::new(PendingRequests::default()));
        let (end, ended) = crossbeam_channel::bounded(0);
        let latest = Arc::new(Mutex::new(None));
        let asking = SnapshotRequests {
            due: parts.work.due().clone(),
            files: files.clone(),
            requests: Arc::new(Requests(requests.clone())),
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

    /// Runs until the last request handle is dropped or a snapshot cannot be written.
    pub(crate) fn run(mut self) {
        while let Some(reason) = self.requests.take(PendingRequests::take) {
            let wanted = match reason {
                RequestReason::Due => SnapshotReason::Due,
                RequestReason::Synchronised(of) => SnapshotReason::Synchronised(of),
                RequestReason::Operator(answer) => {
                    // Fails only if the operator has disconnected.
                    let _ = answer.send(self.take_for_operator());
                    continue;
                }
            };
            match self.write(wanted) {
                Ok(written) => {
                    let input = written.and_then(|written| written.input);
                    input.into_iter().for_each(|input| (self.core)(input));
                }
                Err(error) => {
                    tracing::error!(err = %error, "cannot write a snapshot, stopping");
                    self.failure.report(EXIT_SNAPSHOT);
                    return;
                }
            }
        }
        tracing::debug!("snapshot thread ended");
    }

    fn take_for_operator(&mut self) -> Result<OperatorSnapshot, String> {
        let written = self
            .write(SnapshotReason::Operator)
            .map_err(|error| error.to_string())?;
        let Some(WrittenSnapshot { zxid, path, .. }) = written else {
            return Err("this member is not in a quorum, is loading a tree, or is stopping, so its data may be uncommitted".to_owned());
        };
        let open = || {
            let file = File::open(&path)?;
            let len = file.metadata()?.len();
            Ok(OperatorSnapshot { zxid, len, file })
        };
        open().map_err(|error: std::io::Error| format!("cannot open {}: {error}", path.display()))
    }

    /// Returns whether the writing of a snapshot may pause. It must not pause if the replica waits
    /// for this snapshot, or if another request is pending.
    fn may_pause(&self, wanted: SnapshotReason) -> bool {
        !matches!(wanted, SnapshotReason::Synchronised(_)) && self.has_no_pending_request()
    }

    /// Returns whether no request waits for this thread.
    fn has_no_pending_request(&self) -> bool {
        let pending = |pending: &mut PendingRequests| (!pending.is_empty()).then_some(());
        self.requests.try_take(pending).is_none()
    }

    /// Writes a fuzzy snapshot of the current tree, which changes meanwhile. Returns `None` if the
    /// server is stopping and cannot wait for it, or if the tree contains uncommitted data or is
    /// about to be replaced.
    fn write(&mut self, wanted: SnapshotReason) -> Result<Option<WrittenSnapshot>, StorageError> {
        let mut written = None;
        self.work.request_snapshot(wanted);
        let (mut pace, mut begun, mut last_zxid) = (Pace::default(), Instant::now(), None);
        while self.work.next().is_some() {
            if self.abandoned.load(Ordering::Acquire) {
                if let Some(snapshot) = self.work.writing() {
                    let (zxid, bytes) = (snapshot.zxid(), snapshot.bytes());
                    tracing::info!(%zxid, bytes, "snapshot cancelled because the log contains the same data");
                }
                self.work.give_up();
                return Ok(None);
            }
            let (files, bytes) = (&self.files, SNAPSHOT_CHUNK_BYTES);
            let stepped = self
                .work
                .step(&*self.state, bytes, clock::session_ms, || files.lock());
            written = stepped?;
            if self.work.waits_for_log() {
                std::thread::sleep(LOG_CHECK_PAUSE);
                continue;
            }
            let bytes = self.work.writing().map_or(0, StateSnapshot::bytes);
            if self.may_pause(wanted)
                && let Some(rest) = pace.next_pause(bytes, begun.elapsed())
            {
                let now_at = self.state.tree.read().last_zxid();
                // If no transactions arrive, no other work waits for the disk.
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

    /// Records a written snapshot as the latest one, in the metrics and in the log output.
    pub(crate) fn note_written(&self, written: &WrittenSnapshot) {
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

impl<D: Disk> Drop for Snapshotter<D> {
    /// Drops the pending requests. Operators that wait receive an error.
    fn drop(&mut self) {
        self.requests.close();
    }
}

/// Converts the compression method to the type in `storage`.
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
