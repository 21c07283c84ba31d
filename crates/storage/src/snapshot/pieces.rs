//! A snapshot as a sequence of checked and decoded pieces, so that one thread can read ahead of the
//! thread that consumes them.

use std::io::Read;

use jute::Str;
use proto::{Acl, Id, SessionId, StatPersisted, Zxid};

use super::input::{FieldInput, InputError};
use super::read::SnapshotInfo;
use super::{END_PATH, MAGIC, SEAL_BYTES};
use crate::error::ContentError;
use crate::recovery::state::{SnapshotDigest, State};

/// Total length of paths and data at which a batch of znodes is complete, bytes.
const BATCH_BYTES: usize = 64 << 10;
/// Length of the digest section without its seal.
const DIGEST_BYTES: usize = 20;
/// Length of the last-zxid section without its seal.
const LAST_ZXID_BYTES: usize = 8;
/// Length of the ACL id and StatPersisted of a znode.
const FIXED_BYTES: usize = 8 + 60;

/// Part of a snapshot's content.
pub(super) enum Piece {
    Session(SessionId, i32),
    Acl(i64, Vec<Acl>),
    Znodes(Znodes),
}

/// Znodes, in the order of the file.
#[derive(Default)]
pub(super) struct Znodes {
    paths: String,
    data: Vec<u8>,
    fixed: Vec<Fixed>,
}

/// A znode without its path and data. In the buffers, these follow the path and data of the
/// previous znode.
struct Fixed {
    path_len: usize,
    data_len: Option<usize>,
    acl: i64,
    stat: StatPersisted,
    /// Offset after the znode in the file.
    end: u64,
}

impl Piece {
    /// Returns the approximate memory use in bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Session(..) | Self::Acl(..) => size_of::<Self>(),
            Self::Znodes(znodes) => znodes.bytes() + znodes.fixed.len() * size_of::<Fixed>(),
        }
    }

    /// Adds the piece to a database.
    ///
    /// # Errors
    /// If the database refuses a znode. The returned offset is the position after that znode.
    pub(super) fn enter<S: State>(self, state: &mut S) -> Result<(), (u64, InputError)> {
        match self {
            Self::Session(id, timeout_ms) => state.session(id, timeout_ms),
            Self::Acl(id, acl) => state.acl(id, acl),
            Self::Znodes(znodes) => return znodes.enter(state),
        }
        Ok(())
    }
}

impl Znodes {
    fn bytes(&self) -> usize {
        self.paths.len() + self.data.len()
    }

    fn enter<S: State>(&self, state: &mut S) -> Result<(), (u64, InputError)> {
        let (mut paths, mut data) = (self.paths.as_str(), self.data.as_slice());
        for znode in &self.fixed {
            let (path, other_paths) = paths.split_at(znode.path_len);
            let (own, other_data) = data.split_at(znode.data_len.unwrap_or(0));
            (paths, data) = (other_paths, other_data);
            let own = znode.data_len.map(|_| own);
            let entered = state.znode(path, own, znode.acl, znode.stat);
            entered.map_err(|error: ContentError| {
                let what = format!("znode {path:?}: {error}");
                (znode.end, InputError::Content(what))
            })?;
        }
        Ok(())
    }
}

/// Part of the snapshot to read next.
enum Step {
    /// The header: "ZKSN", version and dbid. Only in a file.
    Header,
    Sessions(Option<u32>),
    Acls(Option<u32>),
    Znodes,
    /// Checksums and sections. Only in a file.
    Trailer,
    Over,
}

/// Iterator over the pieces of a snapshot. It ends after the first error.
pub(super) struct Pieces<R> {
    input: FieldInput<R>,
    is_file: bool,
    step: Step,
    info: SnapshotInfo,
    path: String,
    /// Error that occurred after znodes that have to be returned first.
    error: Option<InputError>,
}

impl<R: Read> Pieces<R> {
    /// Creates a reader of a whole file: header, content, seals and sections.
    pub(super) fn of_file(input: FieldInput<R>) -> Self {
        Self::new(input, true, Step::Header)
    }

    /// Creates a reader of the content without header, seals and sections.
    pub(super) fn of_body(input: FieldInput<R>) -> Self {
        Self::new(input, false, Step::Sessions(None))
    }

    fn new(input: FieldInput<R>, is_file: bool, step: Step) -> Self {
        Self {
            input,
            is_file,
            step,
            info: SnapshotInfo::default(),
            path: String::new(),
            error: None,
        }
    }

    /// Returns the metadata found so far, which is complete at the end.
    pub(super) fn info(&self) -> SnapshotInfo {
        self.info
    }

    /// Returns the offset of the next byte.
    pub(super) fn position(&self) -> u64 {
        self.input.position()
    }

    fn advance(&mut self) -> Result<Option<Piece>, InputError> {
        loop {
            match &mut self.step {
                Step::Header => {
                    read_header(&mut self.input)?;
                    self.step = Step::Sessions(None);
                }
                Step::Sessions(left) => {
                    if next_of(left, &mut self.input, "sessions")? {
                        return self.session().map(Some);
                    }
                    self.step = Step::Acls(None);
                }
                Step::Acls(left) => {
                    if next_of(left, &mut self.input, "ACL table entries")? {
                        return self.acl().map(Some);
                    }
                    self.step = Step::Znodes;
                }
                Step::Znodes => {
                    if let Some(error) = self.error.take() {
                        return Err(error);
                    }
                    let mut znodes = Znodes::default();
                    match self.read_znodes(&mut znodes) {
                        Ok(true) => self.end_content(),
                        Ok(false) => {}
                        Err(error) => self.error = Some(error),
                    }
                    return Ok(Some(Piece::Znodes(znodes)));
                }
                Step::Trailer => {
                    read_seal(&mut self.input)?;
                    read_trailer(&mut self.input, &mut self.info)?;
                    self.step = Step::Over;
                }
                Step::Over => return Ok(None),
            }
        }
    }

