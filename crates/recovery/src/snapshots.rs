//! Snapshots of a tree that continues to change, for the disk and for learners.
//!
//! A snapshot is created in pieces during short holds of the tree's lock, and is fuzzy: it contains
//! everything up to its zxid and parts of later transactions. All pieces must come from one
//! [`Generation`]. A snapshot that began in an earlier generation is discarded.
//!
//! A snapshot is written to the disk only from a [`DurableReader`]. TRUNC removes the snapshots
//! whose names are above the target. A snapshot with a lower name is kept with all its content. It
//! may therefore contain parts of later transactions only if these are committed.
//!
//! A snapshot gets its name only when the log on disk contains every transaction of which the
//! snapshot may contain a part ([`NewSnapshot::is_logged`]). Otherwise a power failure could leave a
//! log with a gap, which only this one snapshot bridges: an older snapshot and this log would lead to
//! another tree.

use std::path::PathBuf;
use std::sync::Arc;

use proto::Zxid;
use storage::{
    Compression, DataDirs, Disk, SnapshotTrailer, SnapshotWriter, StorageError, note_epoch_begin,
    note_seam, remove_other_snapshots,
};
use tree::{CurrentGeneration, Generation, SnapshotCursor, Tree};

use crate::log_end::LogEnd;

/// Position in a tree that is read piece by piece.
#[derive(Debug)]
pub struct TreeReader {
    cursor: SnapshotCursor,
    generation: Generation,
    is_at_epoch_begin: bool,
}

/// The tree no longer contains the history in which the snapshot began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the tree was replaced, or contains uncommitted transactions")]
pub struct TreeReplaced;

impl TreeReader {
    /// Begins to read the current tree.
    pub fn new(tree: &Tree, generation: Generation) -> Self {
        Self {
            cursor: tree.start_snapshot(),
            generation,
            is_at_epoch_begin: tree.is_at_epoch_begin(),
        }
    }

    /// Returns the last transaction that the snapshot contains completely.
    pub fn zxid(&self) -> Zxid {
        self.cursor.zxid()
    }

    /// Appends about `bytes` bytes to `chunk`. Returns whether more bytes follow.
    ///
    /// # Errors
    /// If the generation has changed.
    pub fn read(
        &mut self,
        tree: &Tree,
        generation: Generation,
        bytes: usize,
        chunk: &mut Vec<u8>,
    ) -> Result<bool, TreeReplaced> {
        self.check(generation)?;
        Ok(tree.snapshot_chunk(&mut self.cursor, bytes, chunk))
    }

    fn check(&self, generation: Generation) -> Result<(), TreeReplaced> {
        if self.generation == generation {
            Ok(())
        } else {
            Err(TreeReplaced)
        }
    }
}

/// The tree may contain transactions that were never committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this member is not in a quorum, so its data may be uncommitted")]
pub struct NotEstablished;

/// Reader of a tree that may become durable. A snapshot on disk can only be written from this type.
#[derive(Debug)]
pub struct DurableReader(TreeReader);

impl DurableReader {
    /// Begins to read an established tree. Transactions may be applied while the tree is read.
    ///
    /// # Errors
    /// If the tree is not established.
    pub fn established(tree: &Tree, generation: Generation) -> Result<Self, NotEstablished> {
        if generation.is_established() {
            Ok(Self(TreeReader::new(tree, generation)))
        } else {
            Err(NotEstablished)
        }
    }

    /// Begins to read a tree whose history replaces this server's own history. The replica ordered
    /// the replacement in generation `ordered`. No transaction is applied until the snapshot is on
    /// disk.
    ///
    /// # Errors
    /// If the generation has changed.
    pub fn taken_over(
        tree: &Tree,
        generation: Generation,
        ordered: Generation,
    ) -> Result<Self, TreeReplaced> {
        let reader = TreeReader::new(tree, generation);
        reader.check(ordered)?;
        Ok(Self(reader))
    }

    /// Begins to read a tree that does not change before its snapshot has its final name. The
    /// snapshot therefore contains no later transactions.
    pub fn still(tree: &Tree, generation: Generation) -> Self {
        Self(TreeReader::new(tree, generation))
    }

    /// Returns the last transaction that the snapshot contains completely.
    pub fn zxid(&self) -> Zxid {
        self.0.zxid()
    }
}

/// Settings for writing snapshots to disk.
#[derive(Debug, Clone, Copy)]
pub struct SnapshotSettings {
    /// Compression of the files.
    pub compression: Compression,
    /// Whether files are synced (`forceSync`).
    pub force_sync: bool,
    /// Whether the trailer contains the digest of the tree.
    pub digest_enabled: bool,
    /// Whether the trailer contains the last transaction of which the snapshot may contain a part.
    pub serialize_last_zxid: bool,
}

/// A snapshot that is being written. If it is dropped before its end, its file is removed.
#[derive(Debug)]
pub struct NewSnapshot<D: Disk> {
    disk: Arc<D>,
    dirs: DataDirs,
    settings: SnapshotSettings,
    reader: TreeReader,
    writer: SnapshotWriter<D>,
    /// Trailer at the time of the last piece.
    trailer: SnapshotTrailer,
    /// Last transaction that was applied to the tree before the last piece was read. The begin of an
    /// epoch is no transaction: a new leader's tree has its zxid, but the log never contains it.
    last_applied: Zxid,
}

