//! Limits for the length of a transaction.
//!
//! `jute.maxbuffer` limits a client's request but not the resulting transaction. For example, an
//! ACL entry `auth` expands to all identities of the connection. A member that cannot read a
//! transaction loses its connection to the leader, and a server that cannot read a transaction in
//! its log cannot start. Therefore such a transaction is refused here, before it is proposed.

use jute::text_len;
use proto::txn::TxnDigest;
use proto::{Acl, ErrorCode};

use super::Preparation;

/// Length of the length field before a string, a buffer or a vector, bytes.
const LEN_BYTES: usize = 4;
/// Maximum length of a record without its body, which is the length of header and digest, bytes.
pub(super) const AROUND_BODY_BYTES: usize = 32 + TxnDigest::BYTES;
/// Length of the number of operations in a multi, bytes.
pub(super) const MULTI_BYTES: usize = LEN_BYTES;
/// Length of the type and the length field before each operation in a multi, bytes.
pub(super) const IN_MULTI_BYTES: usize = 4 + LEN_BYTES;
/// Length of an error that replaces an operation, bytes.
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

/// Returns the encoded length of a list of paths, bytes.
pub(super) fn list_bytes<'a>(paths: impl Iterator<Item = &'a str>) -> usize {
    LEN_BYTES + paths.map(string_bytes).sum::<usize>()
}

/// Maximum total length of the paths of one session's ephemeral znodes, in UTF-16 units, which are
/// bytes for ASCII paths. When the session ends, all members build these paths at about the same
/// time, although they take little memory in the tree if most of each path is shared.
const EPHEMERAL_PATH_BYTES_MAX: usize = 4 << 20;

impl Preparation<'_> {
    /// Checks that the session may create one more ephemeral znode. The few ephemeral znodes in
    /// flight are not counted.
    ///
    /// # Errors
    /// BadArguments if the total length of the paths would be too long.
    pub(super) fn check_ephemeral_paths(&self, path: &str) -> Result<(), ErrorCode> {
        let session = self.context.session;
        let bytes = self.tree.ephemeral_path_bytes(session) + path.len();
        if bytes <= EPHEMERAL_PATH_BYTES_MAX {
            return Ok(());
        }
        let limit = EPHEMERAL_PATH_BYTES_MAX;
        log_limiter::limited!(warn, %session, bytes, limit, "refusing an ephemeral: the paths of this session's ephemerals would exceed their limit; use shorter paths or more sessions");
        Err(ErrorCode::BadArguments)
    }

    /// Counts bytes that are about to become part of the transaction.
    ///
    /// # Errors
    /// BadArguments if some members could not read the transaction.
    pub(super) fn lengthen(&mut self, bytes: usize) -> Result<(), ErrorCode> {
        self.bytes = self.bytes.saturating_add(bytes);
        let limit = self.tree.settings.record_bytes_max;
        if self.bytes <= limit {
            return Ok(());
        }
        let (session, cxid) = (self.context.session, self.context.cxid);
        log_limiter::limited!(warn, %session, cxid, bytes = self.bytes, limit, "refusing a request: its transaction would exceed jute.maxbuffer plus jute.maxbuffer.extrasize; split the request, or use fewer identities");
        Err(ErrorCode::BadArguments)
    }
}
