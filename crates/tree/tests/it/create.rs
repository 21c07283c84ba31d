//! Tests of create, create2, createContainer and createTTL. The number in a name is a row of the
//! checklist that these tests were written from.

use crate::common::host::*;
use proto::data::RequestAcl;
use proto::request::{WriteRequest, flags};
use proto::txn::Txn;
use proto::{Acl, ErrorCode, OpCode, SessionId};
use zoarium_tree::{Outcome, SessionKind, TreeSettings};

#[test]
fn rows_63_to_72_paths_and_what_must_exist() {
    let mut host = Host::new();
    assert_eq!(host.code(create("/a")), 0);
    for (path, code) in [
        ("/a", -110),
        ("/missing/x", -101),
        ("foo", -8),
        ("", -8),
        ("foo/bar", -101),
        ("//a", -8),
        ("/a//b", -101),
        ("/a/./b", -101),
        ("/a/", -8),
        ("/missing/", -101),
        ("/", -110),
        ("/.", -8),
        ("/..", -8),
        ("/a/.", -8),
        ("/.x", 0),
        ("/...", 0),
        ("/\u{1}", -8),
        ("/\u{7f}", -8),
        ("/x\0", -8),
        ("/\u{e000}", -8),
        ("/\u{fffd}", -8),
        ("/\u{1f600}", -8),
        ("/zookeeper/x", 0),
    ] {
        assert_eq!(host.code(create(path)), code, "{path:?}");
    }
    assert_eq!(host.children("/a"), [""; 0]);
}

#[test]
fn row_67_a_null_path_costs_a_zxid() {
    for op in [OpCode::Create, OpCode::Create2, OpCode::CreateContainer] {
        let mut host = Host::new();
        let mut request = create_request("/a", 0);
        request.path = None;
        let record = host.propose(&create_as(op, request));
        assert_eq!(record.txn, Txn::error(ErrorCode::MarshallingError));
        assert_eq!((record.header.op, record.digest), (-1, None));
        assert_eq!(host.commit().0.error(), ErrorCode::MarshallingError);
        assert_eq!(host.tree.last_zxid(), host.zxid);
    }
}

#[test]
fn rows_73_74_107_and_300_sequential_names() {
    let mut host = Host::new();
    let sequential = |path| create_flags(path, flags::PERSISTENT_SEQUENTIAL);
    assert_eq!(host.created(sequential("/")), "/0000000000");
    host.write(create("/a"));
    assert_eq!(host.created(sequential("/a/.")), "/a/.0000000000");
    assert_eq!(host.created(sequential("/a/..")), "/a/..0000000001");
    assert_eq!(host.created(sequential("/a/")), "/a/0000000002");
    assert_eq!(host.created(sequential("/a/n-")), "/a/n-0000000003");
}

#[test]
fn rows_108_110_160_and_301_the_number_is_the_count_of_creations() {
    let mut host = Host::new();
    let sequential = || create_flags("/a/s", flags::PERSISTENT_SEQUENTIAL);
    host.write(create("/a"));
    for _ in 0..3 {
        host.write(create("/a/x"));
        host.write(delete("/a/x"));
    }
    assert_eq!(host.stat("/a").cversion, 6);
    assert_eq!(host.created(sequential()), "/a/s0000000003");
    host.write(create("/a/s0000000005"));
    assert_eq!(host.code(sequential()), -110);
    assert_eq!(host.code(sequential()), -110);
    for name in ["s0000000003", "s0000000005"] {
        host.write(delete(&format!("/a/{name}")));
    }
    assert_eq!(host.created(sequential()), "/a/s0000000005");
    host.write(delete("/a/s0000000005"));
    host.write(delete("/a"));
    host.write(create("/a"));
    assert_eq!(host.created(sequential()), "/a/s0000000000");
}

#[test]
fn sequence_numbers_continue_while_creates_are_in_flight() {
    let mut host = Host::new();
    for number in 0..5 {
        let record = host.propose(&create_flags("/s", flags::EPHEMERAL_SEQUENTIAL));
        let Txn::Create(txn) = record.txn else {
            panic!()
        };
        assert_eq!(txn.path, format!("/s{number:010}"));
        assert_eq!((txn.ephemeral, txn.parent_cversion), (true, number + 1));
    }
    host.commit();
    assert_eq!(host.tree.ephemerals_count(), 5);
}

