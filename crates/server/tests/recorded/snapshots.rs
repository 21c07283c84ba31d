//! Tests of snapshots: for one tree, Java and this server write equal content.

use proto::txn::TxnRecord;
use proto::{Acl, SessionId, StatPersisted, Zxid};
use std::collections::BTreeMap;
use std::fs;
use storage::{
    ContentError, DataDirs, RealDisk, SnapshotDigest, SnapshotFile, State, list_snapshots,
    read_body, read_snapshot, truncate,
};
use tree::Tree;

use crate::support::{Directory, Vector, vector, vectors};

/// A snapshot's content, independent of its order in the file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) sessions: BTreeMap<SessionId, i32>,
    pub(crate) acls: BTreeMap<i64, Vec<String>>,
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) digest: Option<SnapshotDigest>,
    pub(crate) last_zxid: Option<Zxid>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) data: Option<Vec<u8>>,
    pub(crate) acl: i64,
    pub(crate) stat: StatPersisted,
}

impl Content {
    pub(crate) fn of_tree(tree: &Tree) -> Self {
        let (mut cursor, mut bytes) = (tree.start_snapshot(), Vec::new());
        while tree.snapshot_chunk(&mut cursor, 4096, &mut bytes) {}
        let mut content = Self::default();
        let name = "a tree".as_ref();
        read_body(&bytes[..], name, testkit::LIMITS, &mut content).unwrap();
        content
    }

    pub(crate) fn of_file(file: &SnapshotFile) -> Self {
        let mut content = Self::default();
        let info = read_snapshot(&RealDisk, file, testkit::LIMITS, &mut content).unwrap();
        content.last_zxid = info.last_zxid;
        content
    }

    /// Removes the usage under quotas, because it is counted again when a snapshot is loaded.
    fn without_usage(mut self) -> Self {
        for (path, node) in &mut self.nodes {
            if path.ends_with("/zookeeper_stats") {
                node.data = None;
            }
        }
        self
    }
}

impl State for Content {
    fn begin(&mut self) {
        *self = Self::default();
    }

    fn session(&mut self, id: SessionId, timeout_ms: i32) {
        assert_eq!(self.sessions.insert(id, timeout_ms), None);
    }

    fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        let entries = acl.iter().map(|entry| format!("{entry:?}")).collect();
        assert_eq!(self.acls.insert(id, entries), None);
    }

    fn znode(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: StatPersisted,
    ) -> Result<(), ContentError> {
        let data = data.map(<[u8]>::to_vec);
        let node = Node { data, acl, stat };
        assert_eq!(self.nodes.insert(path.to_owned(), node), None);
        Ok(())
    }

    fn snapshot_loaded(
        &mut self,
        _: Zxid,
        digest: Option<SnapshotDigest>,
    ) -> Result<(), ContentError> {
        self.digest = digest;
        Ok(())
    }

    fn txn(&mut self, _: &TxnRecord) {}
}

fn snapshots(directory: &Directory) -> Vec<SnapshotFile> {
    list_snapshots(&RealDisk, &directory.data().join("version-2")).unwrap()
}

/// Returns Java's snapshots of a directory, each with this server's snapshot of the same
/// transactions. This server writes its snapshot when it starts on a copy with an empty database
/// and the log up to that transaction.
fn pairs(vector: &Vector, sub: &str) -> Vec<(SnapshotFile, u64, Content, SnapshotFile, Directory)> {
    let original = vector.copy(sub);
    let mut pairs = Vec::new();
    for java in snapshots(&original) {
        let content = Content::of_file(&java);
        let end = java.zxid;
        // A fuzzy snapshot is not a state that ever existed.
        if end == Zxid::ZERO || content.last_zxid != Some(end) {
            continue;
        }
        let copy = vector.copy(sub);
        for snapshot in snapshots(&copy) {
            fs::remove_file(snapshot.path).unwrap();
        }
        let base = vector
            .dir
            .join("../fresh-standalone/data/version-2/snapshot.0");
        fs::write(copy.file("snapshot.0"), fs::read(base).unwrap()).unwrap();
        let dirs = DataDirs::unlocked(copy.data(), copy.data());
        truncate(&RealDisk, &dirs, end, testkit::LIMITS).unwrap();
        assert_eq!(copy.serve().unwrap().zxid, end);
        let ours = snapshots(&copy).into_iter().find(|file| file.zxid == end);
        let bytes = fs::metadata(&java.path).unwrap().len();
        pairs.push((java, bytes, content, ours.unwrap(), copy));
    }
    pairs
}

fn compare_written(name: &str, sub: &str) -> usize {
    let Some(vector) = vector(name) else {
        return 0;
    };
    let pairs = pairs(&vector, sub);
    for (java, bytes, content, ours, _directory) in &pairs {
        let at = format!("{name}: {}", java.path.display());
        let written = Content::of_file(ours);
        assert_eq!(written.sessions, content.sessions, "{at}");
        assert_eq!(written.acls, content.acls, "{at}");
        for (path, node) in &content.nodes {
            assert_eq!(written.nodes.get(path), Some(node), "{at}: {path}");
        }
        assert_eq!(&written, content, "{at}");
        assert_eq!(fs::metadata(&ours.path).unwrap().len(), *bytes, "{at}");
    }
    pairs.len()
}

#[test]
fn a_snapshot_written_here_is_the_one_that_java_wrote() {
    let mut compared = 0;
    for (name, sub) in [
        ("log-and-snapshot", "data"),
        ("rolled", "data"),
        ("ttl-types-off", "data"),
        ("snap-sections", "both"),
        ("snap-damaged", "with-older"),
    ] {
        compared += compare_written(name, sub);
    }
    assert!(vectors().is_none() || compared >= 7, "{compared}");
}

/// Each of Java's snapshots alone, loaded and written again.
#[test]
fn a_loaded_snapshot_is_written_as_it_was() {
    let Some(vector) = vectors() else {
        return;
    };
    let mut compared = 0;
    for sub in [
        "fresh-standalone/data",
        "log-and-snapshot/data",
        "rolled/data",
        "dirs-split/data",
        "fuzzy/data",
        "ttl-types-off/data",
        "snap-gz/data",
        "snap-snappy/data",
        "snap-sections/both",
        "snap-sections/restarted",
        "snap-no-digest/data",
        "snap-no-lastzxid/data",
        "snap-neither/data",
        "ensemble/last-leader",
    ] {
        let directory = vector.copy(sub);
        for file in directory.files() {
            if file.starts_with("log.") {
                fs::remove_file(directory.file(&file)).unwrap();
            }
        }
        // From the newest to the oldest; each is loaded while it is the newest.
        for java in snapshots(&directory) {
            let content = Content::of_file(&java);
            let found = directory.recover().unwrap();
            assert_eq!(found.recovered.last_zxid, java.zxid, "{sub}");
            let mut written = Content::of_tree(&found.tree);
            (written.digest, written.last_zxid) = (content.digest, content.last_zxid);
            if let Some(digest) = content.digest
                && digest.zxid == java.zxid
                && java.zxid > Zxid::ZERO
            {
                assert_eq!(found.tree.digest().cast_signed(), digest.digest, "{sub}");
            }
            assert_eq!(found.digest_mismatches, 0, "{sub}");
            assert_eq!(written.without_usage(), content.without_usage(), "{sub}");
            compared += 1;
            fs::remove_file(java.path).unwrap();
        }
    }
    assert!(compared >= 24, "{compared}");
}
