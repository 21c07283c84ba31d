//! The operations multi and multiRead: operations in one request, and results in one reply.

use jute::{Decode, DecodeError, DecodeRecord, Encode, EncodeRecord, Reader};

use super::op::InMulti;
use super::request::read::ReadRequest;
use super::request::records::flags;
use super::request::write::WriteRequest;
use crate::data::RequestAcl;
use crate::{ErrorCode, OpCode};

/// Header of each operation and result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct MultiHeader {
    /// Opcode; -1 for an error result and at the end.
    pub op: i32,
    /// Whether this header is the end of the list.
    pub done: bool,
    /// Error code: -1 in requests and at the end, otherwise the code of the result.
    pub err: i32,
}

impl MultiHeader {
    /// Length on the wire, bytes.
    pub const BYTES: usize = 9;

    /// Header that ends the list.
    pub const END: Self = Self {
        op: -1,
        done: true,
        err: -1,
    };

    /// Creates the header of a requested operation.
    pub fn request(op: OpCode) -> Self {
        Self {
            op: op.number(),
            done: false,
            err: -1,
        }
    }

    /// Creates the header of a successful result.
    pub fn result(op: OpCode) -> Self {
        Self {
            op: op.number(),
            done: false,
            err: 0,
        }
    }
}

/// Appends an error result. Both the header and the body contain the code.
pub fn encode_error_result(code: ErrorCode, out: &mut Vec<u8>) {
    MultiHeader {
        op: OpCode::Error.number(),
        done: false,
        err: code.code(),
    }
    .encode(out);
    code.code().encode(out);
}

/// Reason why a whole multi is refused. The reply is MarshallingError without a body, and the
/// refusal uses a zxid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MultiFault {
    /// The bytes end early, a length is wrong, or the end is missing.
    #[error("cannot decode the bytes of the multi")]
    Undecodable,
    /// An operation is not allowed in a multi, or is a read (alone or mixed with writes).
    #[error("operation {0} cannot be in a multi")]
    Operation(i32),
    /// A create has a mode that its opcode does not support.
    #[error("unknown create mode {0}")]
    CreateMode(i32),
    /// An operation has a null path.
    #[error("an operation of the multi has a null path")]
    NullPath,
}

/// A decoded multiRead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MultiRead {
    /// Reads, only getData and getChildren. May be empty.
    Reads(Vec<ReadRequest>),
    /// Only writes. They can be decoded but are refused with a reply body without results.
    Writes,
}

/// Decodes the operations of a multi.
///
/// Null paths and reads are checked last, so they are reported only if all operations can be
/// decoded.
///
/// # Errors
/// The outer error is returned for a create with a null ACL list. It is the only error that does
/// not use a zxid. Source: MultiOperationRecord.deserialize.
pub fn decode_writes(
    input: &mut Reader,
) -> Result<Result<Vec<WriteRequest>, MultiFault>, DecodeError> {
    let mut operations = Operations::default();
    loop {
        match operations.decode_next(input) {
            Ok(true) => {}
            Ok(false) => break,
            Err(Refusal::NullAcl { offset }) => return Err(DecodeError::Null { offset }),
            Err(Refusal::Undecodable(_)) => return Ok(Err(MultiFault::Undecodable)),
            Err(Refusal::Operation(op)) => return Ok(Err(MultiFault::Operation(op))),
            Err(Refusal::CreateMode(mode)) => return Ok(Err(MultiFault::CreateMode(mode))),
        }
    }
    if let Some(read) = operations.reads.first() {
        return Ok(Err(MultiFault::Operation(read.op().number())));
    }
    let has_null_path = operations.writes.iter().any(|write| write.path().is_none());
    Ok(if has_null_path {
        Err(MultiFault::NullPath)
    } else {
        Ok(operations.writes)
    })
}

/// Operations of a multi or a multiRead, which are either all writes or all reads.
#[derive(Default)]
struct Operations {
    writes: Vec<WriteRequest>,
    reads: Vec<ReadRequest>,
}