#[test]
fn rows_83_to_89_lists_are_checked_before_the_parent() {
    let mut host = Host::new();
    let with = |path: &str, acl: Option<Vec<RequestAcl>>| {
        let mut request = create_request(path, 0);
        request.acl = acl;
        create_as(OpCode::Create, request)
    };
    assert_eq!(host.code(with("/a", None)), -114);
    assert_eq!(host.code(with("/a", Some(vec![]))), -114);
    assert_eq!(host.code(with("/missing/a", Some(vec![]))), -114);
    assert_eq!(host.code(with("foo", Some(vec![]))), -8);
    let null_id = RequestAcl {
        perms: 31,
        scheme: Some("world".into()),
        id: None,
    };
    assert_eq!(host.code(with("/a", Some(vec![null_id]))), -5);
    assert!(!host.exists("/a"));
}

#[test]
fn row_90_flags_that_do_not_exist() {
    let mut host = Host::new();
    for op in [OpCode::Create, OpCode::Create2, OpCode::CreateContainer] {
        for bad in [7, 9, -1] {
            assert_eq!(host.code(create_as(op, create_request("/a", bad))), -8);
        }
    }
    assert_eq!(host.code(ttl("/a", 9, 1000)), -8);
}

#[test]
fn row_91_ttl_flags_while_extended_types_are_off() {
    let mut host = Host::with(TreeSettings::new(testkit::LIMITS));
    assert_eq!(host.code(ttl("/a", 5, 1000)), -6);
    assert_eq!(host.code(ttl("/a", 6, -7)), -6);
    assert_eq!(host.code(create_flags("/a", 5)), -6);
    assert_eq!(host.zxid.0, 3);
}

#[test]
fn rows_92_to_95_ttls_and_flags_must_fit() {
    let mut host = Host::new();
    for (create_flags, time, code) in [
        (0, 5, -8),
        (5, 0, -8),
        (5, -1, -8),
        (6, -1, -8),
        (4, 1000, -8),
        (5, 0x100_0000_0000, -8),
        (5, 0xff_ffff_ffff, 0),
        // Passes all checks of a Java server, and stops it.
        (0, -1, -8),
        (1, -5, -8),
        (4, -1, -8),
    ] {
        let name = format!("/t{create_flags}_{time}");
        assert_eq!(host.code(ttl(&name, create_flags, time)), code, "{name}");
    }
    assert_eq!(host.code(create_flags("/x", 5)), -8);
    assert_eq!(host.created(ttl("/t", 6, 1)), "/t0000000001");
}

#[test]
fn row_96_flag_4_alone_makes_a_persistent_znode() {
    for op in [OpCode::Create, OpCode::Create2] {
        let mut host = Host::new();
        let record = host.propose(&create_as(op, create_request("/a", flags::CONTAINER)));
        assert!(matches!(record.txn, Txn::Create(_) | Txn::Create2(_)));
        assert_eq!(record.header.op, op.number());
        host.commit();
        host.write(create("/a/b"));
        host.write(delete("/a/b"));
        assert!(host.tree.expired_candidates(1_000_000, 0).is_empty());
    }
}

#[test]
fn rows_97_and_304_containers_by_flags() {
    let mut host = Host::new();
    for (create_flags, created) in [
        (0, Ok("/c0")),
        (1, Ok("/c1")),
        (2, Ok("/c20000000002")),
        (3, Ok("/c30000000003")),
        (4, Ok("/c4")),
        (5, Err(-8)),
        (6, Err(-8)),
        (7, Err(-8)),
        (9, Err(-8)),
        (-1, Err(-8)),
    ] {
        let (outcome, _) = host.write(container(&format!("/c{create_flags}"), create_flags));
        match created {
            Ok(expected) => {
                let Outcome::Created { path, stat, .. } = &outcome else {
                    panic!("{outcome:?}")
                };
                assert_eq!((&**path, stat.ephemeral_owner), (expected, 0));
                let mut body = Vec::new();
                outcome.encode_body(OpCode::CreateContainer, &mut body);
                assert_eq!(body.len(), 4 + expected.len() + 68);
            }
            Err(code) => assert_eq!(outcome.error().code(), code, "{create_flags}"),
        }
    }
    assert_eq!(host.tree.ephemerals_count(), 0);
}

