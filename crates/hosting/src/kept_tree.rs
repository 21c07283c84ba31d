//! A tree that turned out to be wrong, on its way to a separate place.

use std::path::PathBuf;

use recovery::{DurableReader, History, NewSnapshot, SnapshotSettings};
use replica::State;
use storage::{Compression, DataDirs, Disk, StorageError};

/// Directories for wrong trees, at most: a server that finds more of them needs a person.
const KEPT_MAX: usize = 3;

/// How the names of the directories begin.
const PREFIX: &str = "diverged-";

/// Bytes that are read under one hold of the tree.
const CHUNK_BYTES: usize = 1 << 18;

const SETTINGS: SnapshotSettings = SnapshotSettings {
    compression: Compression::None,
    force_sync: true,
    digest_enabled: true,
    serialize_last_zxid: true,
};

/// Writes the tree as a snapshot into a directory of its own beside `version-2`. Nothing changes it
/// meanwhile: no role needs it.
pub(crate) fn keep_tree<D: Disk>(
    history: &History<D>,
    state: &impl State,
) -> Result<PathBuf, StorageError> {
    let disk = history.disk();
    let reader = {
        let tree = state.tree();
        DurableReader::still(&tree, state.generation())
    };
    let name = format!("{PREFIX}{:x}", reader.zxid().0);
    let dirs: DataDirs = history.dirs().beside(&**disk, PREFIX, &name, KEPT_MAX)?;
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
    let trailer = snapshot.trailer(&state.tree(), state.generation());
    snapshot.finish(trailer.map_err(replaced)?, false)
}
