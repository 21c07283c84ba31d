//! Decoded requests of clients, sorted by how they are served.

mod encode;

use bytes::Bytes;
use jute::{Decode, DecodeError, DecodeRecord, Encode, EncodeRecord, Reader, Str};

use crate::multi::{MultiFault, MultiRead};
use crate::{OpCode, data::RequestAcl, multi};

pub use encode::NotEncodable;

/// Record of create, create2 and createContainer; with `ttl` also of createTTL.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct CreateRequest {
    /// Path of the znode, to which a sequence number may be appended.
    pub path: Option<Str>,
    /// Data of the znode.
    pub data: Option<Bytes>,
    /// ACL of the znode.
    pub acl: Option<Vec<RequestAcl>>,
    /// A create mode, see [`flags`].
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
    /// Container, which is deleted after its last child.
    pub const CONTAINER: i32 = 4;
    /// TTL znode, which is deleted after it was unchanged and childless for its TTL.
    pub const TTL: i32 = 5;
    /// TTL znode with a sequence number.
    pub const TTL_SEQUENTIAL: i32 = 6;
}

/// Record of delete, and of check inside a multi.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct PathVersionRequest {
    /// Path of the znode.
    pub path: Option<Str>,
    /// Expected version, -1 for any.
    pub version: i32,
}

/// Record of setData.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct SetDataRequest {
    /// Path of the znode.
    pub path: Option<Str>,
    /// The new data.
    pub data: Option<Bytes>,
    /// Expected version, -1 for any.
    pub version: i32,
}

/// Record of setACL.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct SetAclRequest {
    /// Path of the znode.
    pub path: Option<Str>,
    /// The new ACL.
    pub acl: Option<Vec<RequestAcl>>,
    /// Expected aversion, -1 for any.
    pub version: i32,
}

/// Record of reconfig.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct ReconfigRequest {
    /// Members to add or change, comma-separated.
    pub joining: Option<Str>,
    /// Members to remove, comma-separated.
    pub leaving: Option<Str>,
    /// Complete new list, instead of the other two.
    pub new_members: Option<Str>,
    /// Expected config version, -1 for any.
    pub config_version: i64,
}

/// Record of exists, getData, getChildren and getChildren2.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct PathWatchRequest {
    /// Path, which is not validated.
    pub path: Option<Str>,
    /// Whether to set a watch.
    pub watch: bool,
}

/// Record of getACL, sync, getAllChildrenNumber and getEphemerals (a prefix).
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct PathRequest {
    /// Path or prefix, which is not validated.
    pub path: Option<Str>,
}

/// Record of addWatch (mode), and of checkWatches and removeWatches (type).
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct PathModeRequest {
    /// Path, which may be any string.
    pub path: Option<Str>,
    /// Mode of addWatch, or type of the other requests.
    pub mode: i32,
}

/// Record of setWatches and setWatches2: the watches of a previous connection. The lists and their
/// entries may be null. A null fails the request only when it is reached.
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

/// A request that becomes a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteRequest {
    /// create, create2, createContainer, createTTL.
    Create {
        /// Opcode, one of the four.
        op: OpCode,
        /// Record of the request.
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
    /// check, only inside a multi.
    Check(PathVersionRequest),
    /// deleteContainer, whose path cannot be null.
    DeleteContainer {
        /// Path of the container or TTL znode.
        path: Str,
    },
    /// reconfig.
    Reconfig(ReconfigRequest),
    /// multi. A fault refuses it as a whole but still uses a zxid.
    Multi(Result<Vec<WriteRequest>, MultiFault>),
    /// A new session, created by the server from a handshake.
    CreateSession {
        /// Negotiated timeout in ms.
        timeout_ms: i32,
    },
    /// End of the session, sent by the client or created by the server on expiry.
    CloseSession,
}

impl WriteRequest {
    /// Returns the opcode of the request.
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

/// A read request, which is answered from this server's own tree.
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

/// A decoded request, by its treatment in a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// A write, which becomes a transaction.
    Write(WriteRequest),
    /// A read, which is answered by this server.
    Read(ReadRequest),
    /// sync, which is ordered with the writes but does not become a transaction.
    Sync(PathRequest),
}

impl Request {
    /// Decodes the record of `op`. Further bytes are ignored.
    ///
    /// # Errors
    /// If the record does not decode. The reply is then MarshallingError, and no zxid is used.
    ///
    /// # Panics
    /// Never. Opcodes that are not requests of a client (error, createSession, check, auth, sasl)
    /// cause a `Value` error; the caller distinguishes them with [`OpCode::kind`].
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
