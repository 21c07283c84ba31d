//! From the bytes of a socket to batches of decoded requests.

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};
use jute::{Decode, Limits, Reader};
use proto::connect::{AuthPacket, RequestHeader, SaslToken};
use proto::request::{ReadRequest, Request, WriteRequest};
use proto::{OpCode, OpKind, Xid};

use super::large::{LargeRequest, LargeRequests, TooMuch};
use super::room::Room;
use super::task::Socket;
use crate::client::clients::Clients;
use crate::client::settings::Settings;
use crate::limits;

/// One decoded frame.
pub(crate) struct Parsed {
    pub(super) xid: Xid,
    pub(super) kind: Kind,
    /// The record as the client sent it, for a leader elsewhere; it shares the frame's memory.
    pub(super) body: Bytes,
    pub(super) large: Option<LargeRequest>,
    /// For the frame, if it is long.
    pub(super) frame_room: Option<Room>,
    pub(super) frame_bytes: usize,
}

pub(super) enum Kind {
    Write(WriteRequest),
    Read(OpCode, ReadRequest),
    Sync(Option<jute::Str>),
    Undecodable(OpCode),
    Auth(AuthPacket),
    /// A token of a SASL exchange.
    Sasl(Bytes),
    UnknownOp(i32),
}

/// Requests decoded from one read of the socket, in order.
#[derive(Default)]
pub(crate) struct Batch {
    pub(super) requests: VecDeque<Parsed>,
    /// How many of them need a permit of the pipeline.
    pub(crate) writes: usize,
    /// How many permits are taken for them.
    pub(crate) permits: usize,
    /// Whether they waited so long for their place that they are refused.
    pub(crate) is_late: bool,
    /// Bytes of their frames, prefix included.
    pub(crate) bytes: usize,
    /// Bytes of the frame behind them, if there was no room for it.
    pub(crate) waits_for_room: Option<usize>,
    /// Whether the connection must close once they are answered: the bytes behind them are no
    /// frame.
    pub(crate) broken: Option<FrameFault>,
}

/// Why the bytes of a connection make no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameFault {
    /// The length is negative or above `jute.maxbuffer`.
    #[error("frame length {len} is not between 0 and {limit} (jute.maxbuffer)")]
    Length { len: i32, limit: usize },
    /// The frame is too short for a request header.
    #[error("frame of {len} bytes is too short for a request header")]
    Header { len: usize },
    /// `largeRequestMaxBytes` of large requests are under way.
    #[error("no room for a large request of {len} bytes (largeRequestMaxBytes)")]
    TooMuch { len: usize },
    /// Credentials or a SASL token that do not decode.
    #[error("the {op} packet does not decode")]
    Credentials { op: &'static str },
}

impl Kind {
    /// Whether the core must answer it, in its place among all.
    pub(super) fn waits_for_core(&self) -> bool {
        matches!(self, Self::Write(_) | Self::Sync(_))
    }

    /// The operation, for those that go through the queue.
    pub(super) fn op(&self) -> Option<OpCode> {
        match self {
            Self::Write(request) => Some(request.op()),
            Self::Read(op, _) | Self::Undecodable(op) => Some(*op),
            Self::Sync(_) => Some(OpCode::Sync),
            Self::Auth(_) | Self::Sasl(_) | Self::UnknownOp(_) => None,
        }
    }
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.broken.is_none()
    }
}

/// Bytes of the next frame's body, `None` if some of them are missing.
fn frame_len(input: &BytesMut, limit: usize) -> Result<Option<usize>, FrameFault> {
    let Some(prefix) = input.first_chunk::<4>() else {
        return Ok(None);
    };
    let len = i32::from_be_bytes(*prefix);
    let body = usize::try_from(len).ok().filter(|body| *body <= limit);
    let Some(body) = body else {
        return Err(FrameFault::Length { len, limit });
    };
    Ok((input.len() - 4 >= body).then_some(body))
}

/// Splits the next frame off `input`: its body without the length, `None` if bytes are missing.
pub(crate) fn split_frame(input: &mut BytesMut, limit: usize) -> Result<Option<Bytes>, FrameFault> {
    let Some(body) = frame_len(input, limit)? else {
        return Ok(None);
    };
    input.advance(4);
    Ok(Some(input.split_to(body).freeze()))
}

