//! Snapshots: the server's own, and those that come from a leader.

use std::sync::Arc;

use proto::Zxid;
use storage::{
    Compression, Disk, SnapshotTrailer, SnapshotWriter, StorageError, list_logs, list_snapshots,
    purge,
};
use tree::SnapshotCursor;

use super::{Job, Server};
use crate::Mutant;
use crate::disk::SimDisk;
use crate::world::World;

/// A snapshot that is being written while changes go on.
#[derive(Debug)]
pub(super) struct SnapshotJob {
    cursor: SnapshotCursor,
    writer: Option<SnapshotWriter<SimDisk>>,
    /// All of it, where the name comes last.
    bytes: Vec<u8>,
}

impl Server {
    pub(super) fn start_snapshot_if_due(&mut self, world: &mut World) {
        let is_due = self.log.writer.txns() > world.plan.snap_count;
        if !is_due || self.snapshot.is_some() || !self.is_serving() {
            return;
        }
        self.log.writer.reset_counters();
        if let Err(error) = self.log.writer.roll() {
            return self.exit(error.to_string());
        }
        let cursor = self.tree.start_snapshot();
        let is_named_late = world.is(Mutant::SnapshotNamedTooLate);
        let writer = match self.snapshot_writer(cursor.zxid()) {
            Ok(writer) => (!is_named_late).then_some(writer),
            Err(error) => return self.exit(error.to_string()),
        };
        let bytes = Vec::new();
        self.snapshot = Some(SnapshotJob {
            cursor,
            writer,
            bytes,
        });
        self.start_job(Job::Snapshot, 1000, world);
    }

    fn snapshot_writer(&self, zxid: Zxid) -> Result<SnapshotWriter<SimDisk>, StorageError> {
        let disk = Arc::clone(&self.disk);
        SnapshotWriter::new(disk, &self.dirs, zxid, Compression::None, true)
    }

    pub(super) fn continue_snapshot(&mut self, world: &mut World) {
        let Some(mut job) = self.snapshot.take() else {
            return;
        };
        let mut chunk = Vec::new();
        let bytes_wanted = world.plan.chunk_bytes;
        let more = self
            .tree
            .snapshot_chunk(&mut job.cursor, bytes_wanted, &mut chunk);
        let result = match &mut job.writer {
            Some(writer) => writer.write(&chunk),
            None => {
                job.bytes.extend(chunk);
                Ok(())
            }
        };
        if let Err(error) = result {
            return self.exit(error.to_string());
        }
        if more {
            self.snapshot = Some(job);
            let delay = self.sync_delay(world);
            return self.start_job(Job::Snapshot, delay, world);
        }
        let zxid = job.cursor.zxid();
        match self.finish_snapshot(job) {
            Ok(()) => world.say(self.sid, || format!("has written snapshot {zxid}")),
            Err(error) => return self.exit(error.to_string()),
        }
        if world.random.percent(50)
            && let Err(error) = purge(&*self.disk, &self.dirs, 3, jute::Limits::default())
        {
            // Damage of an old file is no reason to stop.
            world.say(self.sid, || format!("cannot purge: {error}"));
        }
    }

    fn finish_snapshot(&mut self, job: SnapshotJob) -> Result<(), StorageError> {
        let writer = match job.writer {
            Some(writer) => writer,
            None => {
                let mut writer = self.snapshot_writer(self.tree.last_zxid())?;
                writer.write(&job.bytes)?;
                writer
            }
        };
        writer.finish(self.trailer()).map(drop)
    }

    fn trailer(&self) -> SnapshotTrailer {
        let (zxid, digest) = self.tree.last_applied_digest().unwrap_or((Zxid::ZERO, 0));
        SnapshotTrailer {
            digest: Some((zxid, digest.cast_signed())),
            last_zxid: Some(self.tree.last_zxid()),
        }
    }

    /// The tree as it stands becomes the only history on this disk.
    pub(super) fn start_adopt_snapshot(&mut self, world: &mut World) {
        let delay = self.sync_delay(world);
        self.start_job(Job::AdoptSnapshot, delay, world);
        if world.is(Mutant::NewLeaderBeforeSnapshot) {
            self.learn(world, |core, _, out| core.handle_snapshot_written(out));
        }
    }

    pub(super) fn finish_adopt_snapshot(&mut self, world: &mut World) {
        match self.adopt_snapshot(world) {
            Ok(zxid) => {
                world.say(self.sid, || format!("has adopted snapshot {zxid}"));
                self.log_whole_from = zxid;
                if world.is(Mutant::LogWithHoleServed) {
                    self.log_whole_from = Zxid::ZERO;
                }
                self.reopen_log(world);
                self.learn(world, |core, _, out| core.handle_snapshot_written(out));
            }
            Err(error) => self.exit(error.to_string()),
        }
    }

    /// First the snapshot, then everything that would be read with it or before it. The log may
    /// hold what was never committed; and were this snapshot damaged one day, an older one with
    /// the logs behind it would pass for the whole history where a later epoch begins.
    pub(super) fn adopt_snapshot(&mut self, world: &World) -> Result<Zxid, StorageError> {
        let zxid = self.tree.last_zxid();
        let mut writer = self.snapshot_writer(zxid)?;
        let mut cursor = self.tree.start_snapshot();
        let mut chunk = Vec::new();
        while self.tree.snapshot_chunk(&mut cursor, 1 << 20, &mut chunk) {}
        writer.write(&chunk)?;
        writer.finish(self.trailer())?;
        let keeps_log = world.is(Mutant::LogWithHoleServed);
        let snapshots = list_snapshots(&*self.disk, &self.dirs.snap)?;
        for snapshot in snapshots.iter().filter(|old| old.zxid > zxid) {
            self.remove_durably(&snapshot.path, &self.dirs.snap)?;
        }
        if keeps_log {
            return Ok(zxid);
        }
        for log in list_logs(&*self.disk, &self.dirs.log)?.iter().rev() {
            self.remove_durably(&log.path, &self.dirs.log)?;
        }
        for snapshot in snapshots.iter().rev().filter(|old| old.zxid < zxid) {
            self.remove_durably(&snapshot.path, &self.dirs.snap)?;
        }
        Ok(zxid)
    }

    fn remove_durably(
        &self,
        path: &std::path::Path,
        dir: &std::path::Path,
    ) -> Result<(), StorageError> {
        let done = self
            .disk
            .remove(path)
            .and_then(|()| self.disk.sync_dir(dir));
        done.map_err(|source| StorageError::Io {
            action: "remove",
            path: path.to_path_buf(),
            source,
        })
    }
}
