//! Compares random writes with a naive model, and writes snapshots at random times.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::files::{SnapshotContent, snapshot_bytes};
use crate::common::host::*;
use crate::model::{Model, Node};
use jute::Reader;
use proptest::prelude::*;
use proto::request::WriteRequest;
use proto::txn::{Txn, TxnRecord};
use proto::{Acl, OpCode, SessionId};
use zoarium_tree::{SnapshotCursor, Tree, Watches};

#[derive(Debug, Clone)]
enum Step {
    /// A session sends a request.
    Write(u8, WriteRequest),
    /// All requests in flight are applied.
    Commit,
    /// A snapshot begins, or ends if one is running.
    Snapshot,
    /// The running snapshot writes this many more bytes.
    Chunk(usize),
}

fn path() -> impl Strategy<Value = String> {
    let name = prop_oneof!["a", "b", "c", "\u{e9}"];
    let below_root =
        proptest::collection::vec(name, 1..4).prop_map(|names| format!("/{}", names.join("/")));
    prop_oneof![9 => below_root, 1 => Just("/".to_owned()), 1 => Just("/zookeeper/x".to_owned())]
}

fn data() -> impl Strategy<Value = Option<bytes::Bytes>> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..20).prop_map(Into::into);
    proptest::option::weighted(0.9, bytes)
}

fn acl() -> impl Strategy<Value = Acl> {
    let perms = prop_oneof![8 => Just(31), 1 => Just(31 & !4), 1 => Just(31 & !8), 1 => Just(29)];
    perms.prop_map(|perms| Acl::new(perms, "world", "anyone"))
}

fn create_any() -> impl Strategy<Value = WriteRequest> {
    let kind = prop_oneof![
        6 => (Just(OpCode::Create), 0..5i32),
        2 => (Just(OpCode::Create2), 0..4i32),
        1 => (Just(OpCode::CreateContainer), prop_oneof![Just(0), Just(2), Just(4)]),
        1 => (Just(OpCode::CreateTtl), Just(5)),
    ];
    (kind, path(), data(), acl()).prop_map(|((op, create_flags), path, data, acl)| {
        let mut request = create_request(&path, create_flags);
        request.data = data;
        request.acl = proto::multi::request_acl([acl]);
        let ttl = if op == OpCode::CreateTtl { 5000 } else { -1 };
        WriteRequest::Create { op, request, ttl }
    })
}

fn version() -> impl Strategy<Value = i32> {
    prop_oneof![6 => Just(-1), 1 => 0..3i32]
}

fn in_multi() -> impl Strategy<Value = WriteRequest> {
    prop_oneof![
        5 => create_any(),
        3 => (path(), version()).prop_map(|(path, version)| delete_version(&path, version)),
        2 => (path(), data(), version()).prop_map(|(path, data, version)| {
            WriteRequest::SetData(proto::request::SetDataRequest {
                path: Some(path.into()),
                data,
                version,
            })
        }),
        1 => (path(), version()).prop_map(|(path, version)| check(&path, version)),
    ]
}

fn write() -> impl Strategy<Value = WriteRequest> {
    prop_oneof![
        12 => in_multi().prop_filter("no request of its own", |w| w.op() != OpCode::Check),
        1 => (path(), acl(), version()).prop_map(|(path, acl, version)| set_acl(&path, &[acl], version)),
        3 => proptest::collection::vec(in_multi(), 0..5).prop_map(|all| WriteRequest::Multi(Ok(all))),
        1 => Just(WriteRequest::CloseSession),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        10 => (0..3u8, write()).prop_map(|(session, write)| Step::Write(session, write)),
        4 => Just(Step::Commit),
        1 => Just(Step::Snapshot),
        4 => (1..200usize).prop_map(Step::Chunk),
    ];
    proptest::collection::vec(step, 1..120)
}

/// Returns path, data, list and stat of every znode in a snapshot.
fn nodes_of(content: &SnapshotContent) -> BTreeMap<String, Node> {
    let lists: BTreeMap<i64, &Vec<Acl>> =
        content.acls.iter().map(|(id, list)| (*id, list)).collect();
    let open = vec![Acl::open()];
    let node = |node: &crate::common::files::SnapshotNode| {
        let path = if node.path.is_empty() {
            "/"
        } else {
            &node.path
        };
        let acl = if node.acl == -1 {
            &open
        } else {
            lists[&node.acl]
        };
        let value = Node {
            data: node.data.clone(),
            acl: acl.clone(),
            stat: node.stat,
        };
        (path.to_owned(), value)
    };
    content.nodes.iter().map(node).collect()
}

fn content_of(tree: &Tree) -> SnapshotContent {
    SnapshotContent::read(Reader::new(snapshot_bytes(tree, 50)))
}