impl<D: Disk> NewSnapshot<D> {
    /// Begins a snapshot with a `reader` that has not read anything yet.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn new(
        disk: Arc<D>,
        dirs: DataDirs,
        settings: SnapshotSettings,
        DurableReader(reader): DurableReader,
    ) -> Result<Self, StorageError> {
        let (compression, is_synced) = (settings.compression, settings.force_sync);
        let zxid = reader.zxid();
        let writer = SnapshotWriter::new(disk.clone(), &dirs, zxid, compression, is_synced)?;
        Ok(Self {
            disk,
            dirs,
            settings,
            last_applied: Zxid::ZERO,
            reader,
            writer,
            trailer: SnapshotTrailer::default(),
        })
    }

    /// Returns the last transaction that the snapshot contains completely. The file is named after
    /// it.
    pub fn zxid(&self) -> Zxid {
        self.reader.zxid()
    }

    /// Returns the number of bytes so far, uncompressed.
    pub fn bytes(&self) -> u64 {
        self.writer.bytes()
    }

    /// Reads the next piece and returns whether there are more, like [`TreeReader::read`]. Write
    /// the piece after releasing the tree's lock.
    ///
    /// # Errors
    /// If the generation has changed.
    pub fn read(
        &mut self,
        tree: &Tree,
        generation: Generation,
        bytes: usize,
        chunk: &mut Vec<u8>,
    ) -> Result<bool, TreeReplaced> {
        let more = self.reader.read(tree, generation, bytes, chunk)?;
        let settings = &self.settings;
        let (digest_zxid, digest) = tree.last_applied_digest().unwrap_or((Zxid::ZERO, 0));
        self.last_applied = tree.last_applied().unwrap_or(Zxid::ZERO);
        self.trailer = SnapshotTrailer {
            digest: settings
                .digest_enabled
                .then_some((digest_zxid, digest.cast_signed())),
            last_zxid: settings.serialize_last_zxid.then_some(tree.last_zxid()),
        };
        Ok(more)
    }

    /// Returns the last transaction of which the pieces so far may contain a part, or the begin of
    /// the epoch if there is none.
    pub fn covers(&self) -> Zxid {
        self.last_applied.max(self.zxid())
    }

    /// Returns whether the log on disk contains every transaction of which the pieces so far may
    /// contain a part. A snapshot that is not logged must not be finished.
    pub fn is_logged(&self, log: &LogEnd) -> bool {
        self.last_applied <= log.get()
    }

    /// Writes a piece.
    ///
    /// # Errors
    /// If the piece cannot be written.
    pub fn write(&mut self, chunk: &[u8]) -> Result<(), StorageError> {
        self.writer.write(chunk)
    }

    /// Checks that the tree still contains the history in which the snapshot began. Between this
    /// call and [`NewSnapshot::finish`], the files must not be loaded or truncated.
    ///
    /// # Errors
    /// If the generation has changed.
    pub fn check(&self, generation: Generation) -> Result<(), TreeReplaced> {
        self.reader.check(generation)
    }

    /// Writes the trailer and renames the snapshot to its final name. The trailer contains the zxid
    /// from which digests can be compared, and the last transaction of which the snapshot may
    /// contain a part. If `takes_over` is set, the snapshot contains a history that replaces this
    /// server's own history, and all other snapshots are removed.
    ///
    /// # Errors
    /// If the snapshot cannot be written, or if other snapshots cannot be removed.
    pub fn finish(self, takes_over: bool) -> Result<PathBuf, StorageError> {
        let zxid = self.zxid();
        if takes_over {
            note_seam(&*self.disk, &self.dirs, zxid)?;
        } else if self.reader.is_at_epoch_begin {
            // Without this record, the snapshot only looks like a leader's snapshot, so readers of
            // the log find a break.
            if let Err(error) = note_epoch_begin(&*self.disk, &self.dirs, zxid) {
                tracing::warn!(err = %error, %zxid, "cannot record that an epoch begins with this snapshot, so the change history may have a gap");
            }
        }
        let path = self.writer.finish(self.trailer)?;
        if takes_over {
            remove_other_snapshots(&*self.disk, &self.dirs, zxid)?;
        }
        Ok(path)
    }
}

/// Writes a snapshot of an unchanging tree in one step.
///
/// # Errors
/// If the snapshot cannot be written.
pub fn write_snapshot<D: Disk>(
    disk: Arc<D>,
    dirs: DataDirs,
    settings: SnapshotSettings,
    tree: &Tree,
) -> Result<PathBuf, StorageError> {
    let generation = CurrentGeneration::default().get();
    let reader = DurableReader::still(tree, generation);
    let mut snapshot = NewSnapshot::new(disk, dirs, settings, reader)?;
    let (mut chunk, same) = (
        Vec::new(),
        "the tree is borrowed, so nothing can replace it",
    );
    let mut more = true;
    while more {
        chunk.clear();
        let read = snapshot.read(tree, generation, CHUNK_BYTES, &mut chunk);
        more = read.expect(same);
        snapshot.write(&chunk)?;
    }
    snapshot.finish(false)
}

/// Size of a piece while no other thread waits for the tree, bytes.
const CHUNK_BYTES: usize = 1 << 20;
