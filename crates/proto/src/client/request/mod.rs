//! Decoded requests from clients, grouped by how they are served.

pub(super) mod read;
pub(super) mod records;
pub(super) mod write;

use jute::{Decode, DecodeError, Encode, Reader};

use crate::{OpCode, OpKind};

pub use read::ReadRequest;
pub use records::{
    CreateRequest, NotEncodable, PathModeRequest, PathRequest, PathVersionRequest,
    PathWatchRequest, ReconfigRequest, SetAclRequest, SetDataRequest, SetWatchesRequest, flags,
};
pub use write::WriteRequest;

/// A decoded request, by its treatment in a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// A write, which becomes a transaction.
    Write(WriteRequest),
    /// A read, which this server answers.
    Read(ReadRequest),
    /// A sync, which is ordered with the writes but does not become a transaction.
    Sync(PathRequest),
}

impl Request {
    /// Decodes the record of `op`. Additional bytes are ignored.
    ///
    /// # Errors
    /// If the record cannot be decoded. The reply is then MarshallingError, and no zxid is used.
    ///
    /// Opcodes that are not requests of a client (error, createSession, check, auth, sasl) cause a
    /// `Value` error. The caller distinguishes them with [`OpCode::kind`].
    pub fn decode(op: OpCode, input: &mut Reader) -> Result<Self, DecodeError> {
        let request = match op.kind() {
            OpKind::Write => WriteRequest::decode(op, input)?.map(Self::Write),
            OpKind::Read => ReadRequest::decode(op, input)?.map(Self::Read),
            OpKind::Sync => Some(Self::Sync(PathRequest::decode(input)?)),
            OpKind::Connection | OpKind::Internal => None,
        };
        request.ok_or(DecodeError::Value {
            what: "opcode",
            value: op.number().into(),
        })
    }

    /// Decodes the record of a request that a learner forwards to its leader, which is a client's
    /// request or createSession.
    ///
    /// # Errors
    /// If the record cannot be decoded, or if `op` cannot be forwarded.
    pub fn decode_forwarded(op: OpCode, input: &mut Reader) -> Result<Self, DecodeError> {
        match op {
            OpCode::CreateSession => input
                .i32()
                .map(|timeout_ms| Self::Write(WriteRequest::CreateSession { timeout_ms })),
            op => Self::decode(op, input),
        }
    }

    /// Returns the opcode. It is setWatches2 only if setWatches does not suffice.
    pub fn op(&self) -> OpCode {
        match self {
            Self::Write(write) => write.op(),
            Self::Read(read) => read.op(),
            Self::Sync(_) => OpCode::Sync,
        }
    }

    /// Appends the record that follows the request's header.
    ///
    /// # Errors
    /// If the request cannot be encoded (see [`NotEncodable`]). Nothing is then appended.
    ///
    /// # Panics
    /// If a multi contains an operation that [`crate::multi::encode_request`] does not accept.
    /// Decoding never produces such a multi.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), NotEncodable> {
        match self {
            Self::Write(write) => write.encode(out),
            Self::Read(read) => read.encode(out),
            Self::Sync(request) => {
                request.encode(out);
                Ok(())
            }
        }
    }
}
