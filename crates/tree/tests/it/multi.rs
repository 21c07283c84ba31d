//! Tests of multi and multiRead. The number in a name is a row of the checklist that these tests
//! were written from.

use crate::common::host::*;
use jute::{Decode, Encode, Reader};
use proto::data::RequestAcl;
use proto::multi::{MultiFault, MultiHeader, MultiRead};
use proto::request::{PathWatchRequest, ReadRequest, WriteRequest, flags};
use proto::txn::Txn;
use proto::watch::EventType;
use proto::{Acl, ErrorCode, OpCode, Stat};
use zoarium_tree::{Outcome, TreeSettings};

fn multi(operations: Vec<WriteRequest>) -> WriteRequest {
    WriteRequest::Multi(Ok(operations))
}

fn in_multi(op: OpCode, create_flags: i32) -> WriteRequest {
    create_as(op, create_request("/m", create_flags))
}

/// Returns the types of a multi's results.
fn result_types(host: &mut Host, operations: Vec<WriteRequest>) -> Vec<i32> {
    let mut body = Reader::new(host.body(multi(operations)));
    let mut types = Vec::new();
    loop {
        let header = MultiHeader::decode(&mut body).unwrap();
        if header == MultiHeader::END {
            assert!(body.is_empty());
            return types;
        }
        types.push(header.op);
        match OpCode::from_i32(header.op).unwrap() {
            OpCode::Create => drop(body.string().unwrap()),
            OpCode::Create2 => {
                body.string().unwrap();
                Stat::decode(&mut body).unwrap();
            }
            OpCode::SetData => drop(Stat::decode(&mut body).unwrap()),
            OpCode::Error => assert_eq!(body.i32().unwrap(), header.err),
            _ => {}
        }
    }
}

#[test]
fn rows_169_to_172_each_operation_sees_those_before_it() {
    let mut host = Host::new();
    host.write(create("/a"));
    let operations = vec![
        set("/a", "x"),
        check("/a", 1),
        create_flags("/a/s", flags::PERSISTENT_SEQUENTIAL),
        create_flags("/a/s", flags::PERSISTENT_SEQUENTIAL),
        create("/p"),
        create("/p/c"),
        delete("/p/c"),
        delete("/p"),
    ];
    assert_eq!(
        result_types(&mut host, operations),
        [5, 13, 1, 1, 1, 1, 2, 2]
    );
    assert_eq!(host.children("/a"), ["s0000000000", "s0000000001"]);
    let a = host.stat("/a");
    assert_eq!((a.mzxid, a.pzxid, a.version, host.zxid.0), (2, 2, 1, 2));
    assert!(!host.exists("/p"));
}

