//! Bodies of successful replies.

use bytes::Bytes;
use jute::{DecodeRecord, EncodeRecord, Str};

use crate::{Acl, Stat};

/// create.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct CreateResponse {
    /// The final path.
    pub path: Str,
}

/// create2, createContainer, createTTL.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct Create2Response {
    /// The final path.
    pub path: Str,
    /// Just after the creation.
    pub stat: Stat,
}

/// exists, setData, setACL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct StatResponse {
    /// The current Stat.
    pub stat: Stat,
}

/// getData, reconfig.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct GetDataResponse {
    /// The data, which may be null.
    pub data: Option<Bytes>,
    /// The current Stat.
    pub stat: Stat,
}

/// getACL.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct GetAclResponse {
    /// The entries.
    pub acl: Vec<Acl>,
    /// The current Stat.
    pub stat: Stat,
}

/// getChildren, getEphemerals.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct NamesResponse {
    /// Names (getChildren) or paths (getEphemerals), in no order.
    pub names: Vec<Str>,
}

/// getChildren2.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct GetChildren2Response {
    /// Names, in no order.
    pub children: Vec<Str>,
    /// The current Stat.
    pub stat: Stat,
}

/// getAllChildrenNumber.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct GetAllChildrenNumberResponse {
    /// All descendants.
    pub total: i32,
}

/// sync.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct SyncResponse {
    /// As in the request.
    pub path: Option<Str>,
}

/// addWatch, and errors inside a multi's results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct ErrorResponse {
    /// 0 or a code.
    pub err: i32,
}

/// One identity of whoAmI.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct ClientInfo {
    /// The scheme.
    pub scheme: Str,
    /// The user within it.
    pub user: Str,
}

/// whoAmI.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct WhoAmIResponse {
    /// All identities of the connection, in no order.
    pub clients: Vec<ClientInfo>,
}
