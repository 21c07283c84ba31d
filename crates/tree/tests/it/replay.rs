//! Replay over a fuzzy snapshot: every rule of DataTree.processTxn, including those that Zoarium's
//! own snapshots never need.

use std::sync::Arc;

use crate::common::files::{SnapshotContent, snapshot_bytes};
use crate::common::host::{Host, create, create_acl, create_flags, delete, set, settings};
use jute::{Reader, Str};
use proto::request::{WriteRequest, flags};
use proto::txn::{CreateContainerTxn, CreateTxn, SetAclTxn, SetDataTxn, Txn, TxnHeader, TxnRecord};
use proto::{Acl, ErrorCode, SessionId, StatPersisted, Zxid};
use zoarium_tree::{LoadError, Outcome, Tree, TreeLoader, Watches};

fn loader() -> TreeLoader {
    TreeLoader::new(Arc::new(settings()))
}

fn stat(cversion: i32, pzxid: i64) -> StatPersisted {
    StatPersisted {
        cversion,
        pzxid,
        ..StatPersisted::default()
    }
}

/// Loads `/p` as it was at zxid 5 with one creation, and `/p/c` with an ACL list that the map
/// lacks.
fn fuzzy() -> Tree {
    let mut loader = loader();
    loader.acl(1, &[Acl::open()]);
    loader.znode("", Some(&[]), -1, stat(1, 3)).unwrap();
    loader.znode("/p", Some(b"p"), 1, stat(1, 5)).unwrap();
    loader.znode("/p/c", Some(b"newer"), 7, stat(0, 9)).unwrap();
    loader.finish(Zxid(5)).unwrap()
}

fn apply(tree: &mut Tree, zxid: i64, txn: Txn) -> ErrorCode {
    let header = TxnHeader {
        session: SessionId(1),
        cxid: 1,
        zxid: Zxid(zxid),
        time_ms: 1,
        op: txn.op().number(),
    };
    let record = TxnRecord {
        header,
        txn,
        digest: None,
    };
    tree.apply(&record, &mut Watches::new(), &mut Vec::new())
        .error()
}

fn content(tree: &Tree) -> SnapshotContent {
    SnapshotContent::read(Reader::new(snapshot_bytes(tree, 10)))
}

fn stat_of(tree: &Tree, path: &str) -> StatPersisted {
    content(tree)
        .nodes
        .iter()
        .find(|node| node.path == path)
        .unwrap()
        .stat
}

fn create_txn(path: &str, parent_cversion: i32) -> CreateTxn {
    CreateTxn {
        path: path.into(),
        data: Some("log".into()),
        acl: vec![Acl::new(5, "world", "anyone")],
        ephemeral: false,
        parent_cversion,
    }
}

#[test]
fn replaying_an_existing_create_sets_its_acl_and_raises_the_parent() {
    let container = Txn::CreateContainer(CreateContainerTxn {
        path: "/p/c".into(),
        data: None,
        acl: vec![Acl::new(5, "world", "anyone")],
        parent_cversion: 3,
    });
    let plain = |parent_cversion| Txn::Create(create_txn("/p/c", parent_cversion));
    for (txn, expected) in [
        (plain(3), (3, 8)),
        (plain(-1), (2, 8)),
        (plain(1), (1, 5)),
        (Txn::Create2(create_txn("/p/c", 3)), (3, 8)),
        (container, (3, 8)),
    ] {
        let mut tree = fuzzy();
        assert_eq!(apply(&mut tree, 8, txn), ErrorCode::NodeExists);
        let parent = stat_of(&tree, "/p");
        assert_eq!((parent.cversion, parent.pzxid), expected);
        let content = content(&tree);
        let node = content
            .nodes
            .iter()
            .find(|node| node.path == "/p/c")
            .unwrap();
        assert_eq!(node.data.as_deref(), Some(&b"newer"[..]));
        let (_, list) = content.acls.iter().find(|(id, _)| *id == node.acl).unwrap();
        assert_eq!(list[..], [Acl::new(5, "world", "anyone")]);
    }
}

