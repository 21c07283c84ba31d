//! Reads the recorded data directories, as far as the tests of the tree need them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jute::{Decode, Reader, Str};
use proto::txn::TxnRecord;
use proto::{Acl, SessionId, StatPersisted, Zxid};
use zoarium_tree::{Tree, TreeLoader, TreeSettings};

/// Returns a recorded data directory, if it is available.
pub fn vector(name: &str) -> Option<PathBuf> {
    testkit::recordings::find(&format!("vectors/storage/{name}"))
}

/// Returns the recorded state as JSON.
pub fn expected(dir: &Path) -> serde_json::Value {
    let text = fs::read_to_string(dir.join("expected.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Returns the files named `prefix.<hex zxid>`, ordered by zxid.
pub fn files(dir: &Path, prefix: &str) -> Vec<(Zxid, PathBuf)> {
    let mut found: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name()?.to_str()?.strip_prefix(prefix)?;
            let zxid = i64::from_str_radix(name.strip_prefix('.')?, 16).ok()?;
            Some((Zxid(zxid), path))
        })
        .collect();
    found.sort();
    found
}

/// Returns all records of a log file.
pub fn log_records(path: &Path) -> Vec<TxnRecord> {
    let mut input = Reader::new(fs::read(path).unwrap());
    input.take(16).unwrap();
    let mut records = Vec::new();
    while input.remaining() > 12 {
        let _checksum = input.i64().unwrap();
        let len = usize::try_from(input.i32().unwrap()).unwrap();
        if len == 0 {
            break;
        }
        let payload = input.take(len).unwrap();
        records.push(TxnRecord::decode(&mut Reader::new(payload)).unwrap());
        assert_eq!(input.u8().unwrap(), b'B');
    }
    records
}

/// Sessions, lists and znodes in an order that does not depend on hashing.
pub type Sorted = (
    Vec<(SessionId, i32)>,
    Vec<(i64, Vec<Acl>)>,
    Vec<SnapshotNode>,
);

/// The sessions, lists and znodes of a snapshot, and the remaining bytes.
pub struct SnapshotContent {
    pub sessions: Vec<(SessionId, i32)>,
    pub acls: Vec<(i64, Vec<Acl>)>,
    pub nodes: Vec<SnapshotNode>,
    pub rest: Reader,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotNode {
    pub path: Str,
    pub data: Option<bytes::Bytes>,
    pub acl: i64,
    pub stat: StatPersisted,
}

impl SnapshotContent {
    /// Reads the content from after the file header.
    pub fn read(mut input: Reader) -> Self {
        let mut sessions = Vec::new();
        for _ in 0..input.i32().unwrap() {
            sessions.push((SessionId::decode(&mut input).unwrap(), input.i32().unwrap()));
        }
        let mut acls = Vec::new();
        for _ in 0..input.i32().unwrap() {
            acls.push((input.i64().unwrap(), Vec::decode(&mut input).unwrap()));
        }
        let mut nodes = Vec::new();
        loop {
            let path = Str::decode(&mut input).unwrap();
            if path == "/" {
                break;
            }
            nodes.push(SnapshotNode {
                path,
                data: input.buffer().unwrap(),
                acl: input.i64().unwrap(),
                stat: StatPersisted::decode(&mut input).unwrap(),
            });
        }
        Self {
            sessions,
            acls,
            nodes,
            rest: input,
        }
    }

    pub fn of_file(path: &Path) -> Self {
        let mut input = Reader::new(fs::read(path).unwrap());
        input.take(16).unwrap();
        Self::read(input)
    }

    pub fn sorted(mut self) -> Sorted {
        self.sessions.sort_unstable();
        self.acls.sort_unstable_by_key(|(id, _)| *id);
        self.nodes.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        (self.sessions, self.acls, self.nodes)
    }

    pub fn load(&self, settings: &Arc<TreeSettings>, zxid: Zxid) -> Tree {
        let mut loader = TreeLoader::new(Arc::clone(settings));
        for (id, timeout_ms) in &self.sessions {
            loader.session(*id, *timeout_ms);
        }
        for (id, list) in &self.acls {
            loader.acl(*id, list);
        }
        for node in &self.nodes {
            loader
                .znode(&node.path, node.data.as_deref(), node.acl, node.stat)
                .unwrap();
        }
        loader.finish(zxid).unwrap()
    }
}

/// Returns the whole snapshot of an unchanging tree, written in chunks of some size.
pub fn snapshot_bytes(tree: &Tree, chunk: usize) -> Vec<u8> {
    let (mut cursor, mut out) = (tree.start_snapshot(), Vec::new());
    while tree.snapshot_chunk(&mut cursor, chunk, &mut out) {}
    out
}
