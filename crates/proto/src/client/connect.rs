//! The handshake, and the headers of all later frames.

use bytes::Bytes;
use jute::{Decode, DecodeError, DecodeRecord, Encode, EncodeRecord, Reader, Str};

use crate::{ErrorCode, Hidden, SessionId, Xid, Zxid};

/// First frame from a client. Clients before 3.4 do not send the read-only byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectRequest {
    /// Version of the protocol, which servers ignore.
    pub protocol_version: i32,
    /// Newest zxid that the client has seen.
    pub last_zxid_seen: Zxid,
    /// Requested session timeout, ms.
    pub timeout_ms: i32,
    /// Session to resume; 0 for a new session.
    pub session_id: SessionId,
    /// Password of the session to resume.
    pub password: Hidden<Option<Bytes>>,
    /// Whether a read-only server is acceptable; `None` from old clients, which do not send this
    /// byte and expect a response without it.
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

/// First frame from a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectResponse {
    /// Version of the protocol, always 0.
    pub protocol_version: i32,
    /// Negotiated timeout in ms; 0 if the session has expired.
    pub timeout_ms: i32,
    /// Id of the session; 0 if the session has expired.
    pub session_id: SessionId,
    /// Password of the session, 16 bytes.
    pub password: Hidden<Bytes>,
    /// Whether the server is read-only; `None` for clients that did not send their read-only byte.
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

/// Header of each request, 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct RequestHeader {
    /// Number that the client assigned to the request.
    pub xid: Xid,
    /// Opcode, which may be unknown.
    pub op: i32,
}

/// Header of each reply and event, 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct ReplyHeader {
    /// Number of the request.
    pub xid: Xid,
    /// For a write, even a refused one, the zxid of its transaction. For a read, the last zxid that
    /// the server had applied. 0 for auth and sasl, -1 before the connection closes because of an
    /// unknown opcode. Source: FinalRequestProcessor.
    pub zxid: Zxid,
    /// Error: 0 or an [`ErrorCode`].
    pub err: i32,
}

impl ReplyHeader {
    /// Length on the wire, bytes.
    pub const BYTES: usize = 16;

    /// Creates a header that reports `err`.
    pub fn new(xid: Xid, zxid: Zxid, err: ErrorCode) -> Self {
        Self {
            xid,
            zxid,
            err: err.code(),
        }
    }
}

/// Credentials for one scheme.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct AuthPacket {
    /// Ignored by servers. Clients send 0.
    pub auth_type: i32,
    /// Name of the scheme.
    pub scheme: Option<Str>,
    /// Data for the scheme's provider.
    pub auth: Hidden<Option<Bytes>>,
}

/// A SASL token from the client, or the server's response.
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord, DecodeRecord)]
pub struct SaslToken {
    /// Token of the SASL mechanism.
    pub token: Hidden<Option<Bytes>>,
}
