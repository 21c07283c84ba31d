//! Requests that become transactions.

use jute::{Decode, DecodeError, Encode, Reader, Str};

use super::records::{
    CreateRequest, NotEncodable, PathVersionRequest, ReconfigRequest, SetAclRequest, SetDataRequest,
};
use crate::client::multi::{self, MultiFault, MultiHeader};
use crate::client::op::InMulti;
use crate::{OpCode, OpKind};

/// A request that becomes a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteRequest {
    /// Request create, create2, createContainer or createTTL.
    Create {
        /// Opcode of one of these four operations.
        op: OpCode,
        /// Record of the request.
        request: CreateRequest,
        /// TTL of createTTL, ms; -1 for the other operations.
        ttl: i64,
    },
    /// Request delete.
    Delete(PathVersionRequest),
    /// Request setData.
    SetData(SetDataRequest),
    /// Request setACL.
    SetAcl(SetAclRequest),
    /// Request check, which occurs only inside a multi.
    Check(PathVersionRequest),
    /// Request deleteContainer. Its path cannot be null.
    DeleteContainer {
        /// Path of the container or TTL znode.
        path: Str,
    },
    /// Request reconfig.
    Reconfig(ReconfigRequest),
    /// Request multi. A fault refuses the whole multi, which still uses a zxid.
    Multi(Result<Vec<WriteRequest>, MultiFault>),
    /// A new session, created by the server from a handshake.
    CreateSession {
        /// Negotiated timeout, ms.
        timeout_ms: i32,
    },
    /// End of a session, requested by the client, or by the server when the session expires.
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

    /// Decodes the record of `op`, separate or in a multi. Returns `None` if a client cannot
    /// request a write with this opcode.
    ///
    /// # Errors
    /// If the record cannot be decoded.
    pub(crate) fn decode(op: OpCode, input: &mut Reader) -> Result<Option<Self>, DecodeError> {
        Ok(Some(match op {
            OpCode::Create | OpCode::Create2 | OpCode::CreateContainer => Self::Create {
                op,
                request: CreateRequest::decode(input)?,
                ttl: -1,
            },
            OpCode::CreateTtl => Self::Create {
                op,
                request: CreateRequest::decode(input)?,
                ttl: input.i64()?,
            },
            OpCode::Delete => Self::Delete(PathVersionRequest::decode(input)?),
            OpCode::SetData => Self::SetData(SetDataRequest::decode(input)?),
            OpCode::SetAcl => Self::SetAcl(SetAclRequest::decode(input)?),
            OpCode::Check => Self::Check(PathVersionRequest::decode(input)?),
            OpCode::DeleteContainer => Self::DeleteContainer {
                path: Str::decode(input)?,
            },
            OpCode::Reconfig => Self::Reconfig(ReconfigRequest::decode(input)?),
            OpCode::Multi => Self::Multi(multi::decode_writes(input)?),
            OpCode::CloseSession => Self::CloseSession,
            _ => return Ok(None),
        }))
    }

    /// Appends the record of a separate request.
    pub(super) fn encode(&self, out: &mut Vec<u8>) -> Result<(), NotEncodable> {
        let op = self.op();
        if op.kind() == OpKind::Internal && op.in_multi() == InMulti::Write {
            return Err(NotEncodable { op });
        }
        self.encode_record(out)
    }

    /// Appends the record of a separate request, or of an operation in a multi.
    ///
    /// # Errors
    /// If the request is a multi that was refused during decoding.
    pub(crate) fn encode_record(&self, out: &mut Vec<u8>) -> Result<(), NotEncodable> {
        match self {
            Self::Create { op, request, ttl } => {
                request.encode(out);
                if *op == OpCode::CreateTtl {
                    ttl.encode(out);
                }
            }
            Self::Delete(request) | Self::Check(request) => request.encode(out),
            Self::SetData(request) => request.encode(out),
            Self::SetAcl(request) => request.encode(out),
            Self::DeleteContainer { path } => path.encode(out),
            Self::Reconfig(request) => request.encode(out),
            Self::Multi(Ok(writes)) => {
                for write in writes {
                    multi::encode_request(write, out);
                }
                MultiHeader::END.encode(out);
            }
            Self::Multi(Err(_)) => return Err(NotEncodable { op: self.op() }),
            Self::CreateSession { timeout_ms } => timeout_ms.encode(out),
            Self::CloseSession => {}
        }
        Ok(())
    }

    /// Returns the requested path; `None` if the path is null, or if the request does not have
    /// exactly one path.
    pub fn path(&self) -> Option<&Str> {
        match self {
            Self::Create { request, .. } => request.path.as_ref(),
            Self::Delete(request) | Self::Check(request) => request.path.as_ref(),
            Self::SetData(request) => request.path.as_ref(),
            Self::SetAcl(request) => request.path.as_ref(),
            Self::DeleteContainer { path } => Some(path),
            Self::Reconfig(_)
            | Self::Multi(_)
            | Self::CreateSession { .. }
            | Self::CloseSession => None,
        }
    }

    /// Returns a mutable reference to the requested path. See [`Self::path`].
    pub fn path_mut(&mut self) -> Option<&mut Str> {
        match self {
            Self::Create { request, .. } => request.path.as_mut(),
            Self::Delete(request) | Self::Check(request) => request.path.as_mut(),
            Self::SetData(request) => request.path.as_mut(),
            Self::SetAcl(request) => request.path.as_mut(),
            Self::DeleteContainer { path } => Some(path),
            Self::Reconfig(_)
            | Self::Multi(_)
            | Self::CreateSession { .. }
            | Self::CloseSession => None,
        }
    }
}