/// Bytes of the frame that `input` begins with, its length included, if it is long, sound, and some
/// of them are missing.
pub(crate) fn long_frame_bytes(input: &BytesMut, limit: usize) -> Option<usize> {
    let prefix = input.first_chunk::<4>()?;
    let body = usize::try_from(i32::from_be_bytes(*prefix)).ok()?;
    let is_long = body > limits::FRAME_BYTES_SMALL && body <= limit;
    (is_long && input.len() < body + 4).then_some(body + 4)
}

/// Decodes the complete frames of the socket's input, at most a batch of them, and none for which
/// there is no room. For the first there may be `room` already.
pub(crate) fn decode_batch<S>(
    clients: &Clients,
    socket: &mut Socket<S>,
    mut room: Option<Room>,
) -> Batch {
    let input = &mut socket.input;
    let Settings {
        jute_max_buffer,
        field_limits,
        batch_requests_max,
        ..
    } = clients.settings;
    let mut batch = Batch::default();
    while batch.requests.len() < batch_requests_max {
        let len = match frame_len(input, jute_max_buffer) {
            Ok(Some(len)) => len,
            Ok(None) => break,
            Err(fault) => {
                batch.broken = Some(fault);
                break;
            }
        };
        let mut room = room.take();
        if LargeRequests::need_room(len) && room.is_none() {
            room = clients.large_requests.room.take_now(len);
            if room.is_none() {
                batch.waits_for_room = Some(len);
                break;
            }
        }
        input.advance(4);
        let frame = input.split_to(len).freeze();
        batch.bytes += len + 4;
        let large = clients.large_requests.admit(len, room);
        let parsed = match large {
            Ok(large) => decode(frame, field_limits, large).map(|parsed| Parsed {
                // It was taken for the frame that came first.
                frame_room: socket.frame_room.take().map(|(room, _)| room),
                ..parsed
            }),
            Err(TooMuch) => {
                clients.metrics.large_requests_rejected.inc();
                Err(FrameFault::TooMuch { len })
            }
        };
        match parsed {
            Ok(parsed) => {
                batch.writes += usize::from(matches!(parsed.kind, Kind::Write(_)));
                if batch.requests.is_empty() {
                    // What comes together is mostly of one kind and length.
                    let alike = 1 + input.len() / (len + 4);
                    let room = alike.min(batch_requests_max);
                    batch.requests.reserve_exact(room);
                }
                batch.requests.push_back(parsed);
            }
            Err(fault) => {
                batch.broken = Some(fault);
                break;
            }
        }
    }
    batch
}

fn decode(
    frame: Bytes,
    field_limits: Limits,
    large: Option<LargeRequest>,
) -> Result<Parsed, FrameFault> {
    let len = frame.len();
    let mut input = Reader::with_limits(frame, field_limits);
    let header = RequestHeader::decode(&mut input).map_err(|_| FrameFault::Header { len })?;
    let body = input.clone().rest();
    let kind = match OpCode::from_i32(header.op) {
        Some(op) if op.kind() == OpKind::Connection => credentials(op, &mut input)?,
        Some(op) if op.kind() != OpKind::Internal => match Request::decode(op, &mut input) {
            Ok(Request::Write(request)) => Kind::Write(request),
            Ok(Request::Read(request)) => Kind::Read(op, request),
            Ok(Request::Sync(request)) => Kind::Sync(request.path),
            Err(error) => {
                tracing::debug!(op = op.name(), err = %error, "request does not decode");
                Kind::Undecodable(op)
            }
        },
        _ => Kind::UnknownOp(header.op),
    };
    Ok(Parsed {
        xid: header.xid,
        kind,
        body,
        large,
        frame_room: None,
        frame_bytes: len,
    })
}

fn credentials(op: OpCode, input: &mut Reader) -> Result<Kind, FrameFault> {
    let fault = FrameFault::Credentials { op: op.name() };
    if op == OpCode::Auth {
        return AuthPacket::decode(input).map(Kind::Auth).map_err(|_| fault);
    }
    let token = SaslToken::decode(input).map_err(|_| fault)?;
    token.token.map(Kind::Sasl).ok_or(fault)
}
