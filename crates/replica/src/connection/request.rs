//! Decoding of a connection's frames into requests.

use std::collections::VecDeque;

use bytes::Bytes;
use jute::{Decode, Limits, Reader, Str};
use proto::connect::{AuthPacket, RequestHeader, SaslToken};
use proto::multi::MultiRead;
use proto::request::{ReadRequest, Request, SetWatchesRequest, WriteRequest};
use proto::{Hidden, OpCode, OpKind, Xid};
use tree::Tree;

use super::queue::{REPLIES_BEFORE_WRITE_BYTES, WaitingRead};

/// Maximum number of entries in a list (multiRead, setWatches) that is not a slow read.
pub const LIST_SHORT: usize = 64;

/// A decoded frame, and the host's data until the request is handled.
#[derive(Debug)]
pub struct IncomingRequest<X> {
    /// Number that the client gave the request.
    pub xid: Xid,
    /// Decoded request.
    pub kind: RequestKind,
    /// The record as the client sent it, to be forwarded to a remote leader. It shares the frame's
    /// memory.
    pub body: Bytes,
    /// Size of the frame, bytes.
    pub frame_bytes: usize,
    /// Data that the host keeps with the request.
    pub extra: X,
}

/// Kind of request.
#[derive(Debug)]
pub enum RequestKind {
    /// A transaction.
    Write(WriteRequest),
    /// A read of the tree.
    Read(OpCode, ReadRequest),
    /// A sync with the leader.
    Sync(Option<Str>),
    /// A request whose record cannot be decoded.
    Undecodable(OpCode),
    /// Credentials for a scheme.
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
        /// Length of the frame, bytes.
        len: usize,
    },
    /// Credentials or a SASL token that cannot be decoded.
    #[error("cannot decode the {op} packet")]
    Credentials {
        /// Kind of packet.
        op: &'static str,
    },
}

impl RequestKind {
    /// Returns whether the replica must order the request.
    pub fn waits_for_replica(&self) -> bool {
        matches!(self, Self::Write(_) | Self::Sync(_))
    }

    /// Returns whether the request must become a transaction.
    pub fn is_write(&self) -> bool {
        matches!(self, Self::Write(_))
    }

    /// Returns the operation, or `None` for an auth, SASL or unknown request.
    pub fn op(&self) -> Option<OpCode> {
        match self {
            Self::Write(request) => Some(request.op()),
            Self::Read(op, _) | Self::Undecodable(op) => Some(*op),
            Self::Sync(_) => Some(OpCode::Sync),
            Self::Auth(_) | Self::Sasl(_) | Self::UnknownOp(_) => None,
        }
    }
}

/// Decodes a frame without its length field, and appends the request to `incoming`. Returns whether
/// the request is a write. A record that cannot be decoded becomes a request that is refused.
///
/// The request is built in place, because each move would copy several hundred bytes.
///
/// # Errors
/// If the frame must end the connection: it is too short for a header, or its credentials or token
/// cannot be decoded.
pub fn decode_into<X>(
    incoming: &mut VecDeque<IncomingRequest<X>>,
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
    incoming.push_back(IncomingRequest {
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

/// Returns whether a read may take long, because it walks a whole subtree, returns many children or
/// contains a long list.
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

/// Returns whether a read contains a list. A decoded list needs several times the memory of its
/// frame.
fn is_list(request: &ReadRequest) -> bool {
    matches!(
        request,
        ReadRequest::MultiRead(_) | ReadRequest::SetWatches(_)
    )
}

impl WaitingRead {
    /// Creates the form in which a read waits. `body` is the undecoded record.
    pub(super) fn new(op: OpCode, request: ReadRequest, body: Bytes) -> Self {
        if is_list(&request) {
            Self::Encoded(op, body)
        } else {
            Self::Decoded(request)
        }
    }
}

/// Decodes a waiting read again. This succeeds because it was decoded before.
pub(super) fn decode_again(op: OpCode, body: &Bytes, limits: Limits) -> Option<ReadRequest> {
    let mut input = Reader::with_limits(body.clone(), limits);
    match Request::decode(op, &mut input) {
        Ok(Request::Read(request)) => Some(request),
        _ => None,
    }
}
