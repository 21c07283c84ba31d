//! Decoding of a connection's frames.

use std::collections::VecDeque;

use bytes::Bytes;
use jute::{Decode, Limits, Reader, Str};
use proto::connect::{AuthPacket, RequestHeader, SaslToken};
use proto::multi::MultiRead;
use proto::request::{ReadRequest, Request, SetWatchesRequest, WriteRequest};
use proto::{Hidden, OpCode, OpKind, Xid};
use tree::Tree;

use super::queue::{REPLIES_BEFORE_WRITE_BYTES, WaitingRead};

/// Maximum number of entries for which a list (multiRead, setWatches) is not a slow read.
pub const LIST_SHORT: usize = 64;

/// A decoded frame, with the host's data until it is handled.
#[derive(Debug)]
pub struct Incoming<X> {
    /// The client's number of the request.
    pub xid: Xid,
    /// The decoded request.
    pub kind: RequestKind,
    /// The record as the client sent it, for a remote leader. It shares the frame's memory.
    pub body: Bytes,
    /// Size of the frame, bytes.
    pub frame_bytes: usize,
    /// The host's data.
    pub extra: X,
}

/// Kind of a request.
#[derive(Debug)]
pub enum RequestKind {
    /// A transaction.
    Write(WriteRequest),
    /// A read of the tree.
    Read(OpCode, ReadRequest),
    /// A sync with the leader.
    Sync(Option<Str>),
    /// A request whose record does not decode.
    Undecodable(OpCode),
    /// Credentials.
    Auth(AuthPacket),
    /// A token of a SASL exchange.
    Sasl(Hidden<Bytes>),
    /// An unknown operation.
    UnknownOp(i32),
}

/// Reason why a frame ends its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameFault {
    /// The frame is too short for a request header.
    #[error("frame of {len} bytes is too short for a request header")]
    Header {
        /// Length of the frame.
        len: usize,
    },
    /// Credentials or a SASL token that do not decode.
    #[error("cannot decode the {op} packet")]
    Credentials {
        /// The kind of packet.
        op: &'static str,
    },
}

impl RequestKind {
    /// Returns whether the replica must order it.
    pub fn waits_for_replica(&self) -> bool {
        matches!(self, Self::Write(_) | Self::Sync(_))
    }

    /// Returns whether the request is to become a transaction.
    pub fn is_write(&self) -> bool {
        matches!(self, Self::Write(_))
    }

    /// Returns the operation, for requests that go through the queue.
    pub fn op(&self) -> Option<OpCode> {
        match self {
            Self::Write(request) => Some(request.op()),
            Self::Read(op, _) | Self::Undecodable(op) => Some(*op),
            Self::Sync(_) => Some(OpCode::Sync),
            Self::Auth(_) | Self::Sasl(_) | Self::UnknownOp(_) => None,
        }
    }
}

/// Decodes a frame without its length field, and appends it to `incoming`. Returns whether it is a
/// write. A record that does not decode becomes a request that is refused.
///
/// It builds the request in place, because each move would copy some hundred bytes.
///
/// # Errors
/// If the frame must end the connection: it is too short for a header, or its credentials or token
/// do not decode.
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
                tracing::debug!(op = op.name(), err = %error, "cannot decode a request");
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

/// Returns whether a read may take long. Some walk a whole subtree, others contain a list.
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

/// Returns whether a read is a list. A decoded list needs a multiple of its frame's memory.
fn is_list(request: &ReadRequest) -> bool {
    matches!(
        request,
        ReadRequest::MultiRead(_) | ReadRequest::SetWatches(_)
    )
}

impl WaitingRead {
    /// Creates the waiting form of a read. `body` is the undecoded record.
    pub(super) fn new(op: OpCode, request: ReadRequest, body: Bytes) -> Self {
        if is_list(&request) {
            Self::Encoded(op, body)
        } else {
            Self::Decoded(request)
        }
    }
}

/// Decodes a waiting read again. It was decoded before, so this succeeds.
pub(super) fn decode_again(op: OpCode, body: &Bytes, limits: Limits) -> Option<ReadRequest> {
    let mut input = Reader::with_limits(body.clone(), limits);
    match Request::decode(op, &mut input) {
        Ok(Request::Read(request)) => Some(request),
        _ => None,
    }
}
