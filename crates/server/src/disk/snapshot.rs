//! The thread that writes snapshots while requests go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use parking_lot::{Mutex, MutexGuard};
use proto::Zxid;
use recovery::{NewSnapshot, SnapshotSettings, TreeReader};
use replica::Input;
use storage::{Compression, DataDirs, RealDisk, StorageError};

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
        let asking = SnapshotRequests {
            busy: busy.clone(),
            rest: rest.clone(),
            files: files.clone(),
            requests: sender,
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
            let written = match &reason {
                Reason::Due => self.take(),
                Reason::Synchronised(of) => self.take_over(*of),
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
        self.write(None)
    }

    /// The same of a leader's history, and this server's own snapshots are removed.
    fn take_over(&self, of: Synchronised) -> Result<Option<Zxid>, StorageError> {
        self.write(Some(of))
    }

    fn write(&self, of: Option<Synchronised>) -> Result<Option<Zxid>, StorageError> {
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
        drop(files);
        let elapsed = started.elapsed();
        self.rest.begin(elapsed, clock::monotonic_ms());
        let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        self.metrics.snapshottime.record(elapsed_ms);
        tracing::info!(file = %path.display(), %zxid, elapsed_ms, "snapshot written");
        Ok(Some(zxid))
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
mod tests {
    use std::path::Path;

    use super::*;
    use crate::assemble::server::{Server, test_server};

    /// A further snapshot thread's, of this server.
    fn snapshotter(server: &Server, dir: &Path) -> (Snapshotter, SnapshotRequests, SnapshotEnd) {
        Snapshotter::new(
            SnapshotParts {
                state: server.clients.state.clone(),
                settings: snapshot_settings(&server.clients.settings.config.storage),
                metrics: server.clients.metrics.clone(),
                disk: Arc::new(RealDisk),
                dirs: DataDirs::unlocked(dir, dir),
            },
            Failure::default(),
            Arc::new(|_| {}),
        )
    }

    #[test]
    fn large_snapshots_leave_three_quarters_of_the_time_and_small_ones_follow_at_once() {
        let rest = Rest::default();
        assert!(rest.is_over(0));
        rest.begin(limits::SNAPSHOT_SHORT - Duration::from_millis(1), 5000);
        assert!(rest.is_over(5000));
        rest.begin(Duration::from_secs(2), 7000);
        assert!(!rest.is_over(12_999));
        assert!(rest.is_over(13_000));
        rest.begin(Duration::from_secs(600), 20_000);
        assert!(rest.is_over(80_000));
    }

    fn of(server: &Server, attempt: u64) -> Synchronised {
        let generation = server.clients.state.tree_generation();
        Synchronised {
            attempt,
            generation,
        }
    }

    /// The tree is loaded from disk again when a role ends before its leader's history is there:
    /// were that written nevertheless, memory and disk would hold two histories.
    #[tokio::test]
    async fn a_snapshot_of_a_role_that_is_over_is_not_written_and_removes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let server = test_server(dir.path()).await;
        let version = dir.path().join("version-2");
        let own = version.join("snapshot.7");
        std::fs::write(&own, "x").unwrap();
        let (snapshotter, requests, _end) = snapshotter(&server, dir.path());
        requests.request_for_core(of(&server, 1));
        server.clients.state.give_up_snapshots();
        requests.request_for_core(of(&server, 2));
        let stale = snapshotter.requests.try_recv().unwrap();
        let Reason::Synchronised(stale) = stale else {
            panic!("a snapshot that is due")
        };
        std::fs::remove_file(version.join("snapshot.0")).unwrap();
        assert_eq!(snapshotter.take_over(stale).unwrap(), None);
        assert!(own.exists() && !version.join("snapshot.0").exists());
        // The next one is of the tree that there is.
        drop(requests);
        snapshotter.run();
        assert!(!own.exists() && version.join("snapshot.0").exists());
        server.stop().await;
    }

    /// Two roles have ended while one snapshot was written: the queue is full of what they asked for.
    #[tokio::test]
    async fn a_request_that_finds_no_room_keeps_none_away_that_come_later() {
        let dir = tempfile::tempdir().unwrap();
        let server = test_server(dir.path()).await;
        let (snapshotter, requests, _end) = snapshotter(&server, dir.path());
        requests.request_for_core(of(&server, 1));
        requests.request_for_core(of(&server, 2));
        requests.request();
        assert_eq!(snapshotter.requests.try_iter().count(), 2);
        requests.request();
        assert!(matches!(snapshotter.requests.try_recv(), Ok(Reason::Due)));
        // It is not begun a second time before it is written.
        requests.request();
        assert!(snapshotter.requests.is_empty());
        drop(snapshotter);
        server.stop().await;
    }

    /// What a leader's tree is taken over with is never put off.
    #[tokio::test]
    async fn while_snapshots_rest_the_core_gets_its_own_and_later_a_due_one_begins() {
        let dir = tempfile::tempdir().unwrap();
        let server = test_server(dir.path()).await;
        let (snapshotter, requests, _end) = snapshotter(&server, dir.path());
        let hour = Duration::from_secs(3600);
        snapshotter.rest.begin(hour, clock::monotonic_ms());
        requests.request();
        assert!(snapshotter.requests.is_empty());
        requests.request_for_core(of(&server, 1));
        let asked = snapshotter.requests.try_recv();
        assert!(matches!(asked, Ok(Reason::Synchronised(of)) if of.attempt == 1));
        snapshotter
            .rest
            .begin(Duration::ZERO, clock::monotonic_ms());
        requests.request();
        assert!(matches!(snapshotter.requests.try_recv(), Ok(Reason::Due)));
        drop(snapshotter);
        server.stop().await;
    }

    #[tokio::test]
    async fn a_snapshot_under_way_does_not_outlast_its_grace() {
        let dir = tempfile::tempdir().unwrap();
        let server = test_server(dir.path()).await;
        let files = || {
            let entries = std::fs::read_dir(dir.path().join("version-2")).unwrap();
            entries
                .map(|entry| entry.unwrap().file_name())
                .collect::<Vec<_>>()
        };
        assert_eq!(files(), ["snapshot.0"]);
        std::fs::remove_file(dir.path().join("version-2/snapshot.0")).unwrap();
        let (snapshotter, requests, end) = snapshotter(&server, dir.path());
        let abandoned = end.abandoned.clone();
        let thread = std::thread::spawn(move || {
            // Someone can still ask: the thread does not end by itself.
            let taken = (snapshotter.take(), snapshotter);
            while !abandoned.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            (taken.0.unwrap(), taken.1.take().unwrap())
        });
        tokio::task::spawn_blocking(move || end.wait(Duration::from_millis(50)))
            .await
            .unwrap();
        drop(requests);
        assert_eq!(thread.join().unwrap(), (Some(Zxid::ZERO), None));
        assert_eq!(files(), ["snapshot.0"]);
        server.stop().await;
    }
}
