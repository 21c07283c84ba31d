//! Writing of snapshots.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use jute::{Encode, put_str};
use proto::Zxid;
use proto::txn::TxnDigest;

use super::codec::Compressor;
use super::{Compression, DBID, END_PATH, MAGIC, SnapshotTrailer, VERSION};
use crate::checksum::Checksum;
use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;
use crate::files::dirs::DataDirs;
use crate::files::names::{snapshot_name, unfinished_name};

/// Number of snapshot bytes that are written per sync. The next sync of the log, for which clients
/// wait, may have to wait for such a sync.
const SYNC_EVERY_BYTES: u64 = 256 << 10;

/// Snapshot writer. It writes the header, the bytes that the tree produces, then seals and trailer.
///
/// The file is written under the name `unfinished.snapshot.<zxid>`, which no reader treats as a
/// snapshot (Java would even load a `.tmp` file). It is then synced and renamed, and the directory
/// is synced. A crash therefore leaves either a complete snapshot or none, and the logs before it
/// can be purged safely. Java writes most snapshots in place and without a sync, so a crash leaves
/// a partial snapshot, and after a power failure a snapshot may be corrupted although its logs are
/// already purged.
///
/// A writer that is dropped before [`finish`](Self::finish) removes its file.
#[derive(Debug)]
pub struct SnapshotWriter<D: Disk> {
    disk: Arc<D>,
    dir: PathBuf,
    name: String,
    is_synced: bool,
    output: Option<Compressor<D::File>>,
    is_published: bool,
    checksum: Checksum,
    bytes: u64,
}

impl<D: Disk> SnapshotWriter<D> {
    /// Begins a snapshot of everything up to `zxid`. The transaction `zxid` must have been the last
    /// one applied before the tree began to produce the snapshot.
    ///
    /// If `is_synced` is false (`forceSync=no`), the syncs are omitted.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn new(
        disk: Arc<D>,
        dirs: &DataDirs,
        zxid: Zxid,
        compression: Compression,
        is_synced: bool,
    ) -> Result<Self, StorageError> {
        let mut writer = Self {
            disk,
            dir: dirs.snap.clone(),
            name: snapshot_name(zxid, compression),
            is_synced,
            output: None,
            is_published: false,
            checksum: Checksum::new(),
            bytes: 0,
        };
        let sync_every = if is_synced { SYNC_EVERY_BYTES } else { 0 };
        let output = writer
            .disk
            .create(&writer.unfinished())
            .and_then(|file| Compressor::new(file, compression, sync_every))
            .map_err(|error| writer.failed("create", error))?;
        writer.output = Some(output);
        let mut header = MAGIC.to_vec();
        VERSION.encode(&mut header);
        DBID.encode(&mut header);
        writer.write(&header)?;
        Ok(writer)
    }

    /// Adds bytes of the sessions, the ACL table, the znodes and their end marker, in pieces of any
    /// size.
    ///
    /// # Errors
    /// If the write fails, for example because the disk is full. No snapshot is then created.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.checksum.write(bytes);
        self.bytes += bytes.len() as u64;
        let written = match &mut self.output {
            Some(output) => output.write_all(bytes),
            None => Err(io::Error::other("an earlier write failed")),
        };
        written.map_err(|error| {
            self.output = None;
            self.failed("write", error)
        })
    }

    /// Returns the number of bytes so far, uncompressed.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Seals the snapshot, renames it to its final name, and returns the path.
    ///
    /// # Errors
    /// If a write, a sync or the rename fails. No snapshot is then created, unless only the sync of
    /// the directory has failed.
    pub fn finish(mut self, trailer: SnapshotTrailer) -> Result<PathBuf, StorageError> {
        self.seal()?;
        if let Some((zxid, digest)) = trailer.digest {
            let mut section = Vec::new();
            zxid.encode(&mut section);
            TxnDigest::VERSION.encode(&mut section);
            digest.encode(&mut section);
            self.write(&section)?;
            self.seal()?;
        }
        if let Some(zxid) = trailer.last_zxid {
            self.write(&zxid.to_bytes())?;
            self.seal()?;
        }
        let path = self.dir.join(&self.name);
        self.publish(&path)?;
        Ok(path)
    }

    fn seal(&mut self) -> Result<(), StorageError> {
        let mut seal = Vec::new();
        i64::from(self.checksum.value()).encode(&mut seal);
        put_str(Some(END_PATH), &mut seal);
        self.write(&seal)
    }

    fn publish(&mut self, path: &std::path::Path) -> Result<(), StorageError> {
        let Some(output) = self.output.take() else {
            return Err(self.failed("write", io::Error::other("an earlier write failed")));
        };
        let result = output.finish().and_then(|file| {
            if self.is_synced {
                file.sync_data()?;
            }
            self.disk.rename(&self.unfinished(), path)
        });
        result.map_err(|error| self.failed("write", error))?;
        self.is_published = true;
        if self.is_synced {
            self.disk
                .sync_dir(&self.dir)
                .map_err(|error| self.failed("sync the directory of", error))?;
        }
        Ok(())
    }

    fn unfinished(&self) -> PathBuf {
        self.dir.join(unfinished_name(&self.name))
    }

    fn failed(&self, action: &'static str, source: io::Error) -> StorageError {
        StorageError::SnapshotWrite {
            action,
            path: self.dir.join(&self.name),
            source,
        }
    }

    fn remove_unfinished(&self) {
        if let Err(error) = self.disk.remove(&self.unfinished()) {
            tracing::warn!(file = %self.unfinished().display(), %error, "cannot remove an unfinished snapshot");
        }
    }
}

impl<D: Disk> Drop for SnapshotWriter<D> {
    fn drop(&mut self) {
        self.output = None;
        if !self.is_published {
            self.remove_unfinished();
        }
    }
}