#[test]
fn replaying_a_create_never_lowers_the_parent() {
    let mut tree = fuzzy();
    assert_eq!(
        apply(&mut tree, 4, Txn::Create(create_txn("/p/d", 1))),
        ErrorCode::Ok
    );
    assert_eq!(
        (stat_of(&tree, "/p").cversion, stat_of(&tree, "/p").pzxid),
        (1, 5)
    );
    assert_eq!(tree.last_zxid(), Zxid(5));
    let v0 = Txn::CreateV0(create_txn("/p/e", -1));
    assert_eq!(apply(&mut tree, 6, v0), ErrorCode::Ok);
    assert_eq!(
        (stat_of(&tree, "/p").cversion, stat_of(&tree, "/p").pzxid),
        (2, 6)
    );
    let missing = Txn::Create(create_txn("/missing/x", 1));
    assert_eq!(apply(&mut tree, 7, missing), ErrorCode::NoNode);
    assert_eq!(tree.last_zxid(), Zxid(7));
}

#[test]
fn replaying_a_delete_of_a_missing_znode_raises_the_parent() {
    let mut tree = fuzzy();
    let delete = |path: &str| Txn::Delete { path: path.into() };
    assert_eq!(apply(&mut tree, 4, delete("/p/gone")), ErrorCode::NoNode);
    assert_eq!(stat_of(&tree, "/p").pzxid, 5);
    assert_eq!(apply(&mut tree, 8, delete("/p/gone")), ErrorCode::NoNode);
    assert_eq!(stat_of(&tree, "/p").pzxid, 8);
    assert_eq!(apply(&mut tree, 9, delete("/gone/x")), ErrorCode::NoNode);
}

#[test]
fn replaying_a_delete_removes_later_children() {
    let mut tree = fuzzy();
    for path in ["/p/c/d", "/p/c/d/e"] {
        apply(&mut tree, 6, Txn::Create(create_txn(path, 1)));
    }
    let (count, digest) = (tree.node_count(), tree.digest());
    assert_eq!(
        apply(
            &mut tree,
            7,
            Txn::Delete {
                path: "/p/c".into()
            }
        ),
        ErrorCode::Ok
    );
    assert_eq!(tree.node_count(), count - 3);
    for path in ["/p/c", "/p/c/d", "/p/c/d/e"] {
        assert_eq!(
            apply(&mut tree, 8, Txn::Create(create_txn(path, 1))),
            ErrorCode::Ok,
            "{path}"
        );
    }
    assert_eq!(tree.node_count(), count);
    assert_ne!(tree.digest(), digest);
    let again = content(&tree).load(&Arc::new(settings()), Zxid(8));
    assert_eq!((again.digest(), again.node_count()), (tree.digest(), count));
}

#[test]
fn replayed_changes_skip_missing_znodes_and_are_absolute() {
    let mut tree = fuzzy();
    let set = |path: &str, version| {
        Txn::SetData(SetDataTxn {
            path: path.into(),
            data: Some("x".into()),
            version,
        })
    };
    let set_acl = |path: &str| {
        Txn::SetAcl(SetAclTxn {
            path: path.into(),
            acl: vec![Acl::open()],
            version: 9,
        })
    };
    assert_eq!(apply(&mut tree, 6, set("/gone", 1)), ErrorCode::NoNode);
    assert_eq!(apply(&mut tree, 6, set_acl("/gone")), ErrorCode::NoNode);
    assert_eq!(apply(&mut tree, 6, set("/p", 4)), ErrorCode::Ok);
    assert_eq!(apply(&mut tree, 6, set_acl("/p/c")), ErrorCode::Ok);
    assert_eq!(
        (
            stat_of(&tree, "/p").version,
            stat_of(&tree, "/p/c").aversion
        ),
        (4, 9)
    );
}

#[test]
fn close_session_deletes_listed_paths_and_then_its_own() {
    let mut host = Host::new();
    for (session, path) in [(1, "/mine"), (1, "/unlisted"), (2, "/others")] {
        host.session = SessionId(session);
        host.write(create_flags(path, flags::EPHEMERAL));
    }
    let paths: Vec<Str> = ["/others", "/gone", "/mine"].map(Into::into).to_vec();
    apply(&mut host.tree, 9, Txn::CloseSession { paths: Some(paths) });
    assert_eq!(host.tree.ephemerals_count(), 0);
}

#[test]
fn a_multi_applied_twice_gives_the_same_tree() {
    let mut host = Host::new();
    let multi = WriteRequest::Multi(Ok(vec![
        create("/a"),
        create("/a/b"),
        set("/a", "x"),
        delete("/a/b"),
    ]));
    let record = host.propose(&multi);
    host.commit();
    let digest = host.tree.digest();
    let outcome = host
        .tree
        .apply(&record, &mut Watches::new(), &mut Vec::new());
    assert!(matches!(&outcome, Outcome::Multi(results) if results.len() == 4));
    assert_eq!(host.tree.digest(), digest);
}

