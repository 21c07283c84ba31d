//! The handshake and the headers of every later frame.

use bytes::Bytes;
use jute::{Decode, DecodeError, DecodeRecord, Encode, EncodeRecord, Reader, Str};

use crate::{ErrorCode, Hidden, SessionId, Xid, Zxid};

/// First frame of a client. The read-only byte is missing from clients before 3.4.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectRequest {
    /// Ignored by servers.
    pub protocol_version: i32,
    /// Newest zxid the client has seen.
    pub last_zxid_seen: Zxid,
    /// Session timeout asked for, ms.
    pub timeout_ms: i32,
    /// 0 for a new session.
    pub session_id: SessionId,
    /// Password of the session to go on with.
    pub password: Hidden<Option<Bytes>>,
    /// Whether a read-only server will do; `None` from old clients, which also want an answer
    /// without the byte.
    pub read_only: Option<bool>,
}

impl Decode for ConnectRequest {
    const MIN_BYTES: usize = 28;

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            protocol_version: i32::decode(input)?,
            last_zxid_seen: Zxid::decode(input)?,
            timeout_ms: i32::decode(input)?,
            session_id: SessionId::decode(input)?,
            password: Hidden::decode(input)?,
            read_only: if input.is_empty() {
                None
            } else {
                Some(input.bool()?)
            },
        })
    }
}

impl Encode for ConnectRequest {
    fn encode(&self, out: &mut Vec<u8>) {
        self.protocol_version.encode(out);
        self.last_zxid_seen.encode(out);
        self.timeout_ms.encode(out);
        self.session_id.encode(out);
        self.password.encode(out);
        if let Some(read_only) = self.read_only {
            read_only.encode(out);
        }
    }
}

/// First frame of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectResponse {
    /// Always 0.
    pub protocol_version: i32,
    /// Negotiated timeout in ms; 0 says that the session is over.
    pub timeout_ms: i32,
    /// The session; 0 if it is over.
    pub session_id: SessionId,
    /// Its password, 16 bytes.
    pub password: Hidden<Bytes>,
    /// Whether the server is read-only; `None` towards clients that did not send the byte.
    pub read_only: Option<bool>,
}

impl Decode for ConnectResponse {
    const MIN_BYTES: usize = 20;

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            protocol_version: i32::decode(input)?,
            timeout_ms: i32::decode(input)?,
            session_id: SessionId::decode(input)?,
            password: Hidden::decode(input)?,
            read_only: if input.is_empty() {
                None
            } else {
                Some(input.bool()?)
            },
        })
    }
}

impl Encode for ConnectResponse {
    fn encode(&self, out: &mut Vec<u8>) {
        self.protocol_version.encode(out);
        self.timeout_ms.encode(out);
        self.session_id.encode(out);
        self.password.encode(out);
        if let Some(read_only) = self.read_only {
            read_only.encode(out);
        }
    }
}

/// In front of every request: 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct RequestHeader {
    /// The client's number for it.
    pub xid: Xid,
    /// Opcode, possibly unknown.
    pub op: i32,
}

/// In front of every reply and event: 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct ReplyHeader {
    /// The request's number.
    pub xid: Xid,
    /// Of a write, also of one that a check refused: its transaction. Of a read: the last one that
    /// the server had applied. 0 for auth and sasl, -1 before the connection closes over an unknown
    /// opcode. Source: FinalRequestProcessor.
    pub zxid: Zxid,
    /// 0 or an [`ErrorCode`].
    pub err: i32,
}

impl ReplyHeader {
    /// Bytes on the wire.
    pub const BYTES: usize = 16;

    /// A header that reports `err`.
    pub fn new(xid: Xid, zxid: Zxid, err: ErrorCode) -> Self {
        Self {
            xid,
            zxid,
            err: err.code(),
        }
    }
}

/// Credentials of one scheme.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct AuthPacket {
    /// Ignored, 0.
    pub auth_type: i32,
    /// The scheme.
    pub scheme: Option<Str>,
    /// What the scheme's provider takes.
    pub auth: Hidden<Option<Bytes>>,
}

/// A SASL token of the client, or the server's answer.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct SaslToken {
    /// The token.
    pub token: Hidden<Option<Bytes>>,
}
