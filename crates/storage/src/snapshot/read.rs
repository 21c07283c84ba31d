//! Reading snapshots, without ever holding one whole.

use std::io::Read;
use std::path::Path;

use jute::{Limits, Str};
use proto::{Acl, Id, SessionId, StatPersisted, Zxid};

use super::codec::Decompressed;
use super::input::{FieldInput, InputError};
use super::{END_PATH, MAGIC, SEAL_BYTES};
use crate::disk::Disk;
use crate::error::{StorageError, io_error};
use crate::names::SnapshotFile;
use crate::state::{SnapshotDigest, State};

/// What stands around a snapshot's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SnapshotInfo {
    /// Znodes, the root included.
    pub znodes: u64,
    /// Sessions.
    pub sessions: u64,
    /// The digest section, if there is one.
    pub digest: Option<SnapshotDigest>,
    /// The last-zxid section, if there is one.
    pub last_zxid: Option<Zxid>,
    /// Where sessions, ACL table and znodes end: the offset behind the end marker.
    pub content_end: u64,
}

impl SnapshotInfo {
    /// The last transaction of which the snapshot may hold a part, going by its sections. Replay
    /// has to reach it, or the tree may be a mixture of times.
    pub fn covers(&self) -> Option<Zxid> {
        self.digest.map(|digest| digest.zxid).max(self.last_zxid)
    }
}

/// Bytes of the digest section without its seal.
const DIGEST_BYTES: usize = 20;
/// Bytes of the last-zxid section without its seal.
const LAST_ZXID_BYTES: usize = 8;

/// Reads a snapshot into `state` and checks every checksum in it.
///
/// The digest and last-zxid sections are told by the number of bytes that are left, so a snapshot
/// loads whatever the settings of its writer; Java goes by its own settings and refuses several
/// combinations.
///
/// # Errors
/// [`StorageError::SnapshotDamaged`] if the content is no good (`state` is then half filled),
/// [`StorageError::Io`] if the file cannot be read.
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
    let mut input = FieldInput::new(stream, limits);
    state.begin();
    let result = read_stream(&mut input, state).and_then(|info| {
        state
            .snapshot_loaded(file.zxid, info.digest)
            .map_err(|error| InputError::Content(error.to_string()))?;
        Ok(info)
    });
    result.map_err(|error| describe(&file.path, input.position(), error))
}

/// Reads sessions, ACL table and znodes up to the end marker, as a SNAP packet is followed by them
/// (LearnerHandler.run). Bytes behind the marker may have been read from the stream as
/// well, all by its last read; `content_end` tells them apart.
///
/// # Errors
/// [`StorageError::SnapshotDamaged`], with `name` for the file.
pub fn read_body<R: Read, S: State>(
    stream: R,
    name: &Path,
    limits: Limits,
    state: &mut S,
) -> Result<SnapshotInfo, StorageError> {
    let mut input = FieldInput::new(stream, limits);
    state.begin();
    let mut info = SnapshotInfo::default();
    read_content(&mut input, state, &mut info)
        .map_err(|error| describe(name, input.position(), error))?;
    Ok(info)
}

/// A fault of the disk under a plain file is no damage of the content, but the two cannot be told
/// apart below a decompressor; an older snapshot is tried in either case.
fn describe(path: &Path, offset: u64, error: InputError) -> StorageError {
    StorageError::SnapshotDamaged {
        path: path.to_path_buf(),
        offset,
        reason: error.to_string(),
    }
}

fn read_stream<R: Read, S: State>(
    input: &mut FieldInput<R>,
    state: &mut S,
) -> Result<SnapshotInfo, InputError> {
    if input.take(4)? != MAGIC {
        return Err(InputError::Content(
            "it does not begin with \"ZKSN\"".into(),
        ));
    }
    // Version and dbid: not checked as such, but under the checksum.
    input.take(12)?;
    let mut info = SnapshotInfo::default();
    read_content(input, state, &mut info)?;
    read_seal(input)?;
    read_trailer(input, &mut info)?;
    Ok(info)
}

fn read_content<R: Read, S: State>(
    input: &mut FieldInput<R>,
    state: &mut S,
    info: &mut SnapshotInfo,
) -> Result<(), InputError> {
    for _ in 0..count(input, "sessions")? {
        let (id, timeout_ms) = (SessionId(input.i64()?), input.i32()?);
        state.session(id, timeout_ms);
        info.sessions += 1;
    }
    for _ in 0..count(input, "ACL table entries")? {
        let id = input.i64()?;
        state.acl(id, read_acl(input)?);
    }
    let mut path = String::new();
    loop {
        input.string_into(&mut path)?;
        if path == END_PATH {
            info.content_end = input.position();
            return Ok(());
        }
        read_znode(input, &path, state)?;
        info.znodes += 1;
    }
}