    fn session(&mut self) -> Result<Piece, InputError> {
        let (id, timeout_ms) = (SessionId(self.input.i64()?), self.input.i32()?);
        self.info.sessions += 1;
        Ok(Piece::Session(id, timeout_ms))
    }

    fn acl(&mut self) -> Result<Piece, InputError> {
        let id = self.input.i64()?;
        Ok(Piece::Acl(id, read_acl(&mut self.input)?))
    }

    /// Reads the next znodes. Returns `true` if the end marker follows them.
    fn read_znodes(&mut self, znodes: &mut Znodes) -> Result<bool, InputError> {
        while znodes.bytes() < BATCH_BYTES {
            self.input.string_into(&mut self.path)?;
            if self.path == END_PATH {
                return Ok(true);
            }
            read_znode(&mut self.input, &self.path, znodes)?;
            self.info.znodes += 1;
        }
        Ok(false)
    }

    fn end_content(&mut self) {
        self.info.content_end = self.input.position();
        self.step = if self.is_file {
            Step::Trailer
        } else {
            Step::Over
        };
    }
}

impl<R: Read> Iterator for Pieces<R> {
    type Item = Result<Piece, InputError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance().transpose();
        if !matches!(next, Some(Ok(_))) {
            self.step = Step::Over;
        }
        next
    }
}

fn read_header<R: Read>(input: &mut FieldInput<R>) -> Result<(), InputError> {
    if input.take(4)? != MAGIC {
        return Err(InputError::Content(
            "the snapshot does not begin with \"ZKSN\"".into(),
        ));
    }
    // Version and dbid are covered by the checksum but not checked otherwise.
    input.take(12)?;
    Ok(())
}

/// Returns whether another item follows, and counts it. The first call reads the number of items.
fn next_of<R: Read>(
    left: &mut Option<u32>,
    input: &mut FieldInput<R>,
    of: &str,
) -> Result<bool, InputError> {
    let count = match *left {
        Some(count) => count,
        None => count(input, of)?,
    };
    *left = Some(count.saturating_sub(1));
    Ok(count > 0)
}

fn count<R: Read>(input: &mut FieldInput<R>, of: &str) -> Result<u32, InputError> {
    let count = input.i32()?;
    u32::try_from(count).map_err(|_| InputError::Content(format!("the number of {of} is {count}")))
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

fn read_znode<R: Read>(
    input: &mut FieldInput<R>,
    path: &str,
    znodes: &mut Znodes,
) -> Result<(), InputError> {
    let data_len = input.len()?;
    let data_bytes = data_len.unwrap_or(0);
    let bytes = input.take(data_bytes + FIXED_BYTES)?;
    let Some((data, fixed)) = bytes.split_at_checked(data_bytes) else {
        return Err(InputError::Ends);
    };
    let Some((acl, stat)) = fixed.split_first_chunk() else {
        return Err(InputError::Ends);
    };
    let stat = read_stat(stat).ok_or(InputError::Ends)?;
    znodes.paths.push_str(path);
    znodes.data.extend_from_slice(data);
    znodes.fixed.push(Fixed {
        path_len: path.len(),
        data_len,
        acl: i64::from_be_bytes(*acl),
        stat,
        end: input.position(),
    });
    Ok(())
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

/// Verifies the checksum, which covers everything before the seal. The "/" after the checksum is
/// not checked here, but the next seal, if any, covers it.
fn read_seal<R: Read>(input: &mut FieldInput<R>) -> Result<(), InputError> {
    let computed = input.checksum();
    let stored = input.i64()?;
    if stored != i64::from(computed) {
        return Err(InputError::Content(format!(
            "the stored checksum is {stored:#x}, but the data has checksum {computed:#x}"
        )));
    }
    input.string()?;
    Ok(())
}

/// Reads the sections, which are recognised by the number of remaining bytes: 54 for both sections,
/// 33 for the digest, 21 for the last zxid, fewer than 20 for neither. Any other number is read as
/// both sections, because of digests of version 1 and sections of later releases.
fn read_trailer<R: Read>(
    input: &mut FieldInput<R>,
    info: &mut SnapshotInfo,
) -> Result<(), InputError> {
    const DIGEST_ONLY: usize = DIGEST_BYTES + SEAL_BYTES;
    const LAST_ZXID_ONLY: usize = LAST_ZXID_BYTES + SEAL_BYTES;
    let (left, error) = input.remaining(DIGEST_ONLY + LAST_ZXID_ONLY + 1);
    let is_cut = error.is_none_or(|error| error.kind() == std::io::ErrorKind::UnexpectedEof);
    if is_cut && left < DIGEST_BYTES {
        // The sections are missing, or the compressed stream was cut. The first seal covers all
        // important data. Java accepts this, too.
        return Ok(());
    }
    if left != LAST_ZXID_ONLY {
        info.digest = Some(read_digest(input)?);
        read_seal(input)?;
        if input.remaining(LAST_ZXID_BYTES).0 < LAST_ZXID_BYTES {
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
            .map_err(|_| InputError::Content(format!("the digest {text:?} is not hexadecimal")))?
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
