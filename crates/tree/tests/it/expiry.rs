//! Tests of containers, TTL znodes and owners without a session. The number in a name is a row of
//! the checklist that these tests were written from.

use std::sync::Arc;

use crate::common::files::{self, SnapshotContent};
use crate::common::host::*;
use jute::Reader;
use proto::request::{WriteRequest, flags};
use proto::txn::{CreateTtlTxn, Txn, TxnHeader, TxnRecord};
use proto::{Acl, ErrorCode, SessionId, Zxid};
use zoarium_tree::{Outcome, Tree, TreeSettings, Watches};

#[test]
fn rows_264_and_265_containers() {
    let mut host = Host::new();
    host.write(container("/c", flags::CONTAINER));
    let candidates =
        |host: &Host, now_ms, never_used_ms| host.tree.expired_candidates(now_ms, never_used_ms);
    assert!(candidates(&host, i64::MAX, 0).is_empty());
    assert!(candidates(&host, 1500, 500).is_empty());
    assert_eq!(candidates(&host, 1501, 500), ["/c"]);
    host.write(create("/c/x"));
    assert!(candidates(&host, i64::MAX, 1).is_empty());
    host.write(delete("/c/x"));
    assert_eq!(candidates(&host, 0, 0), ["/c"]);
    host.read(exists("/c", true)).unwrap();
    host.session = SessionId::NONE;
    let record = host.propose(&delete_container("/c"));
    assert_eq!(record.txn, Txn::DeleteContainer { path: "/c".into() });
    assert_eq!(seen(&host.commit().1).len(), 1);
    assert!(candidates(&host, i64::MAX, 1).is_empty());
}

#[test]
fn rows_266_to_268_ttl_znodes() {
    let mut host = Host::new();
    host.write(ttl("/t", flags::TTL, 500));
    let expired = |host: &Host, now_ms| !host.tree.expired_candidates(now_ms, 0).is_empty();
    assert!(!expired(&host, 1500) && expired(&host, 1501));
    host.write(create("/t/x"));
    assert!(!expired(&host, 9999));
    host.write(delete("/t/x"));
    assert!(expired(&host, 1501));
    host.time_ms = 2000;
    host.write(set("/t", ""));
    assert!(!expired(&host, 2500) && expired(&host, 2501));
    assert_eq!(host.tree.ephemerals_count(), 0);
}

#[test]
fn a_create_ttl_that_stops_java_is_skipped() {
    let mut tree = Tree::new(Arc::new(settings()));
    let digest = tree.digest();
    for ttl in [-1, 0, i64::MIN, 1 << 40] {
        let zxid = tree.last_zxid().next();
        let header = TxnHeader {
            session: SESSION,
            cxid: 1,
            zxid,
            time_ms: 5,
            op: 21,
        };
        let txn = Txn::CreateTtl(CreateTtlTxn {
            path: "/t".into(),
            data: None,
            acl: vec![Acl::open()],
            parent_cversion: 1,
            ttl,
        });
        let record = TxnRecord {
            header,
            txn,
            digest: None,
        };
        let outcome = tree.apply(&record, &mut Watches::new(), &mut Vec::new());
        assert_eq!(outcome, Outcome::Error(ErrorCode::BadArguments));
        assert_eq!((tree.last_zxid(), tree.digest()), (zxid, digest));
    }
}

#[test]
fn owners_without_session_are_reported_and_can_be_killed() {
    let mut host = Host::new();
    host.write(WriteRequest::CreateSession { timeout_ms: 4000 });
    host.write(create_flags("/mine", flags::EPHEMERAL));
    for session in [9, 5] {
        host.session = SessionId(session);
        host.write(create_flags(&format!("/of{session}"), flags::EPHEMERAL));
    }
    assert_eq!(host.tree.orphan_owners(), [SessionId(5), SessionId(9)]);
    for owner in host.tree.orphan_owners() {
        host.session = owner;
        host.write(WriteRequest::CloseSession);
    }
    assert!(host.tree.orphan_owners().is_empty());
    assert!(host.exists("/mine") && !host.exists("/of9"));
}

#[test]
fn ttl_znodes_are_not_lost_while_extended_types_are_off() {
    let mut host = Host::new();
    host.write(ttl("/t", flags::TTL, 500));
    host.write(create("/t/x"));
    let content = SnapshotContent::read(Reader::new(files::snapshot_bytes(&host.tree, 1)));
    let mut off = Host::of(content.load(&Arc::new(TreeSettings::new(testkit::LIMITS)), host.zxid));
    assert_eq!(
        (off.tree.unrecognised_ttls(), off.tree.orphan_owners()),
        (1, vec![])
    );
    assert_eq!(off.tree.digest(), host.tree.digest());
    assert!(off.tree.expired_candidates(i64::MAX, 1).is_empty());
    assert_eq!(off.code(create("/t/y")), -108);
    let content = SnapshotContent::read(Reader::new(files::snapshot_bytes(&off.tree, 1)));
    let on = content.load(&Arc::new(settings()), Zxid(9));
    assert_eq!(
        (on.unrecognised_ttls(), on.digest()),
        (0, off.tree.digest())
    );
}

#[test]
fn ttl_znodes_of_3_5_3_are_read_with_the_emulation() {
    let mut host = Host::with(TreeSettings {
        emulate_353_ttl: true,
        ..settings()
    });
    host.write(ttl("/t", flags::TTL, 500));
    assert_eq!(host.tree.expired_candidates(1501, 0), ["/t"]);
    let content = SnapshotContent::read(Reader::new(files::snapshot_bytes(&host.tree, 1)));
    let node = content.nodes.iter().find(|node| node.path == "/t").unwrap();
    assert_eq!(node.stat.ephemeral_owner, i64::MIN | 500);
}
