//! Tests of delete, deleteContainer, setData, setACL and reconfig, and of their effect on the stat.
//! The number in a name is a row of the checklist that these tests were written from.

use crate::common::host::*;
use proto::data::perms;
use proto::request::{
    PathVersionRequest, ReconfigRequest, SetAclRequest, SetDataRequest, WriteRequest, flags,
};
use proto::txn::Txn;
use proto::{Acl, ErrorCode, SessionId, Stat};
use zoarium_tree::{Outcome, TreeSettings};

fn all_but(perms: i32) -> Vec<Acl> {
    vec![Acl::new(31 & !perms, "world", "anyone")]
}

#[test]
fn rows_112_to_115_paths_that_cannot_be_deleted() {
    let mut host = Host::new();
    host.write(create("/a"));
    for system in ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"] {
        assert_eq!(host.code(delete(system)), -8, "{system}");
    }
    host.identities.push(id("super", ""));
    assert_eq!(host.code(delete("/zookeeper")), -8);
    for (path, code) in [
        ("foo", -8),
        ("", -8),
        ("/a/", -101),
        ("//a", -101),
        ("a/a", -101),
        ("/a\0", -8),
    ] {
        assert_eq!(host.code(delete(path)), code, "{path:?}");
    }
    assert!(host.exists("/a"));
}

#[test]
fn rows_116_to_123_checks_of_delete_in_order() {
    let mut host = Host::new();
    host.write(create("/a"));
    host.write(create("/a/b"));
    host.write(create_acl("/closed", &all_but(8)));
    assert_eq!(host.code(delete("/missing/x")), -101);
    assert_eq!(host.code(delete("/closed/x")), -102);
    assert_eq!(host.code(delete("/a/x")), -101);
    assert_eq!(host.code(delete_version("/a", 5)), -103);
    assert_eq!(host.code(delete("/a")), -111);
    let null = WriteRequest::Delete(PathVersionRequest {
        path: None,
        version: -1,
    });
    assert_eq!(host.code(null), -5);
    host.write(create_acl("/a/none", &[Acl::new(0, "world", "anyone")]));
    assert_eq!(host.code(delete("/a/none")), 0);
    host.session = SessionId(5);
    host.write(create_flags("/a/e", flags::EPHEMERAL));
    host.session = SESSION;
    assert_eq!(host.code(delete("/a/e")), 0);
    assert_eq!(host.tree.ephemerals_count(), 0);
}

#[test]
fn deletes_in_flight_are_seen() {
    let mut host = Host::new();
    host.write(create("/a"));
    host.write(create("/a/b"));
    host.propose(&delete("/a/b"));
    assert!(is_error(
        &host.propose(&delete("/a/b")).txn,
        ErrorCode::NoNode
    ));
    host.propose(&delete("/a"));
    assert!(is_error(
        &host.propose(&create("/a/b")).txn,
        ErrorCode::NoNode
    ));
    host.propose(&create("/a"));
    host.propose(&create_data("/a/b", "new"));
    host.commit();
    assert_eq!(
        (host.text("/a/b"), host.stat("/a").cversion),
        ("new".into(), 1)
    );
}

#[test]
fn rows_124_to_132_set_data() {
    let mut host = Host::new();
    host.write(create("/a"));
    assert_eq!(host.code(set("/missing", "")), -101);
    for bad in ["foo", "", "/a/", "//a", "/a/..", "/x\0"] {
        assert_eq!(host.code(set(bad, "")), -8, "{bad:?}");
    }
    let null = WriteRequest::SetData(SetDataRequest {
        path: None,
        data: None,
        version: -1,
    });
    assert_eq!(host.code(null), -8);
    assert_eq!(host.code(set_version("/a", "x", 1)), -103);
    assert_eq!(host.code(set_version("/a", "x", 0)), 0);
    host.write(create_acl("/closed", &all_but(2)));
    assert_eq!(host.code(set_version("/closed", "x", 9)), -102);
    assert_eq!(
        (
            host.code(set("/", "x")),
            host.code(set("/zookeeper/quota", "x"))
        ),
        (0, 0)
    );
    assert_eq!(host.code(set("/zookeeper/config", "x")), -102);
    host.identities.push(id("super", ""));
    assert_eq!(host.code(set("/zookeeper/config", "x")), 0);
}

