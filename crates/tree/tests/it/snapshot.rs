//! Snapshots that are written while the tree changes, interrupted at every possible position.

use std::sync::Arc;

use crate::common::files::{SnapshotContent, snapshot_bytes};
use crate::common::host::{Host, create, create_acl, create_data, create_flags, delete, set};
use jute::Reader;
use proto::request::{WriteRequest, flags};
use proto::txn::TxnRecord;
use proto::{Acl, SessionId, Zxid};
use zoarium_tree::{Tree, Watches};

const PATHS: [&str; 9] = [
    "/a", "/a/b", "/a/b/c", "/a/d", "/e", "/e/f", "/e/f/g", "/e/f/g/h", "/i",
];

fn host() -> Host {
    let mut host = Host::new();
    for path in PATHS {
        host.write(create_data(path, path));
    }
    host
}

fn writes(host: &mut Host, requests: impl IntoIterator<Item = WriteRequest>) -> Vec<TxnRecord> {
    let records = requests
        .into_iter()
        .map(|request| host.propose(&request))
        .collect();
    host.commit();
    records
}

/// Writes a snapshot one znode at a time, and calls `change` after `stop` of them.
fn snapshot_during(
    host: &mut Host,
    stop: usize,
    change: impl FnOnce(&mut Host) -> Vec<TxnRecord>,
) -> (SnapshotContent, Zxid, Vec<TxnRecord>) {
    let (mut cursor, mut bytes, mut log) = (host.tree.start_snapshot(), Vec::new(), Vec::new());
    let (mut change, mut step) = (Some(change), 0);
    loop {
        if step == stop
            && let Some(change) = change.take()
        {
            log = change(host);
        }
        step += 1;
        if !host.tree.snapshot_chunk(&mut cursor, 1, &mut bytes) {
            break;
        }
    }
    assert!(change.is_none(), "there are fewer than {stop} steps");
    (
        SnapshotContent::read(Reader::new(bytes)),
        cursor.zxid(),
        log,
    )
}

fn sorted(tree: &Tree) -> Vec<crate::common::files::SnapshotNode> {
    let mut nodes = SnapshotContent::read(Reader::new(snapshot_bytes(tree, 1000)))
        .sorted()
        .2;
    // The ids of lists depend on the lists used in the meantime.
    nodes.iter_mut().for_each(|node| node.acl = 0);
    nodes
}

fn check(host: &Host, (content, zxid, log): (SnapshotContent, Zxid, Vec<TxnRecord>)) {
    let settings = Arc::clone(host.tree.settings());
    let mut tree = content.load(&settings, zxid);
    for record in &log {
        tree.apply(record, &mut Watches::new(), &mut Vec::new());
    }
    assert_eq!(sorted(&tree), sorted(&host.tree));
    assert_eq!(tree.digest(), host.tree.digest());
    assert_eq!(tree.ephemerals_count(), host.tree.ephemerals_count());
}

/// Numbers of chunks that write or end something: the znodes, including the system znodes, and the
/// end.
const STOPS: std::ops::RangeInclusive<usize> = 0..=PATHS.len() + 4;

#[test]
fn all_is_deleted_during_the_walk_and_slots_are_reused() {
    let bottom_up = || PATHS.into_iter().rev().map(delete);
    let others = || (0..20).map(|n| create(&format!("/new{n}")));
    for stop in STOPS {
        let mut host = host();
        let written = snapshot_during(&mut host, stop, |host| {
            writes(host, bottom_up().chain(others()).collect::<Vec<_>>())
        });
        check(&host, written);
    }
}

#[test]
fn everything_is_deleted_and_created_again() {
    let again = || PATHS.into_iter().rev().map(delete).chain(PATHS.map(create));
    for stop in STOPS {
        let mut host = host();
        let written = snapshot_during(&mut host, stop, |host| writes(host, again()));
        check(&host, written);
    }
}

#[test]
fn one_branch_is_deleted_at_every_position() {
    for branch in [
        &["/a/b/c", "/a/b"][..],
        &["/a/d"],
        &["/e/f/g/h", "/e/f/g", "/e/f"],
        &["/i"],
    ] {
        for stop in STOPS {
            let mut host = host();
            let requests = branch
                .iter()
                .copied()
                .map(delete)
                .chain([create("/a/new"), set("/a", "x")]);
            let written = snapshot_during(&mut host, stop, |host| writes(host, requests));
            check(&host, written);
        }
    }
}

#[test]
fn children_and_siblings_are_added_at_every_position() {
    let requests = || {
        PATHS
            .into_iter()
            .map(|path| create(&format!("{path}/new")))
            .chain([create("/new")])
    };
    for stop in STOPS {
        let mut host = host();
        let written = snapshot_during(&mut host, stop, |host| writes(host, requests()));
        check(&host, written);
    }
}

#[test]
fn sessions_and_acls_change_at_every_position() {
    for stop in STOPS {
        let mut host = host();
        host.session = SessionId(7);
        host.write(WriteRequest::CreateSession { timeout_ms: 4000 });
        host.write(create_flags("/a/mine", flags::EPHEMERAL));
        let written = snapshot_during(&mut host, stop, |host| {
            let mut log = writes(
                host,
                [
                    create_flags("/a/late", flags::EPHEMERAL),
                    WriteRequest::CloseSession,
                ],
            );
            host.session = SessionId(8);
            let list = [
                Acl::new(1, "world", "anyone"),
                Acl::new(31, "ip", "10.0.0.0/8"),
            ];
            log.extend(writes(
                host,
                [
                    WriteRequest::CreateSession { timeout_ms: 5000 },
                    create_flags("/a/mine", flags::EPHEMERAL),
                    create_acl("/a/listed", &list),
                ],
            ));
            log
        });
        check(&host, written);
    }
}

#[test]
fn two_concurrent_snapshots_of_which_one_is_abandoned() {
    let mut host = host();
    let mut given_up = host.tree.start_snapshot();
    host.tree.snapshot_chunk(&mut given_up, 1, &mut Vec::new());
    let (mut first, mut bytes) = (host.tree.start_snapshot(), Vec::new());
    host.tree.snapshot_chunk(&mut first, 300, &mut bytes);
    drop(given_up);
    let second = snapshot_during(&mut host, 4, |host| {
        writes(host, PATHS.into_iter().rev().map(delete))
    });
    let log = second.2.clone();
    while host.tree.snapshot_chunk(&mut first, 1, &mut bytes) {}
    check(&host, second);
    check(
        &host,
        (SnapshotContent::read(Reader::new(bytes)), first.zxid(), log),
    );
}

#[test]
fn a_finished_snapshot_stays_finished() {
    let host = host();
    let (mut cursor, mut out) = (host.tree.start_snapshot(), Vec::new());
    while host.tree.snapshot_chunk(&mut cursor, 50, &mut out) {}
    let len = out.len();
    assert!(!host.tree.snapshot_chunk(&mut cursor, 50, &mut out));
    assert_eq!(out.len(), len);
}
