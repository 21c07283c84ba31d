//! All requests, alone and inside a multi.

use jute::{DecodeError, Reader, Str};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use zoarium_proto::OpCode;
use zoarium_proto::multi::{MultiFault, MultiRead};
use zoarium_proto::request::{
    CreateRequest, PathModeRequest, PathRequest, PathVersionRequest, PathWatchRequest, ReadRequest,
    ReconfigRequest, Request, SetAclRequest, SetDataRequest, SetWatchesRequest, WriteRequest,
};

use crate::parts::*;

fn create() -> impl Strategy<Value = WriteRequest> {
    let record = (
        nullable_text(),
        nullable_bytes(),
        option::of(vec(request_acl(), 0..3)),
        any::<i32>(),
    );
    let record = record.prop_map(|(path, data, acl, flags)| CreateRequest {
        path,
        data,
        acl,
        flags,
    });
    let ops = [
        OpCode::Create,
        OpCode::Create2,
        OpCode::CreateContainer,
        OpCode::CreateTtl,
    ];
    let op = proptest::sample::select(ops.to_vec());
    (op, record, any::<i64>()).prop_map(|(op, request, ttl)| WriteRequest::Create {
        op,
        request,
        ttl: if op == OpCode::CreateTtl { ttl } else { -1 },
    })
}

fn path_version() -> impl Strategy<Value = PathVersionRequest> {
    (nullable_text(), any::<i32>()).prop_map(|(path, version)| PathVersionRequest { path, version })
}

fn set_data() -> impl Strategy<Value = WriteRequest> {
    (nullable_text(), nullable_bytes(), any::<i32>()).prop_map(|(path, data, version)| {
        WriteRequest::SetData(SetDataRequest {
            path,
            data,
            version,
        })
    })
}

fn set_acl() -> impl Strategy<Value = WriteRequest> {
    let acl = option::of(vec(request_acl(), 0..3));
    (nullable_text(), acl, any::<i32>())
        .prop_map(|(path, acl, version)| WriteRequest::SetAcl(SetAclRequest { path, acl, version }))
}

fn reconfig() -> impl Strategy<Value = WriteRequest> {
    let record = (
        nullable_text(),
        nullable_text(),
        nullable_text(),
        any::<i64>(),
    );
    record.prop_map(|(joining, leaving, new_members, config_version)| {
        WriteRequest::Reconfig(ReconfigRequest {
            joining,
            leaving,
            new_members,
            config_version,
        })
    })
}

/// Generates operations that a multi accepts.
fn in_multi() -> impl Strategy<Value = WriteRequest> {
    let one = prop_oneof![
        create(),
        path_version().prop_map(WriteRequest::Delete),
        path_version().prop_map(WriteRequest::Check),
        set_data(),
    ];
    one.prop_map(|mut write| {
        let path = match &mut write {
            WriteRequest::Create { op, request, .. } => {
                if *op != OpCode::CreateTtl {
                    request.acl.get_or_insert_default();
                    request.flags = request.flags.rem_euclid(5);
                }
                &mut request.path
            }
            WriteRequest::Delete(request) | WriteRequest::Check(request) => &mut request.path,
            WriteRequest::SetData(request) => &mut request.path,
            other => unreachable!("{other:?}"),
        };
        path.get_or_insert_with(|| Str::from_static("/a"));
        write
    })
}

fn write() -> impl Strategy<Value = WriteRequest> {
    prop_oneof![
        create(),
        path_version().prop_map(WriteRequest::Delete),
        set_data(),
        set_acl(),
        reconfig(),
        text().prop_map(|path| WriteRequest::DeleteContainer { path }),
        vec(in_multi(), 0..5).prop_map(|writes| WriteRequest::Multi(Ok(writes))),
        Just(WriteRequest::CloseSession),
    ]
}

