//! Storage of a tree that differs from the other members' trees, in a separate directory.

use std::path::PathBuf;

use recovery::{DurableLog, DurableReader, NewSnapshot, SnapshotSettings};
use replica::State;
use storage::{Compression, DataDirs, Disk, StorageError};

/// Maximum number of directories for such trees. If it is reached, an operator must move
/// directories away before another tree can be stored.
const KEPT_MAX: usize = 3;

/// Prefix of the directories' names.
const PREFIX: &str = "diverged-";

/// Approximate number of tree bytes that are read during one hold of the lock.
const CHUNK_BYTES: usize = 1 << 18;

const SETTINGS: SnapshotSettings = SnapshotSettings {
    compression: Compression::None,
    force_sync: true,
    digest_enabled: true,
    serialize_last_zxid: true,
};

/// Writes the tree as a snapshot into a separate directory next to `version-2`. The tree does not
/// change meanwhile, because no role is active.
pub(super) fn keep_tree<D: Disk>(
    history: &DurableLog<D>,
    state: &impl State,
) -> Result<PathBuf, StorageError> {
    let disk = history.disk();
    let reader = {
        let tree = state.tree();
        DurableReader::still(&tree, state.generation())
    };
    let name = format!("{PREFIX}{:x}", reader.zxid().0);
    let dirs: DataDirs = history
        .dirs()
        .create_sibling(&**disk, PREFIX, &name, KEPT_MAX)?;
    let mut snapshot = NewSnapshot::new(disk.clone(), dirs, SETTINGS, reader)?;
    let mut chunk = Vec::with_capacity(CHUNK_BYTES);
    let replaced = |_| StorageError::Directory {
        dir: PathBuf::from(&name),
        reason: "the tree was replaced".to_owned(),
    };
    let mut more = true;
    while more {
        chunk.clear();
        more = {
            let tree = state.tree();
            let read = snapshot.read(&tree, state.generation(), CHUNK_BYTES, &mut chunk);
            read.map_err(replaced)?
        };
        snapshot.write(&chunk)?;
    }
    snapshot.check(state.generation()).map_err(replaced)?;
    // The file is for an operator. No server loads it, so it need not wait for the log.
    snapshot.finish(false)
}