/// Reason why the next operation cannot be decoded.
enum Refusal {
    /// A create without an ACL list.
    NullAcl {
        /// Offset of the operation.
        offset: usize,
    },
    /// The bytes of the operation cannot be decoded.
    Undecodable(DecodeError),
    /// The operation is not allowed.
    Operation(i32),
    /// A create has a mode that its opcode does not support.
    CreateMode(i32),
}

impl From<DecodeError> for Refusal {
    fn from(error: DecodeError) -> Self {
        Self::Undecodable(error)
    }
}

impl From<Refusal> for DecodeError {
    fn from(refusal: Refusal) -> Self {
        let value = |what, value: i32| Self::Value {
            what,
            value: value.into(),
        };
        match refusal {
            Refusal::NullAcl { offset } => Self::Null { offset },
            Refusal::Undecodable(error) => error,
            Refusal::Operation(op) => value("multi operation", op),
            Refusal::CreateMode(mode) => value("create mode", mode),
        }
    }
}

impl Operations {
    /// Decodes the next operation. Returns `false` at the end.
    fn decode_next(&mut self, input: &mut Reader) -> Result<bool, Refusal> {
        let offset = input.position();
        let header = MultiHeader::decode(input)?;
        if header.done {
            return Ok(false);
        }
        let refusal = || Refusal::Operation(header.op);
        let op = OpCode::from_i32(header.op).ok_or_else(refusal)?;
        match op.in_multi() {
            InMulti::Read => {
                let read = ReadRequest::decode(op, input)?;
                self.reads.push(read.ok_or_else(refusal)?);
            }
            InMulti::Write => {
                let write = WriteRequest::decode(op, input)?.ok_or_else(refusal)?;
                check_create(&write, offset)?;
                self.writes.push(write);
            }
            InMulti::No => return Err(refusal()),
        }
        if self.reads.is_empty() || self.writes.is_empty() {
            Ok(true)
        } else {
            Err(Refusal::Operation(header.op))
        }
    }
}

/// Performs the checks of Java's Op.Create, in Java's order. A createTTL is checked later, together
/// with its TTL.
fn check_create(write: &WriteRequest, offset: usize) -> Result<(), Refusal> {
    let WriteRequest::Create { op, request, .. } = write else {
        return Ok(());
    };
    let flags = request.flags;
    if *op == OpCode::CreateTtl {
        return Ok(());
    }
    let unknown_mode = Err(Refusal::CreateMode(flags));
    if !(flags::PERSISTENT..=flags::TTL_SEQUENTIAL).contains(&flags) {
        return unknown_mode;
    }
    if request.acl.is_none() {
        return Err(Refusal::NullAcl { offset });
    }
    match flags {
        flags::TTL | flags::TTL_SEQUENTIAL => unknown_mode,
        _ => Ok(()),
    }
}

/// Decodes the operations of a multiRead.
///
/// # Errors
/// If the bytes cannot be decoded, if reads and writes are mixed, or if an operation is not allowed
/// in a multi and is not getData or getChildren. Source: MultiOperationRecord.deserialize.
pub fn decode_reads(input: &mut Reader) -> Result<MultiRead, DecodeError> {
    let mut operations = Operations::default();
    while operations.decode_next(input)? {}
    Ok(if operations.writes.is_empty() {
        MultiRead::Reads(operations.reads)
    } else {
        MultiRead::Writes
    })
}

/// Appends `write` with its header, as a client sends it.
///
/// # Panics
/// If a multi cannot contain the operation.
pub fn encode_request(write: &WriteRequest, out: &mut Vec<u8>) {
    let op = write.op();
    MultiHeader::request(op).encode(out);
    let is_encoded = op.in_multi() == InMulti::Write && write.encode_record(out).is_ok();
    assert!(is_encoded, "{} cannot be in a multi", op.name());
}

/// Converts an ACL list to the form in a [`crate::request::CreateRequest`].
pub fn request_acl(acl: impl IntoIterator<Item = crate::Acl>) -> Option<Vec<RequestAcl>> {
    Some(acl.into_iter().map(RequestAcl::from).collect())
}
