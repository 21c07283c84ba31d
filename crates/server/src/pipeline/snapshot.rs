//! The thread that writes snapshots while requests go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender};
use proto::Zxid;
use storage::{Compression, DataDirs, RealDisk, SnapshotTrailer, SnapshotWriter, StorageError};

use crate::failure::Failure;
use crate::limits;
use crate::shared::Shared;

/// Exit code when a snapshot cannot be written. Source: ExitCode.ERROR_TAKING_SNAPSHOT.
const EXIT_SNAPSHOT: u8 = 10;

/// Where the log thread asks for a snapshot.
#[derive(Clone)]
pub(crate) struct SnapshotRequests {
    busy: Arc<AtomicBool>,
    requests: Sender<()>,
}

impl SnapshotRequests {
    /// Asks for a snapshot, unless one is being written: the next trigger will ask again.
    pub(crate) fn request(&self) {
        if !self.busy.swap(true, Ordering::AcqRel) {
            // Room for one; `busy` keeps a second from being sent.
            let _ = self.requests.try_send(());
        } else {
            tracing::warn!("a snapshot is still being written, too busy to start another");
        }
    }
}

/// Writes a snapshot whenever one is asked for.
pub(crate) struct Snapshotter {
    pub(crate) shared: Arc<Shared>,
    pub(crate) disk: Arc<RealDisk>,
    pub(crate) dirs: DataDirs,
    pub(crate) failure: Failure,
    busy: Arc<AtomicBool>,
    requests: Receiver<()>,
}

impl Snapshotter {
    pub(crate) fn new(
        shared: Arc<Shared>,
        disk: Arc<RealDisk>,
        dirs: DataDirs,
        failure: Failure,
    ) -> (Self, SnapshotRequests) {
        let busy = Arc::new(AtomicBool::new(false));
        let (sender, requests) = crossbeam_channel::bounded(1);
        let asking = SnapshotRequests {
            busy: busy.clone(),
            requests: sender,
        };
        (
            Self {
                shared,
                disk,
                dirs,
                failure,
                busy,
                requests,
            },
            asking,
        )
    }

    /// Runs until nobody can ask any more.
    pub(crate) fn run(self) {
        while self.requests.recv().is_ok() {
            let written = self.take();
            self.busy.store(false, Ordering::Release);
            if let Err(error) = written {
                tracing::error!(err = %error, "cannot write a snapshot, stopping");
                self.failure.report(EXIT_SNAPSHOT);
                return;
            }
        }
        tracing::debug!("snapshot thread ends");
    }

    /// Writes a snapshot of the tree as it is: fuzzy, since changes go on meanwhile.
    pub(crate) fn take(&self) -> Result<Zxid, StorageError> {
        let started = Instant::now();
        let mut cursor = self.shared.tree.read().start_snapshot();
        let zxid = cursor.zxid();
        let settings = &self.shared.settings;
        let mut writer = SnapshotWriter::new(
            self.disk.clone(),
            &self.dirs,
            zxid,
            settings.snapshot_compression,
            settings.force_sync,
        )?;
        let mut chunk = Vec::with_capacity(limits::SNAPSHOT_CHUNK_BYTES);
        loop {
            chunk.clear();
            // Shared and short: writers wait for one chunk at most.
            let more = {
                let tree = self.shared.tree.read();
                tree.snapshot_chunk(&mut cursor, limits::SNAPSHOT_CHUNK_BYTES, &mut chunk)
            };
            writer.write(&chunk)?;
            if !more {
                break;
            }
        }
        let path = writer.finish(self.trailer())?;
        let elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.shared.metrics.snapshottime.record(elapsed_ms);
        tracing::info!(file = %path.display(), %zxid, elapsed_ms, "snapshot written");
        Ok(zxid)
    }

    /// The point from which digests can be compared, and the last zxid, as of now.
    fn trailer(&self) -> SnapshotTrailer {
        let settings = &self.shared.settings;
        let tree = self.shared.tree.read();
        let (digest_zxid, digest) = tree.last_applied_digest().unwrap_or((Zxid::ZERO, 0));
        SnapshotTrailer {
            digest: settings
                .digest_enabled
                .then_some((digest_zxid, digest.cast_signed())),
            last_zxid: settings.serialize_last_zxid.then_some(tree.last_zxid()),
        }
    }
}

/// Whether snapshots are compressed, in storage's words.
pub(crate) fn compression(method: config::SnapshotCompression) -> Compression {
    match method {
        config::SnapshotCompression::None => Compression::None,
        config::SnapshotCompression::Gz => Compression::Gzip,
        config::SnapshotCompression::Snappy => Compression::Snappy,
    }
}