#[test]
fn stats_in_results_are_those_right_after_each_operation() {
    let mut host = Host::new();
    host.write(create("/a"));
    let (outcome, _) = host.write(multi(vec![set("/a", "1"), set("/a", "22")]));
    let Outcome::Multi(results) = outcome else {
        panic!()
    };
    let versions: Vec<_> = results
        .iter()
        .map(|result| match result {
            Outcome::Stat { stat, .. } => (stat.version, stat.data_length),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(versions, [(1, 1), (2, 2)]);
}

#[test]
fn rows_173_310_and_311_kinds_in_a_multi() {
    let one = |operation| {
        let mut host = Host::new();
        let types = result_types(&mut host, vec![operation]);
        let kind = host.read(exists("/m", false)).is_ok();
        host.write(create("/m/x"));
        host.write(delete("/m/x"));
        let is_container = host.tree.expired_candidates(0, 0).len() == 1;
        assert!(kind);
        (types[0], is_container)
    };
    assert_eq!(one(in_multi(OpCode::Create, 0)), (1, false));
    assert_eq!(one(in_multi(OpCode::Create2, 0)), (15, false));
    assert_eq!(one(in_multi(OpCode::Create, 4)), (15, true));
    assert_eq!(one(in_multi(OpCode::Create2, 4)), (15, true));
    for create_flags in [0, 1, 4] {
        assert_eq!(
            one(in_multi(OpCode::CreateContainer, create_flags)),
            (15, true)
        );
    }
    assert_eq!(one(ttl("/m", flags::TTL, 1000)), (15, false));
    assert_eq!(one(ttl("/m", 0, 5)), (1, false));
    assert_eq!(one(ttl("/m", 0, -1)), (1, false));
    assert_eq!(one(ttl("/m", flags::CONTAINER, 5)), (15, true));
}

#[test]
fn rows_174_to_176_a_failed_multi_changes_nothing() {
    let mut host = Host::new();
    host.write(create("/a"));
    host.write(create("/other"));
    let digest = host.tree.digest();
    let operations = vec![
        create("/a/x"),
        set("/a", "new"),
        check("/a", 5),
        create("/a/y"),
        delete("/a"),
    ];
    let record = host.propose(&multi(operations));
    let Txn::Multi(txns) = &record.txn else {
        panic!()
    };
    let types: Vec<i32> = txns.iter().map(|txn| txn.op().number()).collect();
    assert_eq!((record.header.op, types), (14, vec![1, 5, -1, -1, -1]));
    assert_eq!(txns[2], Txn::error(ErrorCode::BadVersion));
    assert_eq!(txns[4], Txn::error(ErrorCode::RuntimeInconsistency));
    assert_eq!(record.digest.unwrap().digest.cast_unsigned(), digest);
    let (outcome, events) = host.commit();
    let mut body = Vec::new();
    outcome.encode_body(OpCode::Multi, &mut body);
    let mut expected = Vec::new();
    for code in [0, 0, -103, -2, -2] {
        (-1i32).encode(&mut expected);
        false.encode(&mut expected);
        [code, code]
            .iter()
            .for_each(|code: &i32| code.encode(&mut expected));
    }
    MultiHeader::END.encode(&mut expected);
    assert_eq!((outcome.error(), body), (ErrorCode::Ok, expected));
    assert!(events.is_empty() && host.children("/a").is_empty());
    assert_eq!((host.tree.digest(), host.tree.last_zxid().0), (digest, 3));
}

#[test]
fn row_109_numbers_are_not_burnt_by_a_failed_multi() {
    let mut host = Host::new();
    let sequential = || create_flags("/s", flags::PERSISTENT_SEQUENTIAL);
    host.propose(&multi(vec![sequential(), sequential(), delete("/missing")]));
    let record = host.propose(&sequential());
    let Txn::Create(txn) = record.txn else {
        panic!()
    };
    assert_eq!(txn.path, "/s0000000000");
    host.commit();
}

#[test]
fn a_failed_multi_releases_its_pending_changes() {
    let mut host = Host::new();
    host.propose(&create_flags("/e", flags::EPHEMERAL));
    host.propose(&create("/p"));
    host.propose(&multi(vec![
        delete("/e"),
        create_flags("/f", flags::EPHEMERAL),
        set("/p", "x"),
        create("/p/c"),
        delete("/missing"),
    ]));
    host.propose(&set_version("/p", "y", 0));
    let record = host.propose(&WriteRequest::CloseSession);
    let paths = Some(vec!["/e".into()]);
    assert_eq!(record.txn, Txn::CloseSession { paths });
    host.commit();
    assert_eq!(
        (host.text("/p"), host.stat("/p").num_children),
        ("y".into(), 0)
    );
}

#[test]
fn row_177_empty_multis_and_checks_only() {
    let mut host = Host::new();
    let mut end = Vec::new();
    MultiHeader::END.encode(&mut end);
    assert_eq!(host.body(multi(vec![])), end);
    assert_eq!(
        result_types(&mut host, vec![check("/", -1), check("/", 0)]),
        [13, 13]
    );
    assert_eq!(host.tree.last_zxid().0, 2);
}

#[test]
fn rows_178_to_183_and_307_faults_refuse_it_whole_with_a_zxid() {
    let mut host = Host::new();
    for fault in [
        MultiFault::Undecodable,
        MultiFault::Operation(7),
        MultiFault::NullPath,
    ] {
        let record = host.propose(&WriteRequest::Multi(Err(fault)));
        assert_eq!(
            (record.header.op, &record.txn),
            (-1, &Txn::error(ErrorCode::MarshallingError))
        );
    }
    assert_eq!(host.commit().0.error(), ErrorCode::MarshallingError);
    assert_eq!(host.tree.last_zxid().0, 3);
    for refused in [
        set_acl("/", &[Acl::open()], -1),
        delete_container("/x"),
        multi(vec![]),
    ] {
        assert_eq!(host.code(multi(vec![refused])), -5);
    }
}

#[test]
fn rows_181_and_328_nulls_in_lists() {
    let mut host = Host::new();
    let with = |acl| {
        let mut request = create_request("/x", flags::TTL);
        request.acl = acl;
        WriteRequest::Create {
            op: OpCode::CreateTtl,
            request,
            ttl: 5,
        }
    };
    assert_eq!(host.results(vec![with(None)]), [-114]);
    let null_id = || {
        Some(vec![RequestAcl {
            perms: 1,
            scheme: Some("ip".into()),
            id: None,
        }])
    };
    assert_eq!(host.code(multi(vec![create("/y"), with(null_id())])), -5);
    assert!(!host.exists("/y"));
    assert_eq!(
        host.results(vec![check("/", 9), with(null_id())]),
        [-103, -2]
    );
}

#[test]
fn rows_182_184_185_308_and_309_errors_of_operations() {
    let mut host = Host::new();
    host.write(create_acl("/closed", &[Acl::new(0, "world", "anyone")]));
    host.write(create("/a"));
    for (operation, code) in [
        (check("/closed", -1), -102),
        (check("/missing", -1), -101),
        (check("foo", -1), -8),
        (create_acl("/x", &[]), -114),
        (create("/a//b"), -101),
        (create("//b"), -8),
        (ttl("/x", 9, 5), -8),
        (ttl("/x", 5, 0), -8),
        (ttl("/x", 5, -1), -8),
        (ttl("/x", 5, 1 << 40), -8),
        (set("/a/", ""), -8),
        (delete("/"), -8),
    ] {
        assert_eq!(
            host.results(vec![operation.clone()]),
            [code],
            "{operation:?}"
        );
    }
    let mut off = Host::with(TreeSettings::new(testkit::LIMITS));
    assert_eq!(off.results(vec![ttl("/x", 5, 0)]), [-6]);
    assert_eq!(off.results(vec![ttl("/x", 0, 5)]), [0]);
}

#[test]
fn row_186_events_of_a_multi_come_in_order() {
    let mut host = Host::new();
    host.write(create("/a"));
    for path in ["/a", "/b"] {
        host.read(exists(path, true)).ok();
    }
    host.read(children("/", true)).unwrap();
    let events = host.events(multi(vec![create("/b"), set("/a", "x"), set("/a", "y")]));
    let expected = [
        (EventType::NodeCreated, "/b"),
        (EventType::NodeChildrenChanged, "/"),
        (EventType::NodeDataChanged, "/a"),
    ];
    let events: Vec<_> = events
        .iter()
        .map(|(kind, path, zxid, _)| (*kind, &**path, *zxid))
        .collect();
    assert_eq!(events, expected.map(|(kind, path)| (kind, path, 2)));
}

fn reads(paths: &[(OpCode, Option<&str>)]) -> ReadRequest {
    let read = |(op, path): &(OpCode, Option<&str>)| {
        let request = PathWatchRequest {
            path: path.map(Into::into),
            watch: true,
        };
        match op {
            OpCode::GetData => ReadRequest::GetData(request),
            _ => ReadRequest::GetChildren(request),
        }
    };
    ReadRequest::MultiRead(MultiRead::Reads(paths.iter().map(read).collect()))
}

#[test]
fn rows_187_and_188_reads_are_independent_and_leave_no_watch() {
    let mut host = Host::new();
    host.write(create_data("/a", "x"));
    host.write(create_acl("/closed", &[Acl::new(2, "world", "anyone")]));
    let body = host.read(reads(&[
        (OpCode::GetData, Some("/a")),
        (OpCode::GetData, Some("/missing")),
        (OpCode::GetChildren, Some("/closed")),
        (OpCode::GetChildren, Some("/zookeeper")),
    ]));
    let mut body = Reader::new(body.unwrap());
    assert_eq!(
        MultiHeader::decode(&mut body),
        Ok(MultiHeader::result(OpCode::GetData))
    );
    assert_eq!(body.buffer().unwrap().unwrap(), "x");
    assert_eq!(Stat::decode(&mut body).unwrap(), host.stat("/a"));
    for code in [-101, -102] {
        let header = MultiHeader::decode(&mut body).unwrap();
        assert_eq!((header.op, header.err, body.i32()), (-1, code, Ok(code)));
    }
    assert_eq!(
        MultiHeader::decode(&mut body),
        Ok(MultiHeader::result(OpCode::GetChildren))
    );
    assert_eq!(Vec::<jute::Str>::decode(&mut body).unwrap().len(), 2);
    assert_eq!(MultiHeader::decode(&mut body), Ok(MultiHeader::END));
    assert!(host.watches.lock().is_empty());
}

#[test]
fn rows_189_190_and_313_a_refused_multi_read_keeps_its_results() {
    let mut host = Host::new();
    host.write(create_data("/a", "x"));
    let mut end = Vec::new();
    MultiHeader::END.encode(&mut end);
    let writes = host.read_raw(&ReadRequest::MultiRead(MultiRead::Writes));
    assert_eq!(writes, (Err(ErrorCode::MarshallingError), end.clone()));
    assert_eq!(host.read_raw(&reads(&[])), (Ok(()), end.clone()));
    let get = |path| (OpCode::GetData, path);
    let whole = host.read(reads(&[get(Some("/a"))])).unwrap();
    let (result, body) = host.read_raw(&reads(&[get(Some("/a")), get(None), get(Some("/a"))]));
    assert_eq!((result, body), (Err(ErrorCode::MarshallingError), whole));
}
