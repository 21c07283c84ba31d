//! Reading of snapshots as a stream.

use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;

use jute::Limits;
use proto::Zxid;

use super::codec::Decompressed;
use super::input::{FieldInput, InputError};
use super::pieces::{Piece, Pieces};
use crate::ahead;
use crate::disk::Disk;
use crate::error::{StorageError, io_error};
use crate::files::names::SnapshotFile;
use crate::recovery::state::{SnapshotDigest, State};

/// Metadata of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SnapshotInfo {
    /// Number of znodes, including the root.
    pub znodes: u64,
    /// Number of sessions.
    pub sessions: u64,
    /// Digest section, if any.
    pub digest: Option<SnapshotDigest>,
    /// Last-zxid section, if any.
    pub last_zxid: Option<Zxid>,
    /// Offset after the end marker, which follows the sessions, the ACL table and the znodes.
    pub content_end: u64,
}

impl SnapshotInfo {
    /// Returns the last transaction of which the snapshot may contain a part, according to its
    /// sections. Replay must reach it; otherwise the tree may mix states from different times.
    pub fn covers(&self) -> Option<Zxid> {
        self.digest.map(|digest| digest.zxid).max(self.last_zxid)
    }
}

/// Reads a snapshot into `state` and verifies all its checksums.
///
/// The digest and last-zxid sections are recognised by the number of remaining bytes, so a snapshot
/// can be loaded regardless of its writer's settings. Java uses its own settings and refuses
/// several combinations.
///
/// # Errors
/// [`StorageError::SnapshotDamaged`] if the content is corrupted or cannot be read (`state` is then
/// partly filled), [`StorageError::Io`] if the file cannot be opened.
pub fn read_snapshot<D: Disk, S: State>(
    disk: &D,
    file: &SnapshotFile,
    limits: Limits,
    state: &mut S,
) -> Result<SnapshotInfo, StorageError> {
    let opened = disk
        .open(&file.path)
        .map_err(io_error("open", &file.path))?;
    let stream = Decompressed::new(opened, file.compression);
    let pieces = Pieces::of_file(FieldInput::new(stream, limits));
    state.begin();
    let damaged = |(offset, error)| describe(&file.path, offset, error);
    let pieces = enter(pieces, disk.reads_ahead(), state).map_err(damaged)?;
    let info = pieces.info();
    let loaded = state.snapshot_loaded(file.zxid, info.digest);
    loaded.map_err(|error| damaged((pieces.position(), InputError::Content(error.to_string()))))?;
    Ok(info)
}

/// Adds all pieces to a database. An error is returned with its offset.
fn enter<R: Read + Send, S: State>(
    pieces: Pieces<R>,
    reads_ahead: bool,
    state: &mut S,
) -> Result<Pieces<R>, (u64, InputError)> {
    let bytes_of = |piece: &Result<Piece, _>| piece.as_ref().map_or(0, Piece::bytes);
    let (mut unreadable, mut refused) = (None, None);
    let pieces = ahead::for_each(pieces, reads_ahead, bytes_of, |piece| {
        match piece.map(|piece| piece.enter(state)) {
            Ok(Ok(())) => return ControlFlow::Continue(()),
            Ok(Err(error)) => refused = Some(error),
            Err(error) => unreadable = Some(error),
        }
        ControlFlow::Break(())
    });
    let unreadable = unreadable.map(|error| (pieces.position(), error));
    match refused.or(unreadable) {
        Some(error) => Err(error),
        None => Ok(pieces),
    }
}

/// Reads sessions, ACL table and znodes up to the end marker, as sent after a SNAP packet
/// (LearnerHandler.run). The last read may also have consumed bytes of the stream after the marker;
/// `content_end` separates them.
///
/// # Errors
/// [`StorageError::SnapshotDamaged`] with `name` as the file, if the content is corrupted.
pub fn read_body<R: Read, S: State>(
    stream: R,
    name: &Path,
    limits: Limits,
    state: &mut S,
) -> Result<SnapshotInfo, StorageError> {
    let mut pieces = Pieces::of_body(FieldInput::new(stream, limits));
    state.begin();
    while let Some(piece) = pieces.next() {
        let piece = piece.map_err(|error| describe(name, pieces.position(), error))?;
        let entered = piece.enter(state);
        entered.map_err(|(offset, error)| describe(name, offset, error))?;
    }
    Ok(pieces.info())
}

/// Converts an error. An I/O error is not corruption of the content, but a decompressor does not
/// distinguish the two. In both cases, recovery continues with an older snapshot.
fn describe(path: &Path, offset: u64, error: InputError) -> StorageError {
    StorageError::SnapshotDamaged {
        path: path.to_path_buf(),
        offset,
        reason: error.to_string(),
    }
}
