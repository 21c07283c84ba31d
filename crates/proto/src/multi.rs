//! multi and multiRead: operations in one request, results in one reply.

use jute::{Decode, DecodeError, DecodeRecord, Encode, EncodeRecord, Reader};

use crate::data::RequestAcl;
use crate::request::{
    CreateRequest, PathVersionRequest, PathWatchRequest, ReadRequest, SetDataRequest, WriteRequest,
    flags,
};
use crate::{ErrorCode, OpCode};

/// In front of every operation and result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct MultiHeader {
    /// The opcode; -1 for an error result and at the end.
    pub op: i32,
    /// Whether this is the end.
    pub done: bool,
    /// -1 in requests and at the end, else the result's code.
    pub err: i32,
}

impl MultiHeader {
    /// The end of the list.
    pub const END: Self = Self {
        op: -1,
        done: true,
        err: -1,
    };

    /// In front of an operation that is asked for.
    pub fn request(op: OpCode) -> Self {
        Self {
            op: op.number(),
            done: false,
            err: -1,
        }
    }

    /// In front of a successful result.
    pub fn result(op: OpCode) -> Self {
        Self {
            op: op.number(),
            done: false,
            err: 0,
        }
    }
}

/// Appends an error result: the code stands in the header and again behind it.
pub fn encode_error_result(code: ErrorCode, out: &mut Vec<u8>) {
    MultiHeader {
        op: OpCode::Error.number(),
        done: false,
        err: code.code(),
    }
    .encode(out);
    code.code().encode(out);
}

/// Why a multi is refused whole. The reply is MarshallingError without a body and uses a zxid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MultiFault {
    /// The bytes end early, a length is off, or the end is missing.
    #[error("the multi's bytes do not decode")]
    Undecodable,
    /// An operation that a multi cannot hold, or reads (alone or mixed with writes).
    #[error("operation {0} cannot be in a multi")]
    Operation(i32),
    /// A create with a mode that its opcode does not have.
    #[error("create mode {0} is not known")]
    CreateMode(i32),
    /// A null path.
    #[error("an operation of the multi has a null path")]
    NullPath,
}

/// A decoded multiRead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MultiRead {
    /// getData and getChildren only; may be empty.
    Reads(Vec<ReadRequest>),
    /// Decodes, but holds writes only: refused with a body of no results.
    Writes,
}

/// Reads the operations of a multi.
///
/// # Errors
/// The outer error is the one fault that uses no zxid: a create with a null ACL list.
/// Source: client-protocol.md 3.5.
pub fn decode_writes(
    input: &mut Reader,
) -> Result<Result<Vec<WriteRequest>, MultiFault>, DecodeError> {
    let mut writes = Vec::new();
    loop {
        let offset = input.position();
        match next_write(input) {
            Ok(None) => return Ok(Ok(writes)),
            Ok(Some(write)) if has_null_acl(&write) => return Err(DecodeError::Null { offset }),
            Ok(Some(write)) => match fault_of(&write) {
                None => writes.push(write),
                Some(fault) => return Ok(Err(fault)),
            },
            Err(fault) => return Ok(Err(fault)),
        }
    }
}

fn next_write(input: &mut Reader) -> Result<Option<WriteRequest>, MultiFault> {
    let header = MultiHeader::decode(input).map_err(|_| MultiFault::Undecodable)?;
    if header.done {
        return Ok(None);
    }
    decode_write(header.op, input)
        .map_err(|_| MultiFault::Undecodable)?
        .ok_or(MultiFault::Operation(header.op))
        .map(Some)
}

fn decode_write(op: i32, input: &mut Reader) -> Result<Option<WriteRequest>, DecodeError> {
    Ok(match OpCode::from_i32(op) {
        Some(op @ (OpCode::Create | OpCode::Create2 | OpCode::CreateContainer)) => {
            Some(WriteRequest::Create {
                op,
                request: CreateRequest::decode(input)?,
                ttl: -1,
            })
        }
        Some(op @ OpCode::CreateTtl) => {
            let request = CreateRequest::decode(input)?;
            Some(WriteRequest::Create {
                op,
                request,
                ttl: input.i64()?,
            })
        }
        Some(OpCode::Delete) => Some(WriteRequest::Delete(PathVersionRequest::decode(input)?)),
        Some(OpCode::SetData) => Some(WriteRequest::SetData(SetDataRequest::decode(input)?)),
        Some(OpCode::Check) => Some(WriteRequest::Check(PathVersionRequest::decode(input)?)),
        _ => None,
    })
}

fn has_null_acl(write: &WriteRequest) -> bool {
    matches!(write, WriteRequest::Create { op, request: CreateRequest { acl: None, .. }, .. }
        if *op != OpCode::CreateTtl)
}

/// Faults of an operation that decodes but refuses the whole multi.
fn fault_of(write: &WriteRequest) -> Option<MultiFault> {
    let path = match write {
        WriteRequest::Create { op, request, .. } => {
            let known = flags::PERSISTENT..=flags::CONTAINER;
            if *op != OpCode::CreateTtl && !known.contains(&request.flags) {
                return Some(MultiFault::CreateMode(request.flags));
            }
            &request.path
        }
        WriteRequest::Delete(request) | WriteRequest::Check(request) => &request.path,
        WriteRequest::SetData(request) => &request.path,
        _ => return None,
    };
    path.is_none().then_some(MultiFault::NullPath)
}

/// Reads the operations of a multiRead.
///
/// # Errors
/// If the bytes do not decode, reads and writes are mixed, or an operation is neither getData,
/// getChildren nor one that a multi can hold. Source: client-protocol.md 3.5.
pub fn decode_reads(input: &mut Reader) -> Result<MultiRead, DecodeError> {
    let mut reads = Vec::new();
    let mut has_writes = false;
    loop {
        let header = MultiHeader::decode(input)?;
        if header.done {
            let only_writes = has_writes.then_some(MultiRead::Writes);
            return Ok(only_writes.unwrap_or(MultiRead::Reads(reads)));
        }
        match OpCode::from_i32(header.op) {
            Some(OpCode::GetData) => {
                reads.push(ReadRequest::GetData(PathWatchRequest::decode(input)?));
            }
            Some(OpCode::GetChildren) => {
                reads.push(ReadRequest::GetChildren(PathWatchRequest::decode(input)?));
            }
            _ => match decode_write(header.op, input)? {
                Some(_) => has_writes = true,
                None => return Err(unknown(header.op)),
            },
        }
        if has_writes && !reads.is_empty() {
            return Err(unknown(header.op));
        }
    }
}

fn unknown(op: i32) -> DecodeError {
    DecodeError::Value {
        what: "multi operation",
        value: op.into(),
    }
}

/// Appends `write` with its header, as a client does.
///
/// # Panics
/// If it is not one of create*, delete, setData and check.
pub fn encode_request(write: &WriteRequest, out: &mut Vec<u8>) {
    MultiHeader::request(write.op()).encode(out);
    match write {
        WriteRequest::Create { op, request, ttl } => {
            request.encode(out);
            if *op == OpCode::CreateTtl {
                ttl.encode(out);
            }
        }
        WriteRequest::Delete(request) | WriteRequest::Check(request) => request.encode(out),
        WriteRequest::SetData(request) => request.encode(out),
        other => panic!("{} cannot be in a multi", other.op().name()),
    }
}

/// An ACL list as [`CreateRequest`] takes it.
pub fn request_acl(acl: impl IntoIterator<Item = crate::Acl>) -> Option<Vec<RequestAcl>> {
    Some(acl.into_iter().map(RequestAcl::from).collect())
}