#[test]
fn a_container_with_an_ephemeral_flag_takes_no_child_while_it_is_in_flight() {
    let mut host = Host::new();
    host.propose(&container("/c", flags::EPHEMERAL));
    let record = host.propose(&create("/c/x"));
    assert_eq!(record.txn, Txn::error(ErrorCode::NoChildrenForEphemerals));
    host.commit();
    assert_eq!(host.code(create("/c/x")), 0);
}

#[test]
fn rows_98_to_101_children_of_ephemerals() {
    let mut host = Host::new();
    host.write(create_flags("/e", flags::EPHEMERAL));
    assert_eq!(host.code(create("/e/x")), -108);
    assert_eq!(
        host.code(create_flags("/e/x", flags::PERSISTENT_SEQUENTIAL)),
        -108
    );
    host.write(container("/c", flags::CONTAINER));
    host.write(ttl("/t", flags::TTL, 1000));
    assert_eq!(
        (host.code(create("/c/x")), host.code(create("/t/x"))),
        (0, 0)
    );
    host.write(set_acl("/e", &[Acl::new(1, "world", "anyone")], -1));
    assert_eq!(host.code(create("/e/x")), -102);
    host.propose(&create_flags("/f", flags::EPHEMERAL));
    let record = host.propose(&create("/f/x"));
    assert_eq!(record.txn, Txn::error(ErrorCode::NoChildrenForEphemerals));
}

#[test]
fn row_103_replies_of_create_and_create2() {
    let mut host = Host::new();
    assert_eq!(host.body(create("/a")), b"\0\0\0\x02/a");
    let body = host.body(create_as(OpCode::Create2, create_request("/b", 0)));
    let stat = host.stat("/b");
    assert_eq!(
        (stat.version, stat.mzxid, stat.czxid, stat.pzxid),
        (0, 2, 2, 2)
    );
    let mut expected = b"\0\0\0\x02/b".to_vec();
    jute::Encode::encode(&stat, &mut expected);
    assert_eq!(body, expected);
}

#[test]
fn rows_104_and_106_permission_to_create() {
    let mut host = Host::new();
    host.write(create_acl("/a", &[Acl::new(31 & !4, "world", "anyone")]));
    assert_eq!(host.code(create("/a/b")), -102);
    assert_eq!(host.code(create("/zookeeper/config/x")), -102);
    host.identities.push(id("super", ""));
    assert_eq!(host.code(create("/a/b")), 0);
    let mut skipping = Host::with(TreeSettings {
        skip_acl: true,
        ..settings()
    });
    skipping.write(create_acl("/a", &[Acl::new(0, "world", "anyone")]));
    assert_eq!(skipping.code(create("/a/b")), 0);
    assert!(skipping.exists("/a"));
}

#[test]
fn row_111_null_and_empty_data_differ() {
    let mut host = Host::new();
    let mut request = create_request("/null", 0);
    request.data = None;
    host.write(create_as(OpCode::Create, request));
    host.write(create("/empty"));
    assert_eq!(
        (host.data("/null"), host.data("/empty")),
        (None, Some(vec![]))
    );
    assert_eq!(
        (
            host.stat("/null").data_length,
            host.stat("/empty").data_length
        ),
        (0, 0)
    );
}

#[test]
fn rows_165_and_166_owners_that_clients_see() {
    let mut host = Host::new();
    host.write(create_flags("/e", flags::EPHEMERAL));
    host.write(container("/c", flags::CONTAINER));
    host.write(ttl("/t", flags::TTL, 60_000));
    let owner = |path| host.stat(path).ephemeral_owner;
    assert_eq!((owner("/e"), owner("/c"), owner("/t")), (SESSION.0, 0, 0));
}

#[test]
fn row_274_ephemerals_need_a_global_session() {
    let mut host = Host::new();
    host.session_check = Ok(SessionKind::Local);
    assert_eq!(host.code(create_flags("/e", flags::EPHEMERAL)), -120);
    assert_eq!(
        host.code(create_flags("/e", flags::EPHEMERAL_SEQUENTIAL)),
        -120
    );
    assert_eq!(host.code(container("/e", flags::EPHEMERAL)), -120);
    assert_eq!(host.code(create("/a")), 0);
    let results = host.results(vec![create("/b"), create_flags("/e", flags::EPHEMERAL)]);
    assert_eq!(results, [0, -120]);
}

