//! Parts of a transaction record: the header, the bodies and the digest.

use bytes::Bytes;
use jute::{DecodeRecord, EncodeRecord, Str};

use crate::{Acl, SessionId, Zxid};

/// Header of a transaction: its origin, time and type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct TxnHeader {
    /// Session of the request; 0 for the server itself.
    pub session: SessionId,
    /// Xid of the request; 0 if there is none.
    pub cxid: i32,
    /// Zxid of the transaction.
    pub zxid: Zxid,
    /// Time by the leader's clock, ms since 1970.
    pub time_ms: i64,
    /// Opcode of the body; -1 for an error.
    pub op: i32,
}

/// Digest of the tree after a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct TxnDigest {
    /// Version of the digest. See [`TxnDigest::VERSION`].
    pub version: i32,
    /// Sum of the znodes' digests.
    pub digest: i64,
}

impl TxnDigest {
    /// Version that is written and compared.
    pub const VERSION: i32 = 2;
    /// Length on the wire, bytes.
    pub const BYTES: usize = 12;

    /// Creates a digest of the current version.
    pub fn new(digest: u64) -> Self {
        Self {
            version: Self::VERSION,
            digest: digest.cast_signed(),
        }
    }
}

/// Body of create and create2.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct CreateTxn {
    /// Final path of the znode.
    pub path: Str,
    /// Data of the znode.
    pub data: Option<Bytes>,
    /// ACL of the znode.
    pub acl: Vec<Acl>,
    /// Whether the header's session owns the znode.
    pub ephemeral: bool,
    /// Resulting creation count of the parent; -1 if unknown (in records of old releases).
    pub parent_cversion: i32,
}

/// Body of createContainer.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct CreateContainerTxn {
    /// Final path of the znode.
    pub path: Str,
    /// Data of the znode.
    pub data: Option<Bytes>,
    /// ACL of the znode.
    pub acl: Vec<Acl>,
    /// Resulting creation count of the parent.
    pub parent_cversion: i32,
}

/// Body of createTTL.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct CreateTtlTxn {
    /// Final path of the znode.
    pub path: Str,
    /// Data of the znode.
    pub data: Option<Bytes>,
    /// ACL of the znode.
    pub acl: Vec<Acl>,
    /// Resulting creation count of the parent.
    pub parent_cversion: i32,
    /// TTL, ms.
    pub ttl: i64,
}

/// Body of setData and reconfig.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct SetDataTxn {
    /// Path of the znode.
    pub path: Str,
    /// New data of the znode.
    pub data: Option<Bytes>,
    /// Resulting version.
    pub version: i32,
}

/// Body of setACL.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct SetAclTxn {
    /// Path of the znode.
    pub path: Str,
    /// New ACL of the znode.
    pub acl: Vec<Acl>,
    /// Resulting aversion.
    pub version: i32,
}

/// Body of check, which occurs inside a multi.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct CheckVersionTxn {
    /// Path of the znode.
    pub path: Str,
    /// Current version of the znode plus 1. It is not used when the transaction is applied.
    pub version: i32,
}
