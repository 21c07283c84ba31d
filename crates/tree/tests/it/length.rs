//! Tests of the limit for a transaction's length.

use crate::common::host::*;
use jute::Encode;
use proto::request::{WriteRequest, flags};
use proto::txn::{Txn, TxnRecord};
use proto::{Acl, ErrorCode, OpCode};
use zoarium_tree::TreeSettings;

/// A limit above the length of all transactions here.
const AMPLE: usize = 1 << 20;

/// Creates a tree with some znodes, in which no transaction may be longer than `record_bytes_max`.
fn host(record_bytes_max: usize) -> Host {
    let mut host = Host::with(TreeSettings {
        record_bytes_max,
        ..settings()
    });
    for name in ["a", "b", "\u{1f600}"] {
        host.identities.push(id("digest", &format!("{name}:x")));
    }
    for path in ["/d", "/gone"] {
        assert_eq!(host.code(create(path)), 0);
    }
    host
}

fn proposed(record_bytes_max: usize, request: &WriteRequest) -> (Host, TxnRecord) {
    let mut host = host(record_bytes_max);
    let record = host.propose(request);
    (host, record)
}

/// Returns an `auth` entry, which expands to three identities.
fn mine() -> [Acl; 1] {
    [Acl::new(31, "auth", "")]
}

fn multi(operations: Vec<WriteRequest>) -> WriteRequest {
    WriteRequest::Multi(Ok(operations))
}

/// Returns one request of each kind whose length a client controls, with characters of all encoded
/// lengths.
fn requests() -> Vec<WriteRequest> {
    let name = format!("/d/{}", "\u{e9}\u{20ac}".repeat(20));
    let mut sequential = create_request(&name, flags::PERSISTENT_SEQUENTIAL);
    sequential.data = None;
    let owned = create_request(&name, flags::EPHEMERAL);
    vec![
        create_data(&name, "data"),
        create_acl(&name, &mine()),
        create_as(OpCode::Create2, sequential),
        create_as(OpCode::Create, owned),
        container(&name, flags::CONTAINER),
        ttl(&name, flags::TTL, 7),
        delete("/gone"),
        set("/d", &"data".repeat(40)),
        set_acl("/d", &mine(), -1),
        multi(vec![
            check("/d", 0),
            create_acl(&name, &mine()),
            set(&name, "data"),
            delete(&name),
        ]),
    ]
}

#[test]
fn a_transaction_may_be_as_long_as_every_member_can_read_and_no_longer() {
    for request in requests() {
        let (mut host, record) = proposed(AMPLE, &request);
        assert_ne!(record.txn.op(), OpCode::Error, "{request:?}: {record:?}");
        assert_eq!(host.commit().0.error(), ErrorCode::Ok, "{request:?}");
        let bytes = record.to_bytes().len();
        // The requests that created the tree's znodes must be shorter.
        assert!(bytes > 120 || matches!(request, WriteRequest::Delete(_)));
        let (_, as_long) = proposed(bytes.max(120), &request);
        assert_eq!(as_long, record);
        if bytes <= 120 {
            continue;
        }
        let (mut host, refused) = proposed(bytes - 1, &request);
        assert!(refused.to_bytes().len() < bytes, "{refused:?}");
        let digest_before = host.tree.digest();
        let too_long = Txn::error(ErrorCode::BadArguments);
        match &refused.txn {
            Txn::Multi(txns) => assert!(txns.contains(&too_long), "{txns:?}"),
            txn => assert_eq!(*txn, too_long),
        }
        host.commit();
        assert_eq!(host.tree.digest(), digest_before, "nothing was changed");
        // A refused request leaves nothing behind.
        host.write(create("/d/c"));
    }
}

#[test]
fn a_too_long_transaction_is_refused_with_its_reason() {
    let mut host = host(200);
    assert_eq!(host.code(create_data("/l", &"x".repeat(200))), -8);
    assert_eq!(host.code(set("/d", &"x".repeat(200))), -8);
    assert_eq!(host.code(set_acl("/d", &mine(), -1)), 0);
    // 16 bytes of a request become hundreds of bytes of a transaction.
    let acl: Vec<Acl> = (1..30).map(|perms| Acl::new(perms, "auth", "")).collect();
    assert_eq!(host.code(create_acl("/l", &acl)), -8);
    assert_eq!(host.code(set_acl("/d", &acl, -1)), -8);
    assert!(!host.exists("/l"));
}

#[test]
fn a_multi_ends_at_the_operation_with_which_it_becomes_too_long() {
    let mut host = host(300);
    let create = |number| create_acl(&format!("/m{number}"), &mine());
    let operations: Vec<_> = (0..4).map(create).collect();
    assert_eq!(host.results(operations), [0, 0, -8, -2]);
    assert!(!host.exists("/m0"), "all of it or nothing");
    assert_eq!(host.results((0..2).map(create).collect()), [0, 0]);
}

/// 14,000 creates of 67 bytes, each of which expands to two identities of 250 bytes: a request of
/// less than `jute.maxbuffer` and a transaction of 9 MB.
#[test]
fn a_multi_of_creates_for_all_identities_stays_readable() {
    let mut host = Host::new();
    for name in ["a", "b"] {
        let user = name.repeat(250);
        host.identities.push(id("digest", &format!("{user}:x")));
    }
    let create = |number| create_acl(&format!("/{number:05}"), &mine());
    let record = host.propose(&multi((0..14_000).map(create).collect()));
    let limit = TreeSettings::new(testkit::LIMITS).record_bytes_max;
    assert!(record.to_bytes().len() <= limit);
    let Txn::Multi(txns) = &record.txn else {
        panic!("{:?}", record.txn)
    };
    assert_eq!(txns.len(), 14_000);
    assert!(txns.contains(&Txn::error(ErrorCode::BadArguments)));
    host.commit();
    assert_eq!(host.children("/"), ["zookeeper"]);
}

#[test]
fn a_session_ends_whatever_it_owns() {
    let mut host = host(150);
    for number in 0..20 {
        host.write(create_flags(&format!("/d/{number}"), flags::EPHEMERAL));
    }
    let record = host.propose(&WriteRequest::CloseSession);
    assert_eq!(record.txn, Txn::CloseSession { paths: None });
    host.commit();
    assert_eq!(host.tree.ephemerals_count(), 0);
}