#[test]
fn rows_133_to_135_and_168_set_acl() {
    let mut host = Host::new();
    host.write(create("/a"));
    let before = host.stat("/a");
    assert_eq!(host.code(set_acl("/a", &all_but(0), 1)), -103);
    assert_eq!(host.code(set_acl("/missing", &[], -1)), -114);
    assert_eq!(host.code(set_acl("foo", &[], -1)), -8);
    let null = WriteRequest::SetAcl(SetAclRequest {
        path: None,
        acl: open(),
        version: -1,
    });
    assert_eq!(host.code(null), -8);
    assert_eq!(host.code(set_acl("/missing", &all_but(0), -1)), -101);
    host.time_ms += 5;
    assert_eq!(host.code(set_acl("/a", &all_but(16), 0)), 0);
    let expected = Stat {
        aversion: 1,
        ..before
    };
    assert_eq!(host.stat("/a"), expected);
    assert_eq!(host.code(set_acl("/a", &all_but(0), 7)), -102);
}

/// Rows 156 and 305, except that Apache ZooKeeper does not check a permission and also deletes
/// other znodes.
#[test]
fn a_client_deletes_only_what_the_server_would_delete() {
    let mut host = Host::new();
    host.write(create_acl("/kept", &all_but(perms::DELETE)));
    host.write(container("/kept/c", flags::CONTAINER));
    host.write(container("/c", flags::CONTAINER));
    host.write(ttl("/due", flags::TTL, 500));
    host.time_ms += 1;
    host.write(ttl("/early", flags::TTL, 500));
    host.time_ms += 500;
    host.write(create("/plain"));
    host.write(create_acl("/closed", &[Acl::new(0, "world", "anyone")]));
    host.write(create("/full"));
    host.write(create("/full/x"));
    host.write(create_flags("/e", flags::EPHEMERAL));
    for (path, code) in [
        ("/c", 0),
        ("/c", -101),
        ("/due", 0),
        ("/early", -103),
        ("/plain", -103),
        ("/closed", -103),
        ("/kept/c", -102),
        ("/kept/missing", -102),
        ("/missing", -101),
        ("/full", -111),
        ("/e", -103),
        ("/", -8),
        ("/zookeeper", -8),
        ("c", -8),
        ("/full/", -101),
    ] {
        assert_eq!(host.code(delete_container(path)), code, "{path}");
    }
    host.session = SessionId::NONE;
    assert_eq!(
        host.code(delete_container("/early")),
        -103,
        "nor does the server"
    );
    assert_eq!(
        host.code(delete_container("/kept/c")),
        0,
        "it needs no permission"
    );
}

#[test]
fn row_155_reconfig_of_a_standalone_server() {
    let reconfig = || {
        WriteRequest::Reconfig(ReconfigRequest {
            joining: None,
            leaving: None,
            new_members: None,
            config_version: -1,
        })
    };
    assert_eq!(
        Host::with(TreeSettings::new(testkit::LIMITS)).code(reconfig()),
        -123
    );
    let mut host = Host::new();
    host.identities.push(id("super", ""));
    assert_eq!((host.code(reconfig()), host.zxid.0), (-6, 1));
}

