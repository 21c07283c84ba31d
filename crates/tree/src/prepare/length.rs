//! How long a transaction may become.
//!
//! `jute.maxbuffer` bounds what a client sends, not what is made of it: an ACL entry `auth` stands
//! for all identities of the connection. A transaction that a member cannot read ends its
//! connection to the leader, and one that a server cannot read keeps it from starting. So it is
//! refused here, before anybody is told of it.

use jute::text_len;
use proto::mutant::{self, Mutant};
use proto::txn::TxnDigest;
use proto::{Acl, ErrorCode};

use super::Preparation;

/// A length in front of a string, a buffer or a vector.
const LEN_BYTES: usize = 4;
/// What each record has around its body: the header, and the digest of those that have one.
pub(super) const AROUND_BODY_BYTES: usize = 32 + TxnDigest::BYTES;
/// The number of a multi's operations.
pub(super) const MULTI_BYTES: usize = LEN_BYTES;
/// The type and the length in front of each of them.
pub(super) const IN_MULTI_BYTES: usize = 4 + LEN_BYTES;
/// An error in the place of one.
pub(super) const ERROR_BYTES: usize = 4;

pub(super) fn string_bytes(text: &str) -> usize {
    LEN_BYTES + text_len(text)
}

pub(super) fn buffer_bytes(data: Option<&[u8]>) -> usize {
    LEN_BYTES + data.map_or(0, <[u8]>::len)
}

pub(super) fn acl_bytes(acl: &[Acl]) -> usize {
    let entry = |entry: &Acl| 4 + string_bytes(&entry.id.scheme) + string_bytes(&entry.id.id);
    LEN_BYTES + acl.iter().map(entry).sum::<usize>()
}

/// Bytes of a list of paths.
pub(super) fn list_bytes<'a>(paths: impl Iterator<Item = &'a str>) -> usize {
    LEN_BYTES + paths.map(string_bytes).sum::<usize>()
}

/// Bytes of the paths of one session's ephemerals. All of them are made when it ends, by every member
/// at the same time, while little is stored of them if most of each path is the same.
const EPHEMERAL_PATH_BYTES_MAX: usize = 4 << 20;

impl Preparation<'_> {
    /// Whether the session may have one more ephemeral. Those in flight are few, and not counted.
    ///
    /// # Errors
    /// BadArguments if the paths of all of them would be too long.
    pub(super) fn check_ephemeral_paths(&self, path: &str) -> Result<(), ErrorCode> {
        let session = self.context.session;
        let bytes = self.tree.ephemeral_path_bytes(session) + path.len();
        if bytes <= EPHEMERAL_PATH_BYTES_MAX {
            return Ok(());
        }
        let limit = EPHEMERAL_PATH_BYTES_MAX;
        log_limiter::limited!(warn, %session, bytes, limit, "refusing an ephemeral: the paths of this session's ephemerals would be too long together; use shorter ones, or more sessions");
        Err(ErrorCode::BadArguments)
    }

    /// Counts what is about to become part of the transaction.
    ///
    /// # Errors
    /// BadArguments if not all members could read it.
    pub(super) fn lengthen(&mut self, bytes: usize) -> Result<(), ErrorCode> {
        self.bytes = self.bytes.saturating_add(bytes);
        let limit = self.tree.settings.record_bytes_max;
        if self.bytes <= limit || mutant::is(Mutant::LongTransactionTaken) {
            return Ok(());
        }
        let (session, cxid) = (self.context.session, self.context.cxid);
        log_limiter::limited!(warn, %session, cxid, bytes = self.bytes, limit, "refusing a request: its transaction would be longer than jute.maxbuffer and its extra size; ask for less at a time, or with fewer identities");
        Err(ErrorCode::BadArguments)
    }
}
