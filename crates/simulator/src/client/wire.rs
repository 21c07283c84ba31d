//! Conversion between clients' messages and ZooKeeper's frames.

use bytes::{Buf, Bytes};
use jute::{Decode, Encode, Reader, Str};
use proto::connect::{AuthPacket, ConnectRequest, ConnectResponse, ReplyHeader, RequestHeader};
use proto::request::Request;
use proto::watch::{EventType, WatcherEvent};
use proto::{ErrorCode, OpCode, SessionId, Xid, Zxid};

/// Message from a server to a client.
#[derive(Debug, Clone)]
pub(crate) enum ToClient {
    /// Reply to the handshake. Session 0 means that the session has expired.
    Connected {
        session: SessionId,
        /// Whether the server lacks a leader and answers only reads.
        is_read_only: bool,
    },
    /// The credentials were accepted. They are checked on arrival, before queued requests.
    Authenticated,
    /// A watch has fired. The zxid of the change is omitted, because it does not show which events
    /// have arrived. The change may have fired several watches, and the connection may break
    /// between their events. Clients therefore use the zxids of replies.
    Event { event_type: EventType, path: Str },
    /// Reply to a request.
    Reply {
        cxid: i32,
        zxid: Zxid,
        result: Result<Bytes, ErrorCode>,
    },
}

/// Returns the handshake, which is a client's first frame on a connection.
pub(crate) fn hello(
    session: SessionId,
    timeout_ms: i32,
    last_zxid: Zxid,
    takes_read_only: bool,
) -> Bytes {
    encoded(&ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: last_zxid,
        timeout_ms,
        session_id: session,
        password: Some(Bytes::copy_from_slice(&replica::session::password(session))).into(),
        read_only: Some(takes_read_only),
    })
}

/// Returns a frame with the credentials of the client.
pub(crate) fn credentials(scheme: &str, auth: &str) -> Bytes {
    let header = RequestHeader {
        xid: Xid::AUTH,
        op: OpCode::Auth.number(),
    };
    let packet = AuthPacket {
        auth_type: 0,
        scheme: Some(scheme.into()),
        auth: Some(Bytes::copy_from_slice(auth.as_bytes())).into(),
    };
    let mut frame = Vec::new();
    header.encode(&mut frame);
    packet.encode(&mut frame);
    frame.into()
}

/// Returns the frame of a request with its number.
pub(crate) fn asked(cxid: i32, request: &Request) -> Bytes {
    let header = RequestHeader {
        xid: Xid(cxid),
        op: request.op().number(),
    };
    let mut frame = Vec::new();
    header.encode(&mut frame);
    // Every request of a simulated client can be encoded.
    let _ = request.encode(&mut frame);
    frame.into()
}

fn encoded(record: &impl Encode) -> Bytes {
    let mut frame = Vec::new();
    record.encode(&mut frame);
    frame.into()
}

/// Decodes frames. If `greets` is set, the first frame is the reply to the client's handshake.
pub(crate) fn heard(mut bytes: Bytes, greets: bool) -> Result<Vec<ToClient>, String> {
    let mut heard = Vec::new();
    while bytes.has_remaining() {
        let len = usize::try_from(bytes.get_u32()).unwrap_or(usize::MAX);
        let frame = Reader::new(bytes.split_to(len.min(bytes.len())));
        heard.push(if greets && heard.is_empty() {
            connected(frame)?
        } else {
            told(frame)?
        });
    }
    Ok(heard)
}

fn decode<T: Decode>(frame: &mut Reader) -> Result<T, String> {
    T::decode(frame).map_err(|error| error.to_string())
}

fn connected(mut frame: Reader) -> Result<ToClient, String> {
    let response: ConnectResponse = decode(&mut frame)?;
    Ok(ToClient::Connected {
        session: response.session_id,
        is_read_only: response.read_only == Some(true),
    })
}

fn told(mut frame: Reader) -> Result<ToClient, String> {
    let ReplyHeader { xid, zxid, err } = decode(&mut frame)?;
    let code =
        ErrorCode::from_i32(err).ok_or_else(|| format!("the error code {err} is unknown"))?;
    Ok(match xid {
        Xid::AUTH if code == ErrorCode::Ok => ToClient::Authenticated,
        Xid::AUTH => return Err(format!("the server refused the credentials: {code}")),
        Xid::EVENT => {
            let WatcherEvent {
                event_type, path, ..
            } = decode(&mut frame)?;
            let event_type = EventType::from_i32(event_type);
            let event_type = event_type.ok_or("an event has an unknown type")?;
            ToClient::Event { event_type, path }
        }
        Xid(cxid) => ToClient::Reply {
            cxid,
            zxid,
            result: match code {
                ErrorCode::Ok => Ok(frame.rest()),
                code => Err(code),
            },
        },
    })
}
