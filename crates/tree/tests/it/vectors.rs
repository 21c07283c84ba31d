//! Data directories written by Apache ZooKeeper 3.9.5: loading and replaying them results in the
//! recorded tree, and each transaction in the recorded digest.

use std::path::Path;
use std::sync::Arc;

use crate::common::files::{self, SnapshotContent};
use jute::{Decode, Reader};
use parking_lot::Mutex;
use proto::request::{PathRequest, PathWatchRequest, ReadRequest};
use proto::{Acl, SessionId, Stat, Zxid};
use serde_json::Value;
use zoarium_tree::{Caller, Tree, TreeSettings, WatcherId, Watches};

fn settings() -> Arc<TreeSettings> {
    Arc::new(TreeSettings {
        extended_types: true,
        ..TreeSettings::new(testkit::LIMITS)
    })
}

fn hex(value: &Value) -> i64 {
    let text = value.as_str().unwrap().trim_start_matches("0x");
    u64::from_str_radix(text, 16).unwrap().cast_signed()
}

/// Loads the newest snapshot and replays the log after it.
fn recover(data: &Path, logs: &Path, is_fuzzy: bool) -> Tree {
    let snapshot = files::files(data, "snapshot").pop();
    let mut tree = match &snapshot {
        Some((zxid, path)) => SnapshotContent::of_file(path).load(&settings(), *zxid),
        None => Tree::new(settings()),
    };
    let comparable_from = snapshot
        .filter(|_| is_fuzzy)
        .map(|(_, path)| digest_zxid(&path));
    let logs = files::files(logs, "log");
    for record in logs.iter().flat_map(|(_, path)| files::log_records(path)) {
        let zxid = record.header.zxid;
        if zxid <= tree.last_zxid() {
            continue;
        }
        tree.apply(&record, &mut Watches::new(), &mut Vec::new());
        if let Some(digest) = record.digest
            && comparable_from.is_none_or(|from| zxid >= from)
        {
            assert_eq!(tree.digest(), digest.digest.cast_unsigned(), "{record:?}");
        }
    }
    tree
}

/// Returns the zxid from which a fuzzy snapshot's digests can be compared.
fn digest_zxid(snapshot: &Path) -> Zxid {
    let mut rest = SnapshotContent::of_file(snapshot).rest;
    rest.take(8 + 5).unwrap();
    Zxid(rest.i64().unwrap())
}

fn compare(tree: &Tree, state: &Value) {
    let watches = Mutex::new(Watches::new());
    let identities = [crate::common::host::id("super", "")];
    let read = |request: ReadRequest| {
        let caller = Caller {
            session: SessionId(0),
            watcher: WatcherId(0),
            identities: &identities,
        };
        let mut out = Vec::new();
        tree.read(&request, &caller, &watches, &mut out).unwrap();
        Reader::new(out)
    };
    let nodes = state["nodes"].as_object().unwrap();
    assert_eq!(tree.node_count(), nodes.len() + 1);
    for (path, expected) in nodes {
        let request = PathWatchRequest {
            path: Some(path.as_str().into()),
            watch: false,
        };
        let mut reply = read(ReadRequest::GetData(request));
        let data = reply.buffer().unwrap();
        let data = data.map(|data| data.iter().map(|b| format!("{b:02x}")).collect::<String>());
        assert_eq!(data.as_deref(), expected["data"].as_str(), "{path}");
        compare_stat(path, Stat::decode(&mut reply).unwrap(), &expected["stat"]);
        let path = Some(path.as_str().into());
        let mut reply = read(ReadRequest::GetAcl(PathRequest { path }));
        let acl: Vec<Acl> = Vec::decode(&mut reply).unwrap();
        let acl = acl.iter().map(|a| (a.perms, &*a.id.scheme, &*a.id.id));
        assert_eq!(
            serde_json::to_value(acl.collect::<Vec<_>>()).unwrap(),
            expected["acl"]
        );
    }
    let expected = state["sessions"].as_object().unwrap();
    let ephemerals = |id| {
        tree.ephemerals()
            .find(|(owner, _)| *owner == id)
            .map_or(0, |(_, p)| p.count())
    };
    for (id, timeout_ms) in tree.sessions() {
        let expected = &expected[&format!("{:#x}", id.0)];
        assert_eq!(expected["timeout"].as_i64(), Some(timeout_ms.into()));
        assert_eq!(expected["ephemerals"].as_u64(), Some(ephemerals(id) as u64));
    }
    let mntr = |key: &str| -> usize { state["mntr"][key].as_u64().unwrap().try_into().unwrap() };
    assert_eq!(tree.sessions().len(), expected.len());
    assert_eq!(tree.sessions().len(), mntr("zk_global_sessions"));
    assert_eq!(tree.node_count(), mntr("zk_znode_count"));
    assert_eq!(tree.ephemerals_count(), mntr("zk_ephemerals_count"));
    assert_eq!(tree.last_zxid().0, hex(&state["last_zxid"]));
    assert!(tree.orphan_owners().is_empty());
}

