//! Writing snapshots.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use jute::{Encode, put_str};
use proto::Zxid;
use proto::mutant::{self, Mutant};
use proto::txn::TxnDigest;

use super::codec::Compressor;
use super::{Compression, DBID, END_PATH, MAGIC, SnapshotTrailer, VERSION};
use crate::checksum::Checksum;
use crate::dirs::DataDirs;
use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;
use crate::names::{snapshot_name, unfinished_name};

/// A snapshot in flight is synced in steps of so many bytes: the log's next sync, which clients
/// wait for, may have to wait for one of them.
const SYNC_EVERY_BYTES: u64 = 256 << 10;

/// Writes a snapshot: header, then what the tree produces, then seals and trailer.
///
/// It is written under the name `unfinished.snapshot.<zxid>`, which no reader takes for a snapshot
/// (Java would even load a `.tmp`), synced, renamed and the directory synced. So a crash leaves
/// either a complete snapshot or none, and purging the logs before it is safe. Java writes most
/// snapshots in place and without sync: a crash leaves a part, and after a power failure a
/// snapshot may be damaged whose logs are purged already.
///
/// Dropped before [`finish`](Self::finish), it removes what it wrote.
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
    /// Begins a snapshot of everything up to `zxid`, which must have been the last transaction
    /// applied before the tree began to produce it.
    ///
    /// `is_synced` false (with `forceSync=no`) leaves out the syncs.
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

    /// Adds bytes of the sessions, the ACL table, the znodes and their end marker, in any pieces.
    ///
    /// # Errors
    /// If writing fails (disk full); then there is no snapshot.
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

    /// Bytes so far, uncompressed.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Seals the snapshot and makes it appear under its name; returns the path.
    ///
    /// # Errors
    /// If writing fails; then there is no snapshot.
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
        let mut path = self.dir.join(&self.name);
        if let Some(end) = trailer.last_zxid
            && mutant::is(Mutant::SnapshotNamedTooLate)
        {
            path.set_file_name(snapshot_name(end, Compression::None));
        }
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
            if self.is_synced && !mutant::is(Mutant::SnapshotNotSynced) {
                file.sync_data()?;
            }
            self.disk.rename(&self.unfinished(), path)
        });
        result.map_err(|error| self.failed("write", error))?;
        self.is_published = true;
        if self.is_synced {
            self.disk
                .sync_dir(&self.dir)
                .map_err(|error| self.failed("sync directory of", error))?;
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
        if let Err(error) = self.disk.remove(&self.unfinished())
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(file = %self.unfinished().display(), %error, "unfinished snapshot stays");
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
