//! What comes over a connection, decoded.

use std::collections::VecDeque;

use bytes::Bytes;
use jute::{Decode, Limits, Reader, Str};
use proto::connect::{AuthPacket, RequestHeader, SaslToken};
use proto::multi::MultiRead;
use proto::request::{ReadRequest, Request, SetWatchesRequest, WriteRequest};
use proto::{Hidden, OpCode, OpKind, Xid};
use tree::Tree;

use super::queue::{REPLIES_BEFORE_WRITE_BYTES, WaitingRead};

/// Entries of the longest list (multiRead, setWatches) that is not a read that takes long.
pub const LIST_SHORT: usize = 64;

/// One decoded frame, and what the host keeps with it until it is handled.
#[derive(Debug)]
pub struct Incoming<X> {
    /// Its number.
    pub xid: Xid,
    /// What it asks for.
    pub kind: RequestKind,
    /// The record as the client sent it, for a leader elsewhere; it shares the frame's memory.
    pub body: Bytes,
    /// Bytes of the frame.
    pub frame_bytes: usize,
    /// The host's.
    pub extra: X,
}

/// What a frame asks for.
#[derive(Debug)]
pub enum RequestKind {
    /// A transaction.
    Write(WriteRequest),
    /// A look at the tree.
    Read(OpCode, ReadRequest),
    /// A sync with the leader.
    Sync(Option<Str>),
    /// Something whose record does not decode.
    Undecodable(OpCode),
    /// Credentials.
    Auth(AuthPacket),
    /// A token of a SASL exchange.
    Sasl(Hidden<Bytes>),
    /// No operation.
    UnknownOp(i32),
}

/// Why a connection ends over a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameFault {
    /// The frame is too short for a request header.
    #[error("frame of {len} bytes is too short for a request header")]
    Header {
        /// Its length.
        len: usize,
    },
    /// Credentials or a SASL token that do not decode.
    #[error("the {op} packet does not decode")]
    Credentials {
        /// Which.
        op: &'static str,
    },
}

impl RequestKind {
    /// Whether the replica must answer it, in its place among all.
    pub fn waits_for_replica(&self) -> bool {
        matches!(self, Self::Write(_) | Self::Sync(_))
    }

    /// Whether it is to become a transaction.
    pub fn is_write(&self) -> bool {
        matches!(self, Self::Write(_))
    }

    /// The operation, for those that go through the queue.
    pub fn op(&self) -> Option<OpCode> {
        match self {
            Self::Write(request) => Some(request.op()),
            Self::Read(op, _) | Self::Undecodable(op) => Some(*op),
            Self::Sync(_) => Some(OpCode::Sync),
            Self::Auth(_) | Self::Sasl(_) | Self::UnknownOp(_) => None,
        }
    }
}

/// Decodes a frame without its length, behind those that wait to be handled; says whether it is a
/// write. A record that does not decode is a request that is refused.
///
/// Each move of a request is a copy of some hundred bytes: it is built where it waits.
///
/// # Errors
/// If the connection has to end.
pub fn decode_into<X>(
    incoming: &mut VecDeque<Incoming<X>>,
    frame: Bytes,
    field_limits: Limits,
    extra: X,
) -> Result<bool, FrameFault> {
    let len = frame.len();
    let mut input = Reader::with_limits(frame, field_limits);
    let header = RequestHeader::decode(&mut input).map_err(|_| FrameFault::Header { len })?;
    let body = input.clone().rest();
    let kind = match OpCode::from_i32(header.op) {
        Some(op) if op.kind() == OpKind::Connection => credentials(op, &mut input)?,
        Some(op) if op.kind() != OpKind::Internal => match Request::decode(op, &mut input) {
            Ok(Request::Write(request)) => RequestKind::Write(request),
            Ok(Request::Read(request)) => RequestKind::Read(op, request),
            Ok(Request::Sync(request)) => RequestKind::Sync(request.path),
            Err(error) => {
                tracing::debug!(op = op.name(), err = %error, "request does not decode");
                RequestKind::Undecodable(op)
            }
        },
        _ => RequestKind::UnknownOp(header.op),
    };
    let is_write = kind.is_write();
    incoming.push_back(Incoming {
        xid: header.xid,
        kind,
        body,
        frame_bytes: len,
        extra,
    });
    Ok(is_write)
}

fn credentials(op: OpCode, input: &mut Reader) -> Result<RequestKind, FrameFault> {
    let fault = FrameFault::Credentials { op: op.name() };
    if op == OpCode::Auth {
        let packet = AuthPacket::decode(input);
        return packet.map(RequestKind::Auth).map_err(|_| fault);
    }
    let token = SaslToken::decode(input).map_err(|_| fault)?;
    let token = token.token.into_exposed();
    let token = token.map(Hidden::from);
    token.map(RequestKind::Sasl).ok_or(fault)
}

/// Whether a read may take long: some walk all that is below a znode, others bring a list.
pub(super) fn is_slow(tree: &Tree, request: &ReadRequest) -> bool {
    match request {
        ReadRequest::GetAllChildrenNumber(_) | ReadRequest::GetEphemerals(_) => true,
        ReadRequest::GetChildren(_) | ReadRequest::GetChildren2(_) => {
            tree.expected_bytes(request) > REPLIES_BEFORE_WRITE_BYTES
        }
        ReadRequest::MultiRead(MultiRead::Reads(reads)) => reads.len() > LIST_SHORT,
        ReadRequest::SetWatches(request) => {
            let SetWatchesRequest {
                data,
                exist,
                child,
                persistent,
                persistent_recursive,
                ..
            } = request;
            let lists = [data, exist, child, persistent, persistent_recursive];
            let count = |list: &Option<Vec<_>>| list.as_ref().map_or(0, Vec::len);
            lists.into_iter().map(count).sum::<usize>() > LIST_SHORT
        }
        _ => false,
    }
}

/// Whether a read is a list, which takes a multiple of its frame when it is decoded.
fn is_list(request: &ReadRequest) -> bool {
    matches!(
        request,
        ReadRequest::MultiRead(_) | ReadRequest::SetWatches(_)
    )
}

impl WaitingRead {
    /// `body` is the record as it came.
    pub(super) fn new(op: OpCode, request: ReadRequest, body: Bytes) -> Self {
        match is_list(&request) {
            true => Self::Encoded(op, body),
            false => Self::Decoded(request),
        }
    }
}

/// A read that waited as it came. It has been decoded before, so it does decode.
pub(super) fn decode_again(op: OpCode, body: &Bytes, limits: Limits) -> Option<ReadRequest> {
    let mut input = Reader::with_limits(body.clone(), limits);
    match Request::decode(op, &mut input) {
        Ok(Request::Read(request)) => Some(request),
        _ => None,
    }
}