fn count<R: Read>(input: &mut FieldInput<R>, of: &str) -> Result<u32, InputError> {
    let count = input.i32()?;
    u32::try_from(count).map_err(|_| InputError::Content(format!("{count} {of}")))
}

fn read_acl<R: Read>(input: &mut FieldInput<R>) -> Result<Vec<Acl>, InputError> {
    let count = count(input, "entries in an ACL")?;
    let mut acl = Vec::new();
    for _ in 0..count {
        let perms = input.i32()?;
        let (scheme, id): (Str, Str) = (input.string()?, input.string()?);
        acl.push(Acl {
            perms,
            id: Id { scheme, id },
        });
    }
    Ok(acl)
}

/// ACL id and StatPersisted.
const FIXED_BYTES: usize = 8 + 60;

fn read_znode<R: Read, S: State>(
    input: &mut FieldInput<R>,
    path: &str,
    state: &mut S,
) -> Result<(), InputError> {
    let len = input.len()?;
    let data_bytes = len.unwrap_or(0);
    let bytes = input.take(data_bytes + FIXED_BYTES)?;
    let Some((data, fixed)) = bytes.split_at_checked(data_bytes) else {
        return Err(InputError::Ends);
    };
    let Some((acl, stat)) = fixed.split_first_chunk() else {
        return Err(InputError::Ends);
    };
    let acl = i64::from_be_bytes(*acl);
    let stat = read_stat(stat).ok_or(InputError::Ends)?;
    state
        .znode(path, len.map(|_| data), acl, stat)
        .map_err(|error| InputError::Content(format!("znode {path:?}: {error}")))
}

fn read_stat(mut bytes: &[u8]) -> Option<StatPersisted> {
    let bytes = &mut bytes;
    Some(StatPersisted {
        czxid: next_i64(bytes)?,
        mzxid: next_i64(bytes)?,
        ctime: next_i64(bytes)?,
        mtime: next_i64(bytes)?,
        version: next_i32(bytes)?,
        cversion: next_i32(bytes)?,
        aversion: next_i32(bytes)?,
        ephemeral_owner: next_i64(bytes)?,
        pzxid: next_i64(bytes)?,
    })
}

fn next_i64(bytes: &mut &[u8]) -> Option<i64> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(i64::from_be_bytes(*first))
}

fn next_i32(bytes: &mut &[u8]) -> Option<i32> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(i32::from_be_bytes(*first))
}

/// The checksum is over everything before the seal; the "/" behind it is not looked at, but the
/// next seal covers it.
fn read_seal<R: Read>(input: &mut FieldInput<R>) -> Result<(), InputError> {
    let computed = input.checksum();
    let stored = input.i64()?;
    if stored != i64::from(computed) {
        return Err(InputError::Content(format!(
            "the seal holds checksum {stored:#x}, but the bytes before it give {computed:#x}"
        )));
    }
    input.string()?;
    Ok(())
}

/// Goes by what is left: 54 bytes are both sections, 33 the digest, 21 the last zxid, 0 neither.
/// Anything else is read as both, for digests of version 1 and sections of later releases.
fn read_trailer<R: Read>(
    input: &mut FieldInput<R>,
    info: &mut SnapshotInfo,
) -> Result<(), InputError> {
    const DIGEST_ONLY: usize = DIGEST_BYTES + SEAL_BYTES;
    const LAST_ZXID_ONLY: usize = LAST_ZXID_BYTES + SEAL_BYTES;
    let (left, error) = input.left(DIGEST_ONLY + LAST_ZXID_ONLY + 1);
    let is_cut = error.is_none_or(|error| error.kind() == std::io::ErrorKind::UnexpectedEof);
    if is_cut && left < DIGEST_BYTES {
        // A cut compressed stream; the first seal covers all that matters. As in Java.
        return Ok(());
    }
    if left != LAST_ZXID_ONLY {
        info.digest = Some(read_digest(input)?);
        read_seal(input)?;
        if input.left(LAST_ZXID_BYTES).0 < LAST_ZXID_BYTES {
            return Ok(());
        }
    }
    info.last_zxid = Some(Zxid(input.i64()?));
    read_seal(input)
}

fn read_digest<R: Read>(input: &mut FieldInput<R>) -> Result<SnapshotDigest, InputError> {
    let (zxid, version) = (Zxid(input.i64()?), input.i32()?);
    let digest = if version < 2 {
        let text = input.string()?;
        u64::from_str_radix(&text, 16)
            .map_err(|_| InputError::Content(format!("digest {text:?} is not hex")))?
            .cast_signed()
    } else {
        input.i64()?
    };
    Ok(SnapshotDigest {
        zxid,
        version,
        digest,
    })
}
