//! What clients and servers say to each other. The bodies are ZooKeeper's own bytes.

use bytes::Bytes;
use jute::Str;
use proto::request::Request;
use proto::watch::EventType;
use proto::{ErrorCode, SessionId, Zxid};

/// From a client.
#[derive(Debug, Clone)]
pub(crate) enum ToServer {
    /// The handshake.
    Connect {
        /// To go on with; 0 for a new one.
        session: SessionId,
        timeout_ms: i32,
        last_zxid: Zxid,
        /// Whether reads will do, if there is no leader.
        read_only: bool,
    },
    /// Who the client is.
    Auth { scheme: &'static str, auth: Bytes },
    /// A request with its number.
    Request { cxid: i32, request: Request },
}

/// From a server.
#[derive(Debug, Clone)]
pub(crate) enum ToClient {
    /// The handshake's answer; session 0: it has expired.
    Connected {
        session: SessionId,
        /// Whether there is no leader, and nothing but reads is answered.
        is_read_only: bool,
    },
    /// The credentials are taken. They are looked at when they come, ahead of what waits.
    Authenticated,
    /// A watch has fired. The zxid of the change says nothing of what was heard before: it may have
    /// fired others, and the connection may break between them. Clients go by replies.
    Event { event_type: EventType, path: Str },
    /// The answer to a request.
    Reply {
        cxid: i32,
        zxid: Zxid,
        result: Result<Bytes, ErrorCode>,
    },
}

/// The record of a request, as a client sends it.
pub(crate) fn body_of(request: &Request) -> Bytes {
    let mut body = Vec::new();
    // What clients of a simulation ask for has no part that cannot be encoded.
    let _ = request.encode(&mut body);
    body.into()
}