#[test]
fn reconfig_in_an_ensemble_sets_the_config_znode() {
    let mut host = Host::with(TreeSettings {
        standalone: false,
        ..settings()
    });
    let ask = |host: &mut Host, plan: Result<&'static str, ErrorCode>| {
        host.zxid = host.zxid.next();
        let context = zoarium_tree::PrepareContext {
            session: host.session,
            cxid: 7,
            zxid: host.zxid,
            time_ms: 1,
            identities: &host.identities,
            session_check: host.session_check,
        };
        let plan = plan.map(|text| text.into());
        let record = host.overlay.prepare_reconfig(&host.tree, plan, &context);
        host.in_flight.push(record.clone());
        host.commit()
    };
    assert_eq!(
        ask(&mut host, Err(ErrorCode::ReconfigInProgress))
            .0
            .error()
            .code(),
        -14
    );
    assert_eq!(ask(&mut host, Ok("x")).0.error(), ErrorCode::NoAuth);
    host.identities.push(id("super", ""));
    let (outcome, _) = ask(&mut host, Ok("server.1=a:1:2:participant\nversion=3"));
    let stat = host.stat("/zookeeper/config");
    let data = Some(bytes::Bytes::from_static(
        b"server.1=a:1:2:participant\nversion=3",
    ));
    assert_eq!(outcome, Outcome::Config { data, stat });
    assert_eq!((stat.version, stat.aversion, stat.mzxid), (-1, -1, 3));
}

#[test]
fn rows_54_to_56_zxids_of_writes() {
    let mut host = Host::new();
    host.write(create("/a"));
    assert_eq!((host.stat("/a").czxid, host.tree.last_zxid().0), (1, 1));
    host.write(create("/a"));
    assert_eq!(host.tree.last_zxid().0, 2);
    host.write(set("/a", "x"));
    assert_eq!(host.stat("/a").mzxid, 3);
    assert_eq!(host.read(get("/missing", false)), Err(-101));
    assert_eq!(host.tree.last_zxid().0, 3);
}

#[test]
fn rows_157_to_164_stats_of_parents() {
    let mut host = Host::new();
    let root = host.stat("/");
    assert_eq!((root.czxid, root.cversion, root.num_children), (0, -1, 1));
    let zookeeper = host.stat("/zookeeper");
    assert_eq!((zookeeper.cversion, zookeeper.num_children), (-2, 2));
    assert_eq!(host.stat("/zookeeper/config").aversion, -1);
    host.write(create("/a"));
    host.write(create("/a/b"));
    host.write(create("/a/b/c"));
    assert_eq!((host.stat("/a").pzxid, host.stat("/a/b").pzxid), (2, 3));
    host.write(set("/a/b", "x"));
    assert_eq!(host.stat("/a").pzxid, 2);
    host.write(delete("/a/b/c"));
    host.write(delete("/a/b"));
    let a = host.stat("/a");
    assert_eq!((a.cversion, a.num_children, a.pzxid, a.mzxid), (2, 0, 6, 1));
    host.write(set("/a", "x"));
    host.write(delete("/a"));
    host.write(create("/a"));
    let a = host.stat("/a");
    assert_eq!((a.cversion, a.version, a.czxid), (0, 0, 9));
}

#[test]
fn rows_161_and_225_a_session_ends() {
    let mut host = Host::new();
    host.write(WriteRequest::CreateSession { timeout_ms: 5000 });
    assert_eq!(host.tree.session_timeout_ms(SESSION), Some(5000));
    host.write(create("/p"));
    for name in ["x", "y", "z"] {
        host.write(create_flags(&format!("/p/{name}"), flags::EPHEMERAL));
    }
    assert_eq!(host.stat("/p").cversion, 3);
    host.read(children("/p", true)).unwrap();
    host.propose(&delete("/p/y"));
    host.propose(&create_flags("/p/new", flags::EPHEMERAL));
    let record = host.propose(&WriteRequest::CloseSession);
    let paths = ["/p/new", "/p/x", "/p/z"].map(jute::Str::from).to_vec();
    assert_eq!(record.txn, Txn::CloseSession { paths: Some(paths) });
    let (_, events) = host.commit();
    let child_events = seen(&events)
        .into_iter()
        .filter(|event| event.1 == "/p")
        .count();
    assert_eq!(child_events, 1);
    let stat = host.stat("/p");
    assert_eq!(
        (stat.num_children, stat.pzxid, stat.cversion),
        (0, host.zxid.0, 8)
    );
    assert_eq!(
        (host.tree.sessions().len(), host.tree.ephemerals_count()),
        (0, 0)
    );
}

