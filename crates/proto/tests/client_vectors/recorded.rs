//! Whole replies of Apache ZooKeeper 3.9.5, recorded by the conformance suite. Bytes that differ
//! from run to run are masked there, with letters that are not digits; any byte can replace them.

use std::fs;

use bytes::Bytes;
use jute::{Decode, Encode, Reader};
use serde_json::Value;
use zoarium_proto::ErrorCode;
use zoarium_proto::connect::ReplyHeader;
use zoarium_proto::multi::MultiHeader;
use zoarium_proto::response::{
    Create2Response, CreateResponse, ErrorResponse, GetAclResponse, GetAllChildrenNumberResponse,
    GetChildren2Response, GetDataResponse, NamesResponse, StatResponse, SyncResponse,
    WhoAmIResponse,
};
use zoarium_proto::watch::WatcherEvent;

use crate::unhex;

/// Decodes a record and encodes it again.
fn again<T: Decode + Encode>(input: &mut Reader, out: &mut Vec<u8>) {
    T::decode(input).unwrap().encode(out);
}

fn header_only(_: &mut Reader, _: &mut Vec<u8>) {}

fn multi_results(input: &mut Reader, out: &mut Vec<u8>) {
    loop {
        let header = MultiHeader::decode(input).unwrap();
        header.encode(out);
        match header.op {
            _ if header.done => return,
            -1 => again::<ErrorResponse>(input, out),
            1 => again::<CreateResponse>(input, out),
            8 => again::<NamesResponse>(input, out),
            15 => again::<Create2Response>(input, out),
            2 | 13 => {}
            other => panic!("result of operation {other}"),
        }
    }
}

type Body = fn(&mut Reader, &mut Vec<u8>);

/// Case, label of the observation, content after the header.
const REPLIES: &[(&str, &str, Body)] = &[
    ("acl_getacl_bytes", "open", again::<GetAclResponse>),
    (
        "all_children_number",
        "bytes",
        again::<GetAllChildrenNumberResponse>,
    ),
    (
        "bad_body_op_as_close_whoami_body",
        "reply",
        again::<WhoAmIResponse>,
    ),
    ("create2_reply_bytes", "ok", again::<Create2Response>),
    ("create2_reply_bytes", "again", header_only),
    ("create_empty_data", "bytes", again::<GetDataResponse>),
    ("create_null_data", "bytes", again::<GetDataResponse>),
    ("create_reply_bytes", "ok", again::<CreateResponse>),
    ("create_reply_bytes", "noparent", header_only),
    ("delete_basic", "bytes", header_only),
    ("exists_bytes", "ok", again::<StatResponse>),
    ("exists_bytes", "none", header_only),
    ("getchildren2_bytes", "empty", again::<GetChildren2Response>),
    ("getchildren2_bytes", "one", again::<GetChildren2Response>),
    ("getchildren_bytes", "empty", again::<NamesResponse>),
    ("getchildren_bytes", "one", again::<NamesResponse>),
    ("getdata_bytes", "ok", again::<GetDataResponse>),
    ("mread_bytes", "bytes", multi_results),
    ("mread_empty", "bytes", multi_results),
    ("multi_create2", "bytes", multi_results),
    ("multi_empty", "bytes", multi_results),
    ("multi_reply_bytes", "ok", multi_results),
    ("multi_reply_bytes", "failed", multi_results),
    ("ping_reply", "bytes", header_only),
    ("pwatch_persistent_events", "bytes", again::<ErrorResponse>),
    ("remove_absent_watch", "bytes", header_only),
    ("session_second_connect_request", "answer", header_only),
    ("setdata_basic", "bytes", again::<StatResponse>),
    ("setwatches_nothing_changed", "bytes", header_only),
    ("sync_variants", "bytes", again::<SyncResponse>),
    ("watch_event_bytes", "frame", again::<WatcherEvent>),
    ("whoami_plain", "bytes", again::<WhoAmIResponse>),
];

#[test]
fn recorded_replies_decode_and_encode_to_the_same_bytes() {
    let Some(path) = testkit::recordings::find("conformance/golden/zk-3.9.5.json") else {
        return;
    };
    let text = fs::read_to_string(path).unwrap();
    let golden: Value = serde_json::from_str(&text).unwrap();
    for (case, label, body) in REPLIES {
        let frame = frame(&golden, case, label);
        let mut input = Reader::new(frame.clone());
        let mut out = Vec::new();
        let header = ReplyHeader::decode(&mut input).unwrap();
        assert!(ErrorCode::from_i32(header.err).is_some(), "{case} {label}");
        header.encode(&mut out);
        body(&mut input, &mut out);
        assert!(input.is_empty(), "{case} {label}");
        assert_eq!(out, frame, "{case} {label}");
    }
}

/// Returns the observation with that label, with its masks replaced.
fn frame(golden: &Value, case: &str, label: &str) -> Bytes {
    let observations = golden["cases"][case]["obs"].as_array().unwrap();
    let labelled = observations.iter().find(|seen| seen[0] == label).unwrap();
    let text = labelled[1].as_str().unwrap();
    // A masked path must remain a path: 70 is the letter p.
    unhex(
        &text
            .replace("pp", "70")
            .replace("zz", "00")
            .replace("ss", "00"),
    )
    .into()
}
