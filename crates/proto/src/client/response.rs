//! Bodies of successful replies.

use bytes::Bytes;
use jute::{DecodeRecord, EncodeRecord, Str};

use crate::{Acl, Stat};

/// Reply to create.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct CreateResponse {
    /// Final path of the znode.
    pub path: Str,
}

/// Reply to create2, createContainer and createTTL.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct Create2Response {
    /// Final path of the znode.
    pub path: Str,
    /// Stat directly after the creation.
    pub stat: Stat,
}

/// Reply to exists, setData and setACL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct StatResponse {
    /// Current Stat of the znode.
    pub stat: Stat,
}

/// Reply to getData and reconfig.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct GetDataResponse {
    /// Data of the znode, which may be null.
    pub data: Option<Bytes>,
    /// Current Stat of the znode.
    pub stat: Stat,
}

/// Reply to getACL.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct GetAclResponse {
    /// Entries of the ACL.
    pub acl: Vec<Acl>,
    /// Current Stat of the znode.
    pub stat: Stat,
}

/// Reply to getChildren and getEphemerals.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct NamesResponse {
    /// Names (getChildren) or paths (getEphemerals), in unspecified order.
    pub names: Vec<Str>,
}

/// Reply to getChildren2.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct GetChildren2Response {
    /// Names of the children, in unspecified order.
    pub children: Vec<Str>,
    /// Current Stat of the znode.
    pub stat: Stat,
}

/// Reply to getAllChildrenNumber.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct GetAllChildrenNumberResponse {
    /// Number of all descendants.
    pub total: i32,
}

/// Reply to sync.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct SyncResponse {
    /// Path in the request.
    pub path: Option<Str>,
}

/// Reply to addWatch, and an error in the results of a multi.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct ErrorResponse {
    /// Error: 0 or an error code.
    pub err: i32,
}

/// An identity in the reply to whoAmI.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct ClientInfo {
    /// Scheme of the identity.
    pub scheme: Str,
    /// User within the scheme.
    pub user: Str,
}

/// Reply to whoAmI.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct WhoAmIResponse {
    /// All identities of the connection, in unspecified order.
    pub clients: Vec<ClientInfo>,
}