#[test]
fn a_session_without_list_ends_the_same() {
    let mut host = Host::with(TreeSettings {
        close_session_paths: false,
        ..settings()
    });
    host.write(create_flags("/e", flags::EPHEMERAL));
    host.propose(&create_flags("/f", flags::EPHEMERAL));
    let record = host.propose(&WriteRequest::CloseSession);
    assert_eq!(
        (record.txn, record.digest),
        (Txn::CloseSession { paths: None }, None)
    );
    host.commit();
    assert!(!host.exists("/e") && !host.exists("/f"));
}

#[test]
fn a_too_long_session_list_is_omitted() {
    let ends_with_list = |record_bytes_max: usize| {
        let mut host = Host::with(TreeSettings {
            record_bytes_max,
            ..settings()
        });
        host.write(create_flags("/e", flags::EPHEMERAL));
        // The total length of the paths exceeds the length of each creation.
        for number in 0..10 {
            host.write(create_flags(&format!("/e{number}"), flags::EPHEMERAL));
        }
        host.propose(&create_flags("/\u{1f600}", flags::EPHEMERAL));
        let record = host.propose(&WriteRequest::CloseSession);
        host.commit();
        assert!(!host.exists("/e") && !host.exists("/\u{1f600}"));
        assert_eq!(host.tree.sessions().len(), 0);
        let Txn::CloseSession { paths } = &record.txn else {
            panic!("{record:?}");
        };
        assert_eq!(paths.is_some(), record.digest.is_some());
        paths
            .is_some()
            .then(|| jute::Encode::to_bytes(&record).len())
    };
    let bytes = ends_with_list(1000).unwrap();
    assert_eq!(ends_with_list(bytes), Some(bytes));
    assert_eq!(ends_with_list(bytes - 1), None);
}

#[test]
fn ephemerals_deleted_and_created_again_in_flight_are_listed_once() {
    let mut host = Host::new();
    host.write(create_flags("/e", flags::EPHEMERAL));
    host.write(create_flags("/taken", flags::EPHEMERAL));
    for request in [
        delete("/e"),
        create_flags("/e", 1),
        delete("/e"),
        create_flags("/e", 1),
    ] {
        host.propose(&request);
    }
    host.propose(&delete("/taken"));
    host.session = SessionId(9);
    host.propose(&create_flags("/taken", flags::EPHEMERAL));
    host.session = SESSION;
    let record = host.propose(&WriteRequest::CloseSession);
    let paths = Some(vec!["/e".into()]);
    assert_eq!(record.txn, Txn::CloseSession { paths });
    host.commit();
    assert!(host.exists("/taken"));
}

#[test]
fn errors_have_no_digest_and_change_nothing() {
    let mut host = Host::new();
    host.write(create("/a"));
    let digest = host.tree.digest();
    let record = host.propose(&create("/a"));
    assert_eq!((record.digest, host.overlay.digest()), (None, digest));
    host.commit();
    assert_eq!(host.tree.digest(), digest);
}

#[test]
fn rows_278_to_280_digests() {
    let mut host = Host::new();
    assert_eq!(host.tree.digest(), 1_371_985_504);
    assert_eq!(host.tree.last_applied_digest(), None);
    for n in 0..300 {
        host.write(create(&format!("/n{n}")));
    }
    let history: Vec<_> = host.tree.digest_history().collect();
    assert_eq!(
        history.iter().map(|(zxid, _)| zxid.0).collect::<Vec<_>>(),
        [128, 256]
    );
    assert_eq!(
        host.tree.last_applied_digest(),
        Some((host.zxid, host.tree.digest()))
    );
    let without = Host::with(TreeSettings {
        digest_enabled: false,
        ..settings()
    });
    assert_eq!(without.tree.digest(), 0);
}

#[test]
fn without_digests_records_carry_none() {
    let mut host = Host::with(TreeSettings {
        digest_enabled: false,
        ..settings()
    });
    assert_eq!(host.propose(&create("/a")).digest, None);
    host.commit();
    host.write(set("/a", "x"));
    assert_eq!(
        (host.tree.digest(), host.tree.digest_history().count()),
        (0, 0)
    );
}