fn compare_stat(path: &str, stat: Stat, expected: &Value) {
    let longs = [
        ("czxid", stat.czxid),
        ("mzxid", stat.mzxid),
        ("pzxid", stat.pzxid),
        ("ephemeralOwner", stat.ephemeral_owner),
    ];
    for (field, value) in longs {
        assert_eq!(value, hex(&expected[field]), "{path} {field}");
    }
    let numbers = [
        ("ctime", stat.ctime),
        ("mtime", stat.mtime),
        ("version", stat.version.into()),
        ("cversion", stat.cversion.into()),
        ("aversion", stat.aversion.into()),
        ("dataLength", stat.data_length.into()),
        ("numChildren", stat.num_children.into()),
    ];
    for (field, value) in numbers {
        assert_eq!(Some(value), expected[field].as_i64(), "{path} {field}");
    }
}

/// Returns the tree of a vector after comparing it with the state that a Java server read.
fn check(name: &str, digest_is_recorded: bool) -> Option<Tree> {
    let dir = files::vector(name)?;
    let state = &files::expected(&dir)["state"];
    let data = dir.join("data/version-2");
    let logs = dir.join("datalog/version-2");
    let logs = if logs.is_dir() { logs } else { data.clone() };
    let tree = recover(&data, &logs, name == "fuzzy");
    compare(&tree, state);
    let data_size = state["mntr"]["zk_approximate_data_size"].as_i64();
    assert_eq!(Some(tree.approximate_data_size()), data_size);
    if digest_is_recorded {
        assert_eq!(tree.digest(), hex(&state["digest"]).cast_unsigned());
    }
    // Writing and loading it again results in an equal tree.
    let bytes = files::snapshot_bytes(&tree, 64);
    let content = SnapshotContent::read(Reader::new(bytes));
    let again = content.load(&settings(), tree.last_zxid());
    compare(&again, state);
    assert_eq!(again.digest(), tree.digest());
    Some(tree)
}

#[test]
fn every_kind_of_transaction_replays() {
    for name in ["txns-all", "log-only", "log-and-snapshot", "dirs-split"] {
        check(name, true);
    }
}

#[test]
fn rolled_logs_replay() {
    check("rolled", true);
    check("rolled-by-size", true);
}

#[test]
fn a_fuzzy_snapshot_becomes_exact() {
    check("fuzzy", true);
}

#[test]
fn snapshots_with_any_sections_load() {
    check("snap-no-lastzxid", true);
    for name in ["snap-no-digest", "snap-neither"] {
        check(name, false);
    }
}

#[test]
fn a_close_session_without_its_list_replays() {
    check("close-session-no-body", true);
    check("close-session-no-body-no-digest", false);
}

#[test]
fn a_fresh_tree_is_written_as_in_java() {
    if let Some(dir) = files::vector("fresh-standalone") {
        let java = SnapshotContent::of_file(&dir.join("data/version-2/snapshot.0"));
        let bytes = files::snapshot_bytes(&Tree::new(settings()), 1);
        let ours = SnapshotContent::read(Reader::new(bytes));
        assert!(ours.rest.is_empty());
        assert_eq!(ours.sorted(), java.sorted());
    }
}

#[test]
fn a_loaded_snapshot_is_written_unchanged() {
    let Some(dir) = files::vector("log-and-snapshot") else {
        return;
    };
    for (zxid, path) in files::files(&dir.join("data/version-2"), "snapshot") {
        let tree = SnapshotContent::of_file(&path).load(&settings(), zxid);
        let ours = SnapshotContent::read(Reader::new(files::snapshot_bytes(&tree, 100)));
        let java = SnapshotContent::of_file(&path);
        let (ours, java) = (ours.sorted(), java.sorted());
        assert_eq!((&ours.0, &ours.1), (&java.0, &java.1));
        let moving = |node: &&files::SnapshotNode| !node.path.ends_with("zookeeper_stats");
        assert!(
            ours.2
                .iter()
                .filter(moving)
                .eq(java.2.iter().filter(moving))
        );
    }
}