fn set_watches() -> impl Strategy<Value = ReadRequest> {
    let list = || option::of(vec(nullable_text(), 0..4));
    let no_list = || Just(Some(Vec::new()));
    let persistent = prop_oneof![(no_list(), no_list()).boxed(), (list(), list()).boxed()];
    (any::<i64>(), list(), list(), list(), persistent).prop_map(
        |(relative_zxid, data, exist, child, (persistent, persistent_recursive))| {
            ReadRequest::SetWatches(SetWatchesRequest {
                relative_zxid,
                data,
                exist,
                child,
                persistent,
                persistent_recursive,
            })
        },
    )
}

fn read() -> impl Strategy<Value = ReadRequest> {
    use ReadRequest as R;
    let watch = || {
        (nullable_text(), any::<bool>()).prop_map(|(path, watch)| PathWatchRequest { path, watch })
    };
    let path = || nullable_text().prop_map(|path| PathRequest { path });
    let mode =
        || (nullable_text(), any::<i32>()).prop_map(|(path, mode)| PathModeRequest { path, mode });
    let in_multi = prop_oneof![
        watch().prop_map(R::GetData),
        watch().prop_map(R::GetChildren)
    ];
    prop_oneof![
        watch().prop_map(R::Exists),
        watch().prop_map(R::GetData),
        watch().prop_map(R::GetChildren),
        watch().prop_map(R::GetChildren2),
        path().prop_map(R::GetAcl),
        path().prop_map(R::GetAllChildrenNumber),
        path().prop_map(R::GetEphemerals),
        mode().prop_map(R::CheckWatches),
        mode().prop_map(R::RemoveWatches),
        mode().prop_map(R::AddWatch),
        set_watches(),
        vec(in_multi, 0..5).prop_map(|reads| R::MultiRead(MultiRead::Reads(reads))),
        Just(R::WhoAmI),
        Just(R::Ping),
    ]
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        write().prop_map(Request::Write),
        read().prop_map(Request::Read),
        nullable_text().prop_map(|path| Request::Sync(PathRequest { path })),
    ]
}

fn encode(request: &Request) -> Vec<u8> {
    let mut out = Vec::new();
    request.encode(&mut out).unwrap();
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_request_reads_back(request in request()) {
        let mut input = Reader::new(encode(&request));
        prop_assert_eq!(Request::decode(request.op(), &mut input), Ok(request));
        prop_assert!(input.is_empty());
    }

    /// A truncated record never decodes to a request. A multi fails as a whole, which is still a
    /// request.
    #[test]
    fn a_request_cut_short_does_not_decode(request in request(), cut in any::<prop::sample::Index>()) {
        let bytes = encode(&request);
        if bytes.is_empty() {
            return Ok(());
        }
        let cut = cut.index(bytes.len());
        let decoded = Request::decode(request.op(), &mut Reader::new(bytes[..cut].to_vec()));
        if request.op() == OpCode::Multi {
            let undecodable = WriteRequest::Multi(Err(MultiFault::Undecodable));
            prop_assert_eq!(decoded, Ok(Request::Write(undecodable)));
        } else {
            prop_assert!(decoded.is_err());
        }
    }
}

#[test]
fn a_refused_multi_cannot_be_written() {
    let refused = [
        Request::Write(WriteRequest::Multi(Err(MultiFault::NullPath))),
        Request::Read(ReadRequest::MultiRead(MultiRead::Writes)),
    ];
    for request in refused {
        let mut out = Vec::new();
        let error = request.encode(&mut out).unwrap_err();
        assert_eq!((error.op, out.len()), (request.op(), 0));
    }
}

#[test]
fn every_opcode_of_a_client_has_a_request() {
    let no_request = [
        OpCode::Error,
        OpCode::CreateSession,
        OpCode::Check,
        OpCode::Auth,
        OpCode::Sasl,
    ];
    for op in OpCode::ALL {
        // Zeros are a valid record for some operations only.
        let decoded = Request::decode(*op, &mut Reader::new(vec![0; 64]));
        let is_refused = matches!(decoded, Err(DecodeError::Value { what: "opcode", .. }));
        assert_eq!(is_refused, no_request.contains(op), "{op:?}: {decoded:?}");
    }
}
