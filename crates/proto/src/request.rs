//! What clients ask for, decoded and sorted by how it is served.

mod encode;

use bytes::Bytes;
use jute::{Decode, DecodeError, DecodeRecord, Encode, EncodeRecord, Reader, Str};

use crate::multi::{MultiFault, MultiRead};
use crate::{OpCode, data::RequestAcl, multi};

pub use encode::NotEncodable;

/// create, create2, createContainer; with `ttl` also createTTL.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct CreateRequest {
    /// The path; a sequence number may be appended.
    pub path: Option<Str>,
    /// The data.
    pub data: Option<Bytes>,
    /// The ACL.
    pub acl: Option<Vec<RequestAcl>>,
    /// A create mode, see [`flags`].
    pub flags: i32,
}

/// Create modes. Source: CreateMode.
pub mod flags {
    /// Stays.
    pub const PERSISTENT: i32 = 0;
    /// Goes with its session.
    pub const EPHEMERAL: i32 = 1;
    /// Stays, numbered.
    pub const PERSISTENT_SEQUENTIAL: i32 = 2;
    /// Goes with its session, numbered.
    pub const EPHEMERAL_SEQUENTIAL: i32 = 3;
    /// Goes after its last child.
    pub const CONTAINER: i32 = 4;
    /// Goes when unchanged and childless for its TTL.
    pub const TTL: i32 = 5;
    /// The same, numbered.
    pub const TTL_SEQUENTIAL: i32 = 6;
}

/// delete, and check inside a multi.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct PathVersionRequest {
    /// The path.
    pub path: Option<Str>,
    /// Expected version, -1 for any.
    pub version: i32,
}

/// setData.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct SetDataRequest {
    /// The path.
    pub path: Option<Str>,
    /// The new data.
    pub data: Option<Bytes>,
    /// Expected version, -1 for any.
    pub version: i32,
}

/// setACL.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct SetAclRequest {
    /// The path.
    pub path: Option<Str>,
    /// The new ACL.
    pub acl: Option<Vec<RequestAcl>>,
    /// Expected aversion, -1 for any.
    pub version: i32,
}

/// reconfig.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct ReconfigRequest {
    /// Members to add or change, comma separated.
    pub joining: Option<Str>,
    /// Members to remove, comma separated.
    pub leaving: Option<Str>,
    /// The whole new list, instead of the other two.
    pub new_members: Option<Str>,
    /// Expected config version, -1 for any.
    pub config_version: i64,
}

/// exists, getData, getChildren, getChildren2.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct PathWatchRequest {
    /// The path; not validated.
    pub path: Option<Str>,
    /// Whether to leave a watch.
    pub watch: bool,
}

/// getACL, sync, getAllChildrenNumber, getEphemerals (a prefix).
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct PathRequest {
    /// The path or prefix; not validated.
    pub path: Option<Str>,
}

/// addWatch (mode), checkWatches and removeWatches (type).
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct PathModeRequest {
    /// The path; any string.
    pub path: Option<Str>,
    /// Mode or type.
    pub mode: i32,
}

/// setWatches and setWatches2: watches of a connection that is gone. The lists and their
/// entries may be null, which fails the request where it is met, not before.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SetWatchesRequest {
    /// What the client had seen when it set them.
    pub relative_zxid: i64,
    /// Data watches.
    pub data: Option<Vec<Option<Str>>>,
    /// Watches on znodes that did not exist.
    pub exist: Option<Vec<Option<Str>>>,
    /// Child watches.
    pub child: Option<Vec<Option<Str>>>,
    /// Persistent watches; empty for setWatches.
    pub persistent: Option<Vec<Option<Str>>>,
    /// Persistent recursive watches; empty for setWatches.
    pub persistent_recursive: Option<Vec<Option<Str>>>,
}

/// A request that becomes a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteRequest {
    /// create, create2, createContainer, createTTL.
    Create {
        /// Which of the four.
        op: OpCode,
        /// The record.
        request: CreateRequest,
        /// The TTL in ms of createTTL, -1 for the others.
        ttl: i64,
    },
    /// delete.
    Delete(PathVersionRequest),
    /// setData.
    SetData(SetDataRequest),
    /// setACL.
    SetAcl(SetAclRequest),
    /// check; only inside a multi.
    Check(PathVersionRequest),
    /// deleteContainer; a null path does not decode.
    DeleteContainer {
        /// The path.
        path: Str,
    },
    /// reconfig.
    Reconfig(ReconfigRequest),
    /// multi; a fault refuses it whole but still uses a zxid.
    Multi(Result<Vec<WriteRequest>, MultiFault>),
    /// A new session; made by the server from a handshake.
    CreateSession {
        /// Negotiated timeout.
        timeout_ms: i32,
    },
    /// End of the session; sent by the client, or made by the server on expiry.
    CloseSession,
}

impl WriteRequest {
    /// The opcode it came with.
    pub fn op(&self) -> OpCode {
        match self {
            Self::Create { op, .. } => *op,
            Self::Delete(_) => OpCode::Delete,
            Self::SetData(_) => OpCode::SetData,
            Self::SetAcl(_) => OpCode::SetAcl,
            Self::Check(_) => OpCode::Check,
            Self::DeleteContainer { .. } => OpCode::DeleteContainer,
            Self::Reconfig(_) => OpCode::Reconfig,
            Self::Multi(_) => OpCode::Multi,
            Self::CreateSession { .. } => OpCode::CreateSession,
            Self::CloseSession => OpCode::CloseSession,
        }
    }
}