fn compare(host: &Host, model: &Model) -> Result<(), TestCaseError> {
    let content = content_of(&host.tree);
    prop_assert_eq!(&nodes_of(&content), &model.nodes);
    prop_assert_eq!(host.tree.digest(), model.digest());
    prop_assert_eq!(host.tree.node_count(), model.nodes.len() + 1);
    let size: usize = model
        .nodes
        .iter()
        .map(|(path, node)| path.chars().count() + node.data.as_ref().map_or(0, bytes::Bytes::len))
        .sum();
    prop_assert_eq!(
        host.tree.approximate_data_size(),
        i64::try_from(size).unwrap()
    );
    for path in model.nodes.keys() {
        let Ok(_) = host.read(children(path, false)) else {
            continue;
        };
        let expected: Vec<String> = model.children(path);
        let base = if path == "/" { "" } else { path };
        let found: Vec<String> = host
            .children(path)
            .iter()
            .map(|name| format!("{base}/{name}"))
            .collect();
        prop_assert_eq!(&found, &expected);
        let stat = host.stat(path);
        let num_children = i32::try_from(expected.len()).unwrap();
        let cversion = 2 * model.nodes[path].stat.cversion - num_children;
        prop_assert_eq!((stat.num_children, stat.cversion), (num_children, cversion));
    }
    // Writing and loading it changes nothing.
    let settings = Arc::clone(host.tree.settings());
    let loaded = content.load(&settings, host.tree.last_zxid());
    prop_assert_eq!(loaded.digest(), host.tree.digest());
    prop_assert_eq!(loaded.ephemerals_count(), host.tree.ephemerals_count());
    prop_assert_eq!(
        loaded.approximate_data_size(),
        host.tree.approximate_data_size()
    );
    prop_assert_eq!(content_of(&loaded).sorted(), content.sorted());
    Ok(())
}

/// A snapshot being written, and the records applied in the meantime.
struct Running {
    cursor: SnapshotCursor,
    bytes: Vec<u8>,
    is_more: bool,
}

/// Loads a fuzzy snapshot and replays every record after it: the result must equal the tree.
fn check_snapshot(
    host: &Host,
    mut running: Running,
    log: &[TxnRecord],
) -> Result<(), TestCaseError> {
    while running.is_more {
        running.is_more = host
            .tree
            .snapshot_chunk(&mut running.cursor, 100, &mut running.bytes);
    }
    let content = SnapshotContent::read(Reader::new(running.bytes));
    let settings = Arc::clone(host.tree.settings());
    let mut tree = content.load(&settings, running.cursor.zxid());
    for record in log
        .iter()
        .filter(|record| record.header.zxid > running.cursor.zxid())
    {
        tree.apply(record, &mut Watches::new(), &mut Vec::new());
    }
    prop_assert_eq!(tree.digest(), host.tree.digest());
    prop_assert_eq!(tree.last_zxid(), host.tree.last_zxid());
    prop_assert_eq!(
        nodes_of(&content_of(&tree)),
        nodes_of(&content_of(&host.tree))
    );
    prop_assert_eq!(tree.ephemerals_count(), host.tree.ephemerals_count());
    prop_assert_eq!(tree.node_count(), host.tree.node_count());
    Ok(())
}

fn codes_of(txn: &Txn) -> Result<Vec<i32>, i32> {
    match txn {
        Txn::Error { code } => Err(*code),
        Txn::Multi(txns) => {
            let failed = txns.iter().position(|txn| matches!(txn, Txn::Error { .. }));
            let code = |(at, txn): (usize, &Txn)| match txn {
                Txn::Error { code } => *code,
                _ if failed.is_some_and(|failed| at > failed) => -2,
                _ => 0,
            };
            Ok(txns.iter().enumerate().map(code).collect())
        }
        _ => Ok(vec![]),
    }
}

fn run(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let (mut host, mut model) = (Host::new(), Model::new());
    let mut log: Vec<TxnRecord> = Vec::new();
    let mut snapshot: Option<Running> = None;
    for step in steps {
        match step {
            Step::Write(session, request) => {
                host.session = SessionId(i64::from(session) + 1);
                host.time_ms += 1;
                (model.session, model.time_ms) = (host.session, host.time_ms);
                let record = host.propose(&request);
                let expected = model.write(&request, host.zxid.0);
                prop_assert_eq!(codes_of(&record.txn), expected, "{:?}", request);
                prop_assert_eq!(host.overlay.digest(), model.digest(), "{:?}", request);
                log.push(record);
            }
            Step::Commit => {
                host.commit();
                if snapshot.is_none() {
                    compare(&host, &model)?;
                }
            }
            Step::Snapshot => match snapshot.take() {
                None => {
                    snapshot = Some(Running {
                        cursor: host.tree.start_snapshot(),
                        bytes: Vec::new(),
                        is_more: true,
                    });
                }
                Some(running) => {
                    host.commit();
                    check_snapshot(&host, running, &log)?;
                }
            },
            Step::Chunk(len) => {
                if let Some(running) = &mut snapshot
                    && running.is_more
                {
                    running.is_more =
                        host.tree
                            .snapshot_chunk(&mut running.cursor, len, &mut running.bytes);
                }
            }
        }
    }
    host.commit();
    compare(&host, &model)?;
    if let Some(running) = snapshot {
        check_snapshot(&host, running, &log)?;
    }
    Ok(())
}

proptest! {
    #[test]
    fn model_tree_vs_map(steps in steps()) {
        run(steps)?;
    }
}
