//! Comparison of a recovered tree with a recorded state.

use std::collections::BTreeMap;
use std::sync::Arc;

use jute::{Decode, Reader};
use proto::request::{PathRequest, PathWatchRequest, ReadRequest};
use proto::{Acl, Id, SessionId, Stat};
use serde_json::{Value, json};
use tree::{Caller, Tree, WatcherId, Watches};

use crate::snapshots::Content;
use crate::support::{bytes, hex, number};

/// Compares the tree with everything in `state`: the view of a client with all rights, and internal
/// values.
pub(crate) fn compare(at: &str, tree: &Tree, state: &Value) {
    compare_tree(at, tree, state);
    let size = state["mntr"]["zk_approximate_data_size"].as_i64();
    assert_eq!(Some(tree.approximate_data_size()), size, "{at}: data size");
}

/// Compares everything except the data size. Java counts the usage under quotas differently after
/// loading a snapshot than after replaying the same transactions.
pub(crate) fn compare_tree(at: &str, tree: &Tree, state: &Value) {
    let nodes = state["nodes"].as_object().unwrap();
    let eyes = Eyes::new(tree);
    let stored: BTreeMap<String, i64> = stored_owners(tree);
    for (path, expected) in nodes {
        let at = format!("{at}: {path}");
        let (data, stat) = eyes.data(path);
        let wanted = expected["data"].as_str().map(bytes);
        assert_eq!(data, wanted, "{at}: data");
        compare_stat(&at, &stat, &expected["stat"]);
        assert_eq!(eyes.acl(path), expected["acl"], "{at}: acl");
        let wanted = match state["stored_owner"].get(path) {
            Some(owner) => number(owner),
            None => stat.ephemeral_owner,
        };
        assert_eq!(stored[path], wanted, "{at}: stored owner");
    }
    assert_eq!(stored.len(), nodes.len(), "{at}: znodes");
    compare_sessions(at, tree, state);
    compare_figures(at, tree, state);
}

/// Returns the paths with the owners in the files.
fn stored_owners(tree: &Tree) -> BTreeMap<String, i64> {
    let nodes = Content::of_tree(tree).nodes.into_iter();
    nodes
        .map(|(path, node)| {
            let path = if path.is_empty() { "/".into() } else { path };
            (path, node.stat.ephemeral_owner)
        })
        .collect()
}

fn compare_stat(at: &str, stat: &Stat, expected: &Value) {
    let fields = [
        ("czxid", stat.czxid),
        ("mzxid", stat.mzxid),
        ("pzxid", stat.pzxid),
        ("ctime", stat.ctime),
        ("mtime", stat.mtime),
        ("version", stat.version.into()),
        ("cversion", stat.cversion.into()),
        ("aversion", stat.aversion.into()),
        ("ephemeralOwner", stat.ephemeral_owner),
        ("dataLength", stat.data_length.into()),
        ("numChildren", stat.num_children.into()),
    ];
    for (field, value) in fields {
        assert_eq!(value, number(&expected[field]), "{at}: {field}");
    }
}

fn compare_sessions(at: &str, tree: &Tree, state: &Value) {
    let ephemerals: BTreeMap<SessionId, usize> = tree
        .ephemerals()
        .map(|(owner, paths)| (owner, paths.count()))
        .collect();
    let ours: BTreeMap<i64, Value> = tree
        .sessions()
        .map(|(id, timeout_ms)| {
            let owned = ephemerals.get(&id).copied().unwrap_or_default();
            (id.0, json!({"timeout": timeout_ms, "ephemerals": owned}))
        })
        .collect();
    let java = state["sessions"].as_object().unwrap().iter();
    let java: BTreeMap<i64, Value> = java.map(|(id, it)| (hex(id), it.clone())).collect();
    assert_eq!(ours, java, "{at}: sessions");
    assert!(tree.orphan_owners().is_empty(), "{at}");
}

fn compare_figures(at: &str, tree: &Tree, state: &Value) {
    assert_eq!(tree.last_zxid().0, number(&state["last_zxid"]), "{at}");
    let figures = [
        ("zk_znode_count", tree.node_count()),
        ("zk_ephemerals_count", tree.ephemerals_count()),
        ("zk_global_sessions", tree.sessions().len()),
    ];
    for (name, value) in figures {
        let java = state["mntr"][name].as_u64();
        assert_eq!(Some(value as u64), java, "{at}: {name}");
    }
    // Zero if Java ran with digests off.
    let digest = number(&state["digest"]);
    if digest != 0 {
        assert_eq!(tree.digest().cast_signed(), digest, "{at}: digest");
    }
}

/// A reader with the rights of a super user.
struct Eyes<'a> {
    tree: &'a Tree,
    watches: parking_lot::Mutex<Watches>,
    identities: Arc<[Id]>,
}

impl<'a> Eyes<'a> {
    fn new(tree: &'a Tree) -> Self {
        let (scheme, id) = ("super".into(), "".into());
        Self {
            tree,
            watches: parking_lot::Mutex::default(),
            identities: [Id { scheme, id }].into(),
        }
    }

    fn read(&self, request: &ReadRequest) -> Reader {
        let caller = Caller {
            session: SessionId(0),
            watcher: WatcherId(0),
            identities: &self.identities,
        };
        let mut out = Vec::new();
        let result = self.tree.read(request, &caller, &self.watches, &mut out);
        result.unwrap_or_else(|error| panic!("{request:?}: {error:?}"));
        Reader::new(out)
    }

    fn data(&self, path: &str) -> (Option<Vec<u8>>, Stat) {
        let mut reply = self.read(&ReadRequest::GetData(PathWatchRequest {
            path: Some(path.into()),
            watch: false,
        }));
        let data = reply.buffer().unwrap().map(|data| data.to_vec());
        (data, Stat::decode(&mut reply).unwrap())
    }

    fn acl(&self, path: &str) -> Value {
        let mut reply = self.read(&ReadRequest::GetAcl(PathRequest {
            path: Some(path.into()),
        }));
        let acl: Vec<Acl> = Vec::decode(&mut reply).unwrap();
        let entries = acl.iter();
        entries
            .map(|acl| json!([acl.perms, &*acl.id.scheme, &*acl.id.id]))
            .collect()
    }
}
