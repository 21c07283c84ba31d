//! Frames of clients.

use bytes::Bytes;
use jute::Encode;
use proto::connect::{AuthPacket, ConnectRequest, RequestHeader};
use proto::request::Request;
use proto::{OpCode, SessionId, Xid, Zxid};

/// Returns the bytes with the length before them.
pub(crate) fn framed(body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len()).unwrap_or(u32::MAX);
    [&len.to_be_bytes(), body].concat()
}

pub(crate) fn hello(
    session: SessionId,
    password: Bytes,
    timeout_ms: i32,
    read_only: Option<bool>,
    last_zxid_seen: Zxid,
) -> Vec<u8> {
    let mut body = Vec::new();
    ConnectRequest {
        protocol_version: 0,
        last_zxid_seen,
        timeout_ms,
        session_id: session,
        password: Some(password).into(),
        read_only,
    }
    .encode(&mut body);
    framed(&body)
}

pub(crate) fn credentials(scheme: &str, auth: &str) -> Vec<u8> {
    let mut body = header(Xid::AUTH, OpCode::Auth.number());
    AuthPacket {
        auth_type: 0,
        scheme: Some(scheme.into()),
        auth: Some(Bytes::copy_from_slice(auth.as_bytes())).into(),
    }
    .encode(&mut body);
    framed(&body)
}

pub(crate) fn request(xid: Xid, request: &Request) -> Vec<u8> {
    let mut body = header(xid, request.op().number());
    request.encode(&mut body).expect("a request of a client");
    framed(&body)
}

pub(crate) fn header(xid: Xid, op: i32) -> Vec<u8> {
    let mut body = Vec::new();
    RequestHeader { xid, op }.encode(&mut body);
    body
}
