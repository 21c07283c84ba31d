//! Records of requests, and the create modes.

use bytes::Bytes;
use jute::{DecodeRecord, EncodeRecord, Str};

use crate::OpCode;
use crate::data::RequestAcl;

/// Record of create, create2 and createContainer and, together with `ttl`, of createTTL.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct CreateRequest {
    /// Path of the znode, to which a sequence number may be appended.
    pub path: Option<Str>,
    /// Data of the znode.
    pub data: Option<Bytes>,
    /// ACL of the znode.
    pub acl: Option<Vec<RequestAcl>>,
    /// Create mode (see [`flags`]).
    pub flags: i32,
}

/// Create modes. Source: CreateMode.
pub mod flags {
    /// Persistent znode.
    pub const PERSISTENT: i32 = 0;
    /// Ephemeral znode, which is deleted with its session.
    pub const EPHEMERAL: i32 = 1;
    /// Persistent znode with a sequence number.
    pub const PERSISTENT_SEQUENTIAL: i32 = 2;
    /// Ephemeral znode with a sequence number.
    pub const EPHEMERAL_SEQUENTIAL: i32 = 3;
    /// Container, which is deleted after its last child has been deleted.
    pub const CONTAINER: i32 = 4;
    /// TTL znode, which is deleted after it has been unchanged and childless for its TTL.
    pub const TTL: i32 = 5;
    /// TTL znode with a sequence number.
    pub const TTL_SEQUENTIAL: i32 = 6;
}

/// Record of delete, and of check inside a multi.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct PathVersionRequest {
    /// Path of the znode.
    pub path: Option<Str>,
    /// Expected version; -1 for any.
    pub version: i32,
}

/// Record of setData.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct SetDataRequest {
    /// Path of the znode.
    pub path: Option<Str>,
    /// New data of the znode.
    pub data: Option<Bytes>,
    /// Expected version; -1 for any.
    pub version: i32,
}

/// Record of setACL.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct SetAclRequest {
    /// Path of the znode.
    pub path: Option<Str>,
    /// New ACL of the znode.
    pub acl: Option<Vec<RequestAcl>>,
    /// Expected aversion; -1 for any.
    pub version: i32,
}

/// Record of reconfig.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct ReconfigRequest {
    /// Members to add or change, separated by commas.
    pub joining: Option<Str>,
    /// Members to remove, separated by commas.
    pub leaving: Option<Str>,
    /// Complete new member list, used instead of `joining` and `leaving`.
    pub new_members: Option<Str>,
    /// Expected config version; -1 for any.
    pub config_version: i64,
}

/// Record of exists, getData, getChildren and getChildren2.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct PathWatchRequest {
    /// Path of the znode, which is not validated.
    pub path: Option<Str>,
    /// Whether to set a watch.
    pub watch: bool,
}

/// Record of getACL, sync, getAllChildrenNumber and (with a prefix) getEphemerals.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct PathRequest {
    /// Path or prefix, which is not validated.
    pub path: Option<Str>,
}

/// Record of addWatch (with a mode), and of checkWatches and removeWatches (with a type).
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct PathModeRequest {
    /// Path, which may be any string.
    pub path: Option<Str>,
    /// Mode of addWatch, or type of the other requests.
    pub mode: i32,
}

/// Record of setWatches and setWatches2: the watches of a previous connection. The lists and their
/// entries may be null. A null causes an error only when it is reached, after earlier watches are
/// set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SetWatchesRequest {
    /// Last zxid that the client had seen.
    pub relative_zxid: i64,
    /// Paths of data watches.
    pub data: Option<Vec<Option<Str>>>,
    /// Paths of watches on znodes that did not exist.
    pub exist: Option<Vec<Option<Str>>>,
    /// Paths of child watches.
    pub child: Option<Vec<Option<Str>>>,
    /// Paths of persistent watches; empty for setWatches.
    pub persistent: Option<Vec<Option<Str>>>,
    /// Paths of persistent recursive watches; empty for setWatches.
    pub persistent_recursive: Option<Vec<Option<Str>>>,
}

/// A request that cannot be encoded: a multi or multiRead that was refused during decoding, or a
/// check outside a multi.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a refused {} request cannot be encoded", .op.name())]
pub struct NotEncodable {
    /// Opcode of the request.
    pub op: OpCode,
}