/// A request answered from this server's own tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadRequest {
    /// exists.
    Exists(PathWatchRequest),
    /// getData.
    GetData(PathWatchRequest),
    /// getACL.
    GetAcl(PathRequest),
    /// getChildren.
    GetChildren(PathWatchRequest),
    /// getChildren2.
    GetChildren2(PathWatchRequest),
    /// getAllChildrenNumber.
    GetAllChildrenNumber(PathRequest),
    /// getEphemerals.
    GetEphemerals(PathRequest),
    /// multiRead.
    MultiRead(MultiRead),
    /// checkWatches.
    CheckWatches(PathModeRequest),
    /// removeWatches.
    RemoveWatches(PathModeRequest),
    /// addWatch.
    AddWatch(PathModeRequest),
    /// setWatches, setWatches2.
    SetWatches(SetWatchesRequest),
    /// whoAmI.
    WhoAmI,
    /// ping.
    Ping,
}

/// A request as a server handles it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Becomes a transaction.
    Write(WriteRequest),
    /// Is answered here.
    Read(ReadRequest),
    /// sync: goes in order with the writes, makes no transaction.
    Sync(PathRequest),
}

impl Request {
    /// Decodes the record of `op`. Bytes behind it are ignored.
    ///
    /// # Errors
    /// If the record does not decode: the reply is MarshallingError and no zxid is used.
    ///
    /// # Panics
    /// Never; opcodes that are no request of a client (error, createSession, check, auth, sasl)
    /// are a `Value` error, the caller tells them apart by [`OpCode::kind`].
    pub fn decode(op: OpCode, input: &mut Reader) -> Result<Self, DecodeError> {
        use ReadRequest as R;
        use WriteRequest as W;
        Ok(match op {
            OpCode::Create | OpCode::Create2 | OpCode::CreateContainer => Self::Write(W::Create {
                op,
                request: CreateRequest::decode(input)?,
                ttl: -1,
            }),
            OpCode::CreateTtl => {
                let request = CreateRequest::decode(input)?;
                Self::Write(W::Create {
                    op,
                    request,
                    ttl: input.i64()?,
                })
            }
            OpCode::Delete => Self::Write(W::Delete(PathVersionRequest::decode(input)?)),
            OpCode::SetData => Self::Write(W::SetData(SetDataRequest::decode(input)?)),
            OpCode::SetAcl => Self::Write(W::SetAcl(SetAclRequest::decode(input)?)),
            OpCode::DeleteContainer => Self::Write(W::DeleteContainer {
                path: Str::decode(input)?,
            }),
            OpCode::Reconfig => Self::Write(W::Reconfig(ReconfigRequest::decode(input)?)),
            OpCode::Multi => Self::Write(W::Multi(multi::decode_writes(input)?)),
            OpCode::CloseSession => Self::Write(W::CloseSession),
            OpCode::Exists => Self::Read(R::Exists(PathWatchRequest::decode(input)?)),
            OpCode::GetData => Self::Read(R::GetData(PathWatchRequest::decode(input)?)),
            OpCode::GetAcl => Self::Read(R::GetAcl(PathRequest::decode(input)?)),
            OpCode::GetChildren => Self::Read(R::GetChildren(PathWatchRequest::decode(input)?)),
            OpCode::GetChildren2 => Self::Read(R::GetChildren2(PathWatchRequest::decode(input)?)),
            OpCode::GetAllChildrenNumber => {
                Self::Read(R::GetAllChildrenNumber(PathRequest::decode(input)?))
            }
            OpCode::GetEphemerals => Self::Read(R::GetEphemerals(PathRequest::decode(input)?)),
            OpCode::MultiRead => Self::Read(R::MultiRead(multi::decode_reads(input)?)),
            OpCode::CheckWatches => Self::Read(R::CheckWatches(PathModeRequest::decode(input)?)),
            OpCode::RemoveWatches => Self::Read(R::RemoveWatches(PathModeRequest::decode(input)?)),
            OpCode::AddWatch => Self::Read(R::AddWatch(PathModeRequest::decode(input)?)),
            OpCode::SetWatches | OpCode::SetWatches2 => {
                Self::Read(R::SetWatches(SetWatchesRequest::decode(op, input)?))
            }
            OpCode::WhoAmI => Self::Read(R::WhoAmI),
            OpCode::Ping => Self::Read(R::Ping),
            OpCode::Sync => Self::Sync(PathRequest::decode(input)?),
            OpCode::Error | OpCode::CreateSession | OpCode::Check | OpCode::Auth | OpCode::Sasl => {
                return Err(DecodeError::Value {
                    what: "opcode",
                    value: op.number().into(),
                });
            }
        })
    }
}

impl SetWatchesRequest {
    fn decode(op: OpCode, input: &mut Reader) -> Result<Self, DecodeError> {
        let mut request = Self {
            relative_zxid: input.i64()?,
            data: Option::decode(input)?,
            exist: Option::decode(input)?,
            child: Option::decode(input)?,
            persistent: Some(Vec::new()),
            persistent_recursive: Some(Vec::new()),
        };
        if op == OpCode::SetWatches2 {
            request.persistent = Option::decode(input)?;
            request.persistent_recursive = Option::decode(input)?;
        }
        Ok(request)
    }

    /// Appends the record of setWatches2, or of setWatches without the persistent lists.
    pub fn encode(&self, op: OpCode, out: &mut Vec<u8>) {
        self.relative_zxid.encode(out);
        self.data.encode(out);
        self.exist.encode(out);
        self.child.encode(out);
        if op == OpCode::SetWatches2 {
            self.persistent.encode(out);
            self.persistent_recursive.encode(out);
        }
    }
}
