//! Messages between clients and servers.

use jute::{Decode, Encode, Reader};
use proto::connect::{
    AuthPacket, ConnectRequest, ConnectResponse, ReplyHeader, RequestHeader, SaslToken,
};
use proto::multi::{self, MultiHeader};
use proto::request::{Request, WriteRequest};
use proto::response::{
    Create2Response, CreateResponse, ErrorResponse, GetAclResponse, GetAllChildrenNumberResponse,
    GetChildren2Response, GetDataResponse, NamesResponse, StatResponse, SyncResponse,
    WhoAmIResponse,
};
use proto::watch::WatcherEvent;
use proto::{Acl, ErrorCode, OpCode, Stat, Xid, Zxid};

use super::{assert_reads_back, holds_surrogates};
use crate::seeds::requests;
use crate::{Memory, Target};

pub(super) const HANDSHAKE: Target = Target {
    name: "handshake",
    run: handshake,
    seeds: requests::handshakes,
    words: &[],
    repair: None,
    memory: Memory::DECODER,
};

pub(super) const REQUEST: Target = Target {
    name: "request",
    run: request,
    seeds: requests::frames,
    words: &["/", "/a", "/zookeeper/config", "digest"],
    repair: None,
    memory: Memory::DECODER,
};

pub(super) const MULTI: Target = Target {
    name: "multi",
    run: multi_bodies,
    seeds: multi_seeds,
    words: &["\0\0\0\x0d\0\0\0\0\0", "\0\0\0\x04\0\0\0\0\0", "/m"],
    repair: None,
    memory: Memory::DECODER,
};

pub(super) const REPLY: Target = Target {
    name: "reply",
    run: reply,
    seeds: reply_seeds,
    words: &["/a"],
    repair: None,
    memory: Memory::DECODER,
};

fn reader(data: &[u8]) -> Reader {
    Reader::new(data.to_vec())
}

fn handshake(data: &[u8]) {
    if let Ok(request) = ConnectRequest::decode(&mut reader(data)) {
        assert_reads_back(&request);
    }
    if let Ok(response) = ConnectResponse::decode(&mut reader(data)) {
        assert_reads_back(&response);
    }
}

fn request(data: &[u8]) {
    let mut input = reader(data);
    let Ok(header) = RequestHeader::decode(&mut input) else {
        return;
    };
    match OpCode::from_i32(header.op) {
        None => {}
        Some(OpCode::Auth) => drop(AuthPacket::decode(&mut input)),
        Some(OpCode::Sasl) => drop(SaslToken::decode(&mut input)),
        Some(op) => {
            if let Ok(request) = Request::decode(op, &mut input) {
                assert_request_reads_back(&request);
            }
        }
    }
}

fn assert_request_reads_back(request: &Request) {
    let mut out = Vec::new();
    // A refused multi cannot be encoded.
    if request.encode(&mut out).is_ok() && !holds_surrogates(&out) {
        let read = Request::decode(request.op(), &mut Reader::new(out));
        assert_eq!(read.as_ref(), Ok(request));
    }
}

fn multi_bodies(data: &[u8]) {
    if let Ok(writes) = multi::decode_writes(&mut reader(data)) {
        assert_request_reads_back(&Request::Write(WriteRequest::Multi(writes)));
    }
    if let Ok(reads) = multi::decode_reads(&mut reader(data)) {
        let read = proto::request::ReadRequest::MultiRead(reads);
        assert_request_reads_back(&Request::Read(read));
    }
}

fn multi_seeds() -> Vec<Vec<u8>> {
    let of_op = |op: OpCode| op.number().to_be_bytes();
    let is_multi = |frame: &Vec<u8>| {
        let op = frame.get(4..8);
        op == Some(&of_op(OpCode::Multi)) || op == Some(&of_op(OpCode::MultiRead))
    };
    let mut frames = requests::frames();
    frames.retain(is_multi);
    frames
        .into_iter()
        .map(|mut frame| frame.split_off(8))
        .collect()
}

fn reply(data: &[u8]) {
    let mut input = reader(data);
    if ReplyHeader::decode(&mut input).is_err() {
        return;
    }
    record::<WatcherEvent>(&input);
    record::<CreateResponse>(&input);
    record::<Create2Response>(&input);
    record::<StatResponse>(&input);
    record::<GetDataResponse>(&input);
    record::<GetAclResponse>(&input);
    record::<NamesResponse>(&input);
    record::<GetChildren2Response>(&input);
    record::<GetAllChildrenNumberResponse>(&input);
    record::<SyncResponse>(&input);
    record::<ErrorResponse>(&input);
    record::<WhoAmIResponse>(&input);
    record::<SaslToken>(&input);
    record::<MultiHeader>(&input);
}

fn record<T: Decode + Encode + PartialEq + std::fmt::Debug>(input: &Reader) {
    if let Ok(record) = T::decode(&mut input.clone()) {
        assert_reads_back(&record);
    }
}

fn reply_seeds() -> Vec<Vec<u8>> {
    let stat = Stat {
        czxid: 1,
        version: 3,
        data_length: 4,
        ..Stat::default()
    };
    let names = vec!["a".into(), "bc".into(), "".into()];
    let bodies: [&dyn Encode; 6] = [
        &Create2Response {
            path: "/a".into(),
            stat,
        },
        &GetDataResponse {
            data: Some("data".into()),
            stat,
        },
        &GetAclResponse {
            acl: vec![Acl::open(), Acl::new(1, "digest", "bob:x")],
            stat,
        },
        &GetChildren2Response {
            children: names,
            stat,
        },
        &WatcherEvent {
            event_type: 3,
            state: 3,
            path: "/a".into(),
        },
        &WhoAmIResponse { clients: vec![] },
    ];
    let behind_header = |body: &&dyn Encode| {
        let mut out = Vec::new();
        ReplyHeader::new(Xid(1), Zxid(9), ErrorCode::Ok).encode(&mut out);
        body.encode(&mut out);
        out
    };
    bodies.iter().map(behind_header).collect()
}
