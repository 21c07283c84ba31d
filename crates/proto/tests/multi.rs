//! The fault that decides about a multi with several faults, as recorded from Apache ZooKeeper
//! 3.9.5.

#![allow(clippy::unwrap_used, reason = "a test")]

use jute::{DecodeError, Encode, Reader};
use zoarium_proto::multi::{
    MultiFault, MultiHeader, MultiRead, decode_reads, decode_writes, encode_request, request_acl,
};
use zoarium_proto::request::{
    CreateRequest, PathVersionRequest, PathWatchRequest, WriteRequest, flags,
};
use zoarium_proto::{Acl, OpCode};

/// A number above all known modes.
const NO_MODE: i32 = 9;

fn create(op: OpCode, path: Option<&str>, with_acl: bool, flags: i32) -> Vec<u8> {
    let acl = if with_acl {
        request_acl([Acl::open()])
    } else {
        None
    };
    let request = CreateRequest {
        path: path.map(Into::into),
        data: None,
        acl,
        flags,
    };
    let mut out = Vec::new();
    encode_request(
        &WriteRequest::Create {
            op,
            request,
            ttl: 5,
        },
        &mut out,
    );
    out
}

fn with_acl(flags: i32) -> Vec<u8> {
    create(OpCode::Create, Some("/a"), true, flags)
}

fn without_acl(flags: i32) -> Vec<u8> {
    create(OpCode::Create2, Some("/a"), false, flags)
}

fn null_path() -> Vec<u8> {
    let mut out = Vec::new();
    let request = PathVersionRequest {
        path: None,
        version: -1,
    };
    encode_request(&WriteRequest::Delete(request), &mut out);
    out
}

fn read(path: Option<&str>) -> Vec<u8> {
    let mut out = MultiHeader::request(OpCode::GetData).to_bytes().to_vec();
    PathWatchRequest {
        path: path.map(Into::into),
        watch: false,
    }
    .encode(&mut out);
    out
}

fn unknown() -> Vec<u8> {
    MultiHeader::request(OpCode::SetAcl).to_bytes().to_vec()
}

fn input(operations: &[Vec<u8>]) -> Reader {
    let mut bytes = operations.concat();
    MultiHeader::END.encode(&mut bytes);
    Reader::new(bytes)
}

/// Returns the fault; `None` for the fault that does not use a zxid.
fn fault(operations: &[Vec<u8>]) -> Option<MultiFault> {
    match decode_writes(&mut input(operations)) {
        Ok(decoded) => Some(decoded.unwrap_err()),
        Err(DecodeError::Null { .. }) => None,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn faults_of_a_create_have_javas_order() {
    let mode = |flags| Some(MultiFault::CreateMode(flags));
    assert_eq!(fault(&[without_acl(NO_MODE)]), mode(NO_MODE));
    assert_eq!(fault(&[without_acl(-1)]), mode(-1));
    assert_eq!(fault(&[without_acl(flags::TTL)]), None);
    assert_eq!(fault(&[with_acl(flags::TTL)]), mode(flags::TTL));
    // A create with a TTL is checked later.
    let later = create(OpCode::CreateTtl, Some("/a"), false, NO_MODE);
    assert_eq!(fault(&[later.clone(), with_acl(NO_MODE)]), mode(NO_MODE));
    assert!(decode_writes(&mut input(&[later])).unwrap().is_ok());
}

#[test]
fn the_first_decoding_fault_counts() {
    let (mode, operation) = (
        Some(MultiFault::CreateMode(NO_MODE)),
        Some(MultiFault::Operation(OpCode::SetAcl.number())),
    );
    assert_eq!(fault(&[without_acl(0), with_acl(NO_MODE)]), None);
    assert_eq!(fault(&[with_acl(NO_MODE), without_acl(0)]), mode);
    assert_eq!(fault(&[without_acl(0), unknown()]), None);
    assert_eq!(fault(&[unknown(), without_acl(0)]), operation);
    let mut cut = input(&[without_acl(0)]);
    let cut = cut.take(cut.remaining() - 4).unwrap();
    let decoded = decode_writes(&mut Reader::new(cut.to_vec()));
    assert!(matches!(decoded, Err(DecodeError::Null { .. })));
}

#[test]
fn operations_are_checked_after_all_are_decoded() {
    let null_in_create = create(OpCode::Create, None, false, 0);
    assert_eq!(fault(&[null_in_create]), None);
    assert_eq!(fault(&[null_path(), without_acl(0)]), None);
    let mode = Some(MultiFault::CreateMode(NO_MODE));
    assert_eq!(fault(&[null_path(), with_acl(NO_MODE)]), mode);
    assert_eq!(fault(&[null_path()]), Some(MultiFault::NullPath));
    // The create is decoded before it is found to be a write among reads.
    assert_eq!(fault(&[read(Some("/a")), without_acl(0)]), None);
    let mixed = Some(MultiFault::Operation(OpCode::Create.number()));
    assert_eq!(fault(&[read(Some("/a")), with_acl(0)]), mixed);
    let only_reads = Some(MultiFault::Operation(OpCode::GetData.number()));
    assert_eq!(fault(&[read(None), read(Some("/a"))]), only_reads);
}

#[test]
fn a_multi_read_of_writes_that_do_not_decode_has_no_body() {
    for refused in [
        without_acl(0),
        without_acl(NO_MODE),
        with_acl(NO_MODE),
        with_acl(flags::TTL),
        unknown(),
    ] {
        assert!(decode_reads(&mut input(&[refused])).is_err());
    }
    let later = create(OpCode::CreateTtl, Some("/a"), false, NO_MODE);
    for refused in [with_acl(0), later, null_path()] {
        assert_eq!(decode_reads(&mut input(&[refused])), Ok(MultiRead::Writes));
    }
    assert!(decode_reads(&mut input(&[read(None), with_acl(0)])).is_err());
}