#[test]
fn an_ephemeral_of_another_servers_local_session_is_refused() {
    let mut host = Host::new();
    host.session_check = Ok(SessionKind::Elsewhere);
    assert_eq!(host.code(create_flags("/e", flags::EPHEMERAL)), -112);
    assert_eq!(host.code(create("/a")), 0);
    let results = host.results(vec![create("/b"), create_flags("/e", flags::EPHEMERAL)]);
    assert_eq!(results, [0, -112]);
}

#[test]
fn an_expired_session_is_detected_after_the_flags() {
    let mut host = Host::new();
    host.session_check = Err(ErrorCode::SessionExpired);
    assert_eq!(host.code(create_flags("/a", 9)), -8);
    assert_eq!(host.code(create("foo")), -112);
    assert_eq!(host.code(delete("/")), -112);
    assert_eq!(host.code(set("foo", "")), -112);
    assert_eq!(host.code(set_acl("foo", &[], -1)), -112);
    assert_eq!(host.code(delete_container("/")), -112);
    assert_eq!(host.results(vec![create("/a"), create("/b")]), [-112, -2]);
    host.session_check = Err(ErrorCode::SessionMoved);
    let (outcome, _) = host.write(WriteRequest::Multi(Ok(vec![create("/a")])));
    assert_eq!(outcome.error(), ErrorCode::SessionMoved);
}

#[test]
fn the_creation_count_stops_at_its_end_as_in_java() {
    let mut loader = zoarium_tree::TreeLoader::new(std::sync::Arc::new(settings()));
    let stat = proto::StatPersisted {
        cversion: i32::MAX,
        pzxid: 5,
        ..Default::default()
    };
    loader.znode("", Some(&[]), -1, stat).unwrap();
    let mut host = Host::of(loader.finish(proto::Zxid(9)).unwrap());
    let sequential = create_flags("/s", flags::PERSISTENT_SEQUENTIAL);
    assert_eq!(host.created(sequential.clone()), "/s2147483647");
    assert_eq!(host.code(sequential), -110);
    assert_eq!(host.stat("/").pzxid, 5);
}

/// The counter in flight wraps to its lowest value. The applied counter stays at its maximum, so
/// that the digests of the transactions are correct (`Host::commit` compares them).
///
/// Source: PrepRequestProcessor.pRequest2TxnCreate, DataTree.createNode.
#[test]
fn the_creation_count_in_flight_wraps_as_in_java() {
    let mut loader = zoarium_tree::TreeLoader::new(std::sync::Arc::new(settings()));
    let stat = proto::StatPersisted {
        cversion: i32::MAX - 1,
        ..Default::default()
    };
    loader.znode("", Some(&[]), -1, stat).unwrap();
    let mut host = Host::of(loader.finish(proto::Zxid(9)).unwrap());
    let sequential = create_flags("/s", flags::PERSISTENT_SEQUENTIAL);
    let counts = [(2_147_483_647, "/s2147483646"), (i32::MIN, "/s2147483647")];
    let wrapped = [
        (i32::MIN + 1, "/s-2147483648"),
        (i32::MIN + 2, "/s-2147483647"),
    ];
    for (count, path) in counts.into_iter().chain(wrapped) {
        let record = host.propose(&sequential);
        let Txn::Create(txn) = record.txn else {
            panic!("{path}: {record:?}");
        };
        assert_eq!((&*txn.path, txn.parent_cversion), (path, count));
        // Other changes of the parent do not change the counter.
        host.propose(&set("/", "x"));
    }
    host.commit();
    assert_eq!(host.code(sequential), -110, "the applied count has stayed");
    for path in [
        "/s2147483646",
        "/s2147483647",
        "/s-2147483648",
        "/s-2147483647",
    ] {
        assert_eq!(host.stat(path).data_length, 0);
    }
}

#[test]
fn an_ephemeral_may_be_owned_by_any_session_number() {
    for session in [i64::MIN, -1, 0xff00_0000_0000_0001_u64.cast_signed(), 1] {
        let mut host = Host::new();
        host.session = SessionId(session);
        assert_eq!(host.code(create_flags("/e", flags::EPHEMERAL)), 0);
        host.write(WriteRequest::CloseSession);
        host.write(delete("/e"));
        assert_eq!(host.tree.ephemerals_count(), 0);
    }
}
