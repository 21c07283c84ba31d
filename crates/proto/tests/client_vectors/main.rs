//! Recorded bytes of clients and of Apache ZooKeeper 3.9.5.

#![allow(clippy::unwrap_used, reason = "a test")]

mod recorded;

use bytes::Bytes;
use jute::{Decode, Encode, Reader, Str};
use zoarium_proto::connect::{ConnectRequest, ConnectResponse, ReplyHeader, RequestHeader};
use zoarium_proto::data::RequestAcl;
use zoarium_proto::multi::{MultiHeader, encode_error_result};
use zoarium_proto::request::{CreateRequest, PathWatchRequest, ReadRequest, Request, WriteRequest};
use zoarium_proto::watch::{EventType, STATE_SYNC_CONNECTED, WatcherEvent};
use zoarium_proto::{Acl, ErrorCode, OpCode, SessionId, Xid, Zxid};

/// Parses hex digits; blanks are ignored.
fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    let pairs = digits.chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// Returns the frame without its length, which must be correct.
fn body_of(frame: &str) -> Bytes {
    let frame = unhex(frame);
    let (len, body) = frame.split_first_chunk().unwrap();
    assert_eq!(usize::try_from(i32::from_be_bytes(*len)), Ok(body.len()));
    Bytes::copy_from_slice(body)
}

fn read<T: Decode>(bytes: &Bytes) -> T {
    let mut input = Reader::new(bytes.clone());
    let value = T::decode(&mut input).unwrap();
    assert!(input.is_empty(), "{} bytes are left", input.remaining());
    value
}

fn check_request(frame: &str, header: RequestHeader, request: &Request) {
    let body = body_of(frame);
    let mut input = Reader::new(body.clone());
    assert_eq!(RequestHeader::decode(&mut input), Ok(header));
    let op = OpCode::from_i32(header.op).unwrap();
    assert_eq!(Request::decode(op, &mut input).as_ref(), Ok(request));
    assert!(input.is_empty());
    let mut out = Vec::new();
    header.encode(&mut out);
    request.encode(&mut out).unwrap();
    assert_eq!(out, body);
}

#[test]
fn the_handshake_of_a_new_session() {
    let body = body_of(
        "0000002d 00000000 0000000000000000 00002710 0000000000000000
         00000010 00000000000000000000000000000000 00",
    );
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid::ZERO,
        timeout_ms: 10_000,
        session_id: SessionId::NONE,
        password: Some(Bytes::from_static(&[0; 16])).into(),
        read_only: Some(false),
    };
    assert_eq!(read::<ConnectRequest>(&body), request);
    assert_eq!(request.to_bytes(), body);
    // C clients of 3.4 omit the last byte.
    let of_old_client = ConnectRequest {
        read_only: None,
        ..request
    };
    assert_eq!(read::<ConnectRequest>(&body.slice(..44)), of_old_client);
    assert_eq!(of_old_client.to_bytes().len(), 44);
}

#[test]
fn the_answer_to_an_expired_session() {
    let body = body_of(
        "00000025 00000000 00000000 0000000000000000
         00000010 00000000000000000000000000000000 00",
    );
    let response = ConnectResponse {
        protocol_version: 0,
        timeout_ms: 0,
        session_id: SessionId::NONE,
        password: Bytes::from_static(&[0; 16]).into(),
        read_only: Some(false),
    };
    assert_eq!(read::<ConnectResponse>(&body), response);
    assert_eq!(response.to_bytes(), body);
    let to_old_client = ConnectResponse {
        read_only: None,
        ..response
    };
    assert_eq!(to_old_client.to_bytes(), body.slice(..36));
}

#[test]
fn a_ping_and_its_reply() {
    let header = RequestHeader {
        xid: Xid::PING,
        op: OpCode::Ping.number(),
    };
    check_request(
        "00000008 fffffffe 0000000b",
        header,
        &Request::Read(ReadRequest::Ping),
    );
    let body = body_of("00000010 fffffffe 000000000000003e 00000000");
    let reply = ReplyHeader::new(Xid::PING, Zxid(62), ErrorCode::Ok);
    assert_eq!(read::<ReplyHeader>(&body), reply);
    assert_eq!(reply.to_bytes(), body);
}

#[test]
fn exists_with_a_watch() {
    let header = RequestHeader {
        xid: Xid(1),
        op: OpCode::Exists.number(),
    };
    let request = Request::Read(ReadRequest::Exists(PathWatchRequest {
        path: Some(Str::from_static("/a")),
        watch: true,
    }));
    let frame = "0000000f 00000001 00000003 00000002 2f61 01";
    check_request(frame, header, &request);
}

#[test]
fn create_with_an_open_acl() {
    let header = RequestHeader {
        xid: Xid(2),
        op: OpCode::Create.number(),
    };
    let request = Request::Write(WriteRequest::Create {
        op: OpCode::Create,
        request: CreateRequest {
            path: Some(Str::from_static("/a")),
            data: Some(Bytes::from_static(b"x")),
            acl: Some(vec![RequestAcl::from(Acl::open())]),
            flags: 0,
        },
        ttl: -1,
    });
    let frame = "00000032 00000002 00000001 00000002 2f61 00000001 78 00000001 0000001f \
                 00000005 776f726c64 00000006 616e796f6e65 00000000";
    check_request(frame, header, &request);
}

#[test]
fn a_watch_event() {
    let body =
        body_of("0000001e ffffffff 000000000000005e 00000000 00000003 00000003 00000002 2f77");
    let mut input = Reader::new(body.clone());
    let header = ReplyHeader::new(Xid::EVENT, Zxid(94), ErrorCode::Ok);
    assert_eq!(ReplyHeader::decode(&mut input), Ok(header));
    let event = WatcherEvent {
        event_type: EventType::NodeDataChanged as i32,
        state: STATE_SYNC_CONNECTED,
        path: Str::from_static("/w"),
    };
    assert_eq!(WatcherEvent::decode(&mut input).as_ref(), Ok(&event));
    assert!(input.is_empty());
    assert_eq!([header.to_bytes(), event.to_bytes()].concat(), body);
}

#[test]
fn a_failed_multi() {
    let recorded = unhex(
        "ffffffff 00 00000000 00000000  ffffffff 00 ffffff99 ffffff99
         ffffffff 00 fffffffe fffffffe  ffffffff 00 fffffffe fffffffe
         ffffffff 01 ffffffff",
    );
    let mut out = Vec::new();
    for code in [
        ErrorCode::Ok,
        ErrorCode::BadVersion,
        ErrorCode::RuntimeInconsistency,
        ErrorCode::RuntimeInconsistency,
    ] {
        encode_error_result(code, &mut out);
    }
    MultiHeader::END.encode(&mut out);
    assert_eq!(out, recorded);
}

#[test]
fn the_reply_to_an_unknown_operation() {
    let body = body_of("00000010 00000001 ffffffffffffffff fffffffa");
    let reply = ReplyHeader::new(Xid(1), Zxid(-1), ErrorCode::Unimplemented);
    assert_eq!(reply.to_bytes(), body);
}
