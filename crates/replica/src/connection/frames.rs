//! Encoding of handshake responses, replies and events.

use bytes::Bytes;
use jute::{Encode, Str};
use proto::connect::{ConnectResponse, ReplyHeader};
use proto::watch::{EventType, STATE_SYNC_CONNECTED, WatcherEvent};
use proto::{ErrorCode, SessionId, Xid, Zxid};

use crate::session::Passwords;

/// Maximum size of a reply, bytes: its length field has 31 bits.
pub const REPLY_BYTES_MAX: usize = (1 << 31) - 1;

/// Size of a handshake response with the read-only byte, including its length field, bytes.
pub const CONNECT_RESPONSE_BYTES: usize = 41;

/// Capacity of an outbox after its first frame, bytes: enough for a few small replies.
const OUTBOX_BYTES_START: usize = 2 << 10;

/// Appends the server's half of the handshake. `session` is `None` if the session is refused.
pub(super) fn push_connect_response(
    out: &mut Vec<u8>,
    session: Option<(SessionId, i32)>,
    passwords: &Passwords,
    read_only: Option<bool>,
) {
    let (session_id, timeout_ms) = session.unwrap_or((SessionId::NONE, 0));
    let password = match session {
        Some((id, _)) => Bytes::copy_from_slice(&passwords.password(id)),
        None => Bytes::from_static(&[0; 16]),
    };
    let response = ConnectResponse {
        protocol_version: 0,
        timeout_ms,
        session_id,
        password: password.into(),
        read_only,
    };
    let start = begin_frame(out);
    response.encode(out);
    end_frame(out, start);
}

/// Appends an event frame. `zxid` is the zxid of the change, or -1 for an event that the client
/// missed.
pub fn push_event_frame(out: &mut Vec<u8>, event_type: EventType, path: Str, zxid: Zxid) {
    let event = WatcherEvent {
        event_type: event_type as i32,
        state: STATE_SYNC_CONNECTED,
        path,
    };
    push_frame(out, Xid::EVENT, zxid, |out| {
        event.encode(out);
        Ok(())
    });
}

/// Appends a frame that consists of a reply header and the output of `body`. Returns the error code
/// in the header: the error of `body`, or `MarshallingError` if the frame is too long.
pub(super) fn push_frame(
    out: &mut Vec<u8>,
    xid: Xid,
    zxid: Zxid,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), ErrorCode>,
) -> ErrorCode {
    let start = begin_frame(out);
    let header_at = out.len();
    out.extend_from_slice(&[0; ReplyHeader::BYTES]);
    let mut err = body(out).err().unwrap_or(ErrorCode::Ok);
    if out.len() - header_at > REPLY_BYTES_MAX {
        // The length does not fit into the length field.
        out.truncate(header_at + ReplyHeader::BYTES);
        err = ErrorCode::MarshallingError;
    }
    let mut header = [0; ReplyHeader::BYTES];
    header[..4].copy_from_slice(&xid.0.to_be_bytes());
    header[4..12].copy_from_slice(&zxid.0.to_be_bytes());
    header[12..].copy_from_slice(&err.code().to_be_bytes());
    out[header_at..header_at + ReplyHeader::BYTES].copy_from_slice(&header);
    end_frame(out, start);
    err
}

fn begin_frame(out: &mut Vec<u8>) -> usize {
    if out.capacity() == 0 {
        out.reserve(OUTBOX_BYTES_START);
    }
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    start
}

fn end_frame(out: &mut [u8], start: usize) {
    let len = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&len.to_be_bytes());
}