#[test]
fn invalid_log_records_are_refused_without_effect() {
    let mut tree = fuzzy();
    let digest = tree.digest();
    for path in ["", "/", "x", "//", "//x", "/p/", "p/c"] {
        let code = apply(&mut tree, 6, Txn::Create(create_txn(path, 1)));
        assert_eq!(code, ErrorCode::NoNode, "{path}");
        let code = apply(&mut tree, 6, Txn::Delete { path: path.into() });
        assert_ne!(code, ErrorCode::Ok, "{path}");
    }
    for path in ["/zookeeper", "/zookeeper/quota", "/zookeeper/config"] {
        let code = apply(&mut tree, 6, Txn::Delete { path: path.into() });
        assert_eq!(code, ErrorCode::BadArguments);
    }
    assert_eq!(
        apply(&mut tree, 6, Txn::Error { code: 12345 }),
        ErrorCode::SystemError
    );
    assert_eq!(
        apply(&mut tree, 6, Txn::Multi(vec![Txn::Multi(vec![])])),
        ErrorCode::Ok
    );
    assert_eq!(tree.digest(), digest);
}

#[test]
fn an_unknown_acl_permits_only_super_users_until_replayed() {
    let mut host = Host::of(fuzzy());
    assert_eq!(
        host.read(crate::common::host::exists("/p/c", false)),
        Err(-102)
    );
    host.write(create_acl("/new", &[Acl::new(1, "ip", "1.2.3.4")]));
    assert_eq!(
        host.read(crate::common::host::exists("/p/c", false)),
        Err(-102)
    );
    host.identities = vec![crate::common::host::id("super", "")];
    assert!(host.exists("/p/c"));
}

#[test]
fn invalid_trees_are_refused() {
    assert_eq!(loader().finish(Zxid(1)).unwrap_err(), LoadError::NoRoot);
    let znode = |loader: &mut TreeLoader, path: &str| loader.znode(path, None, -1, stat(0, 0));
    let path = |path: &str| path.to_owned();
    let first = znode(&mut loader(), "/a");
    assert_eq!(first, Err(LoadError::MissingParent { path: path("/a") }));
    let some = || {
        let mut loader = loader();
        for good in ["", "/a", "/a/b", "/a/b/c", "/a/d", "/e"] {
            assert_eq!(znode(&mut loader, good), Ok(()));
        }
        loader
    };
    // The duplicate is detected immediately, at the end, and when another znode is looked up.
    let there_twice = |again| LoadError::Duplicate { path: path(again) };
    assert_eq!(znode(&mut some(), ""), Err(there_twice("")));
    for again in ["/a", "/a/b/c", "/e"] {
        let mut loader = some();
        assert_eq!(znode(&mut loader, again), Ok(()));
        assert_eq!(loader.finish(Zxid(1)).unwrap_err(), there_twice(again));
    }
    let mut loader = some();
    assert_eq!(znode(&mut loader, "/a/d"), Ok(()));
    assert_eq!(znode(&mut loader, "/e/x"), Err(there_twice("/a/d")));
    let mut loader = some();
    for missing in ["/x/y", "/a/x/y", "a/b"] {
        let expected = Err(LoadError::MissingParent {
            path: path(missing),
        });
        assert_eq!(znode(&mut loader, missing), expected);
    }
    for bad in ["a", "/", "//", "//a", "/a/"] {
        assert_eq!(
            znode(&mut loader, bad),
            Err(LoadError::Path { path: path(bad) }),
            "{bad}"
        );
    }
    assert_eq!(znode(&mut loader, "/a/b/late"), Ok(()));
    let tree = loader.finish(Zxid(1)).unwrap();
    assert_eq!(tree.node_count(), 7 + 2 + 1);
}

#[test]
fn missing_system_znodes_of_an_old_snapshot_are_created() {
    let mut loader = loader();
    loader.znode("", Some(&[]), -1, stat(0, 0)).unwrap();
    let tree = loader.finish(Zxid(0)).unwrap();
    let fresh = Tree::new(Arc::new(settings()));
    assert_eq!(tree.digest(), fresh.digest());
    let (_, _, nodes) = content(&tree).sorted();
    let paths: Vec<&str> = nodes.iter().map(|node| &node.path[..]).collect();
    // A standalone server leaves data of releases before 3.5 without a config znode.
    assert_eq!(paths, ["", "/zookeeper", "/zookeeper/quota"]);
    assert_eq!(tree.approximate_data_size(), 27);
}
