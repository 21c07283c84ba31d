//! Cost of decoding a client's frame.

use bytes::Bytes;
use divan::{Bencher, black_box};
use jute::{Decode, Encode, Reader};
use zoarium_proto::connect::RequestHeader;
use zoarium_proto::multi::{self, MultiHeader, request_acl};
use zoarium_proto::request::{
    CreateRequest, PathWatchRequest, Request, SetDataRequest, WriteRequest, flags,
};
use zoarium_proto::{Acl, OpCode, Xid};

fn main() {
    divan::main();
}

fn frame(op: OpCode, record: &impl Encode) -> Bytes {
    let mut out = Vec::new();
    RequestHeader {
        xid: Xid(1),
        op: op.number(),
    }
    .encode(&mut out);
    record.encode(&mut out);
    out.into()
}

fn create() -> CreateRequest {
    CreateRequest {
        path: Some("/app/locks/member-000000".into()),
        data: Some(Bytes::from_static(&[7; 100])),
        acl: request_acl([Acl::open()]),
        flags: flags::PERSISTENT,
    }
}

fn decode(bencher: Bencher<'_, '_>, frame: Bytes) {
    bencher.bench(|| {
        let mut input = Reader::new(black_box(&frame).clone());
        let header = RequestHeader::decode(&mut input).expect("a header");
        let op = OpCode::from_i32(header.op).expect("a known operation");
        Request::decode(op, &mut input).expect("a request")
    });
}

#[divan::bench]
fn get_data(bencher: Bencher<'_, '_>) {
    let record = PathWatchRequest {
        path: Some("/app/config/current".into()),
        watch: false,
    };
    decode(bencher, frame(OpCode::GetData, &record));
}

#[divan::bench]
fn set_data_100_bytes(bencher: Bencher<'_, '_>) {
    let record = SetDataRequest {
        path: Some("/app/config/current".into()),
        data: Some(Bytes::from_static(&[7; 100])),
        version: -1,
    };
    decode(bencher, frame(OpCode::SetData, &record));
}

#[divan::bench]
fn create_100_bytes(bencher: Bencher<'_, '_>) {
    decode(bencher, frame(OpCode::Create, &create()));
}

#[divan::bench]
fn multi_of_ten_creates(bencher: Bencher<'_, '_>) {
    let mut out = Vec::new();
    RequestHeader {
        xid: Xid(1),
        op: OpCode::Multi.number(),
    }
    .encode(&mut out);
    for _ in 0..10 {
        let write = WriteRequest::Create {
            op: OpCode::Create,
            request: create(),
            ttl: -1,
        };
        multi::encode_request(&write, &mut out);
    }
    MultiHeader::END.encode(&mut out);
    decode(bencher, out.into());
}
