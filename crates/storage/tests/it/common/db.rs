//! A database as simple as possible, with the replay rules of DataTree.processTxn.

use std::collections::{BTreeMap, BTreeSet};

use proto::txn::{CreateTxn, Txn, TxnHeader, TxnRecord};
use proto::{Acl, SessionId, StatPersisted, Zxid};
use zoarium_storage::{ContentError, SnapshotDigest, State};

#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub data: Option<Vec<u8>>,
    pub acl: Option<Vec<Acl>>,
    pub stat: StatPersisted,
    pub children: BTreeSet<String>,
}

/// Owner of container znodes.
const CONTAINER: i64 = i64::MIN;

#[derive(Debug, Clone, Default)]
pub struct Db {
    pub nodes: BTreeMap<String, Node>,
    pub sessions: BTreeMap<i64, i32>,
    pub acls: BTreeMap<i64, Vec<Acl>>,
    pub snapshot: Option<(Zxid, Option<SnapshotDigest>)>,
    pub last_zxid: i64,
    pub txns: Vec<i64>,
    /// Zxids whose digest differs from the digest of the tree after them.
    pub mismatches: Vec<i64>,
    pub begun: u32,
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

impl Db {
    /// Returns an empty database.
    pub fn fresh() -> Self {
        let mut db = Self::default();
        db.insert(
            "",
            Some(Vec::new()),
            Some(vec![Acl::open()]),
            StatPersisted::default(),
        );
        for (path, acl, aversion) in [
            ("/zookeeper", Acl::open(), 0),
            ("/zookeeper/config", Acl::new(1, "world", "anyone"), -1),
            ("/zookeeper/quota", Acl::open(), 0),
        ] {
            let stat = StatPersisted {
                aversion,
                ..Default::default()
            };
            db.insert(path, Some(Vec::new()), Some(vec![acl]), stat);
        }
        db
    }

    fn insert(
        &mut self,
        path: &str,
        data: Option<Vec<u8>>,
        acl: Option<Vec<Acl>>,
        stat: StatPersisted,
    ) {
        if !path.is_empty() {
            let (parent, name) = split(path);
            let parent = self.nodes.get_mut(parent).unwrap();
            parent.children.insert(name.to_string());
        }
        let node = Node {
            data,
            acl,
            stat,
            children: BTreeSet::new(),
        };
        self.nodes.insert(path.to_string(), node);
    }

    /// Returns the number of znodes as Java counts them: the root counts twice.
    pub fn node_count(&self) -> usize {
        self.nodes.len() + 1
    }

    /// Returns the tree's digest, computed as in DigestCalculator.
    pub fn digest(&self) -> i64 {
        let counts = |path: &&String| !path.starts_with("/zookeeper/");
        self.nodes
            .keys()
            .filter(counts)
            .map(|path| {
                let (node, mut crc) = (&self.nodes[path], crc32fast::Hasher::new());
                crc.update(path.as_bytes());
                crc.update(node.data.as_deref().unwrap_or_default());
                let stat = &node.stat;
                for long in [stat.czxid, stat.mzxid, stat.pzxid, stat.ctime, stat.mtime] {
                    crc.update(&long.to_be_bytes());
                }
                for int in [stat.version, stat.cversion, stat.aversion] {
                    crc.update(&int.to_be_bytes());
                }
                crc.update(&stat.ephemeral_owner.to_be_bytes());
                i64::from(crc.finalize())
            })
            .fold(0, i64::wrapping_add)
    }

    /// Removes ephemerals without a session, as a server does after loading.
    pub fn kill_orphans(&mut self) {
        let owned: Vec<String> = self
            .nodes
            .iter()
            .filter(|(_, node)| {
                let owner = node.stat.ephemeral_owner;
                owner != 0
                    && owner >> 56 != -1
                    && owner != CONTAINER
                    && !self.sessions.contains_key(&owner)
            })
            .map(|(path, _)| path.clone())
            .collect();
        for path in owned {
            self.remove(&path, self.last_zxid);
        }
    }

    fn remove(&mut self, path: &str, zxid: i64) {
        let (parent, name) = split(path);
        if let Some(parent) = self.nodes.get_mut(parent) {
            parent.children.remove(name);
            parent.stat.pzxid = parent.stat.pzxid.max(zxid);
            self.nodes.remove(path);
        }
    }

    fn create(&mut self, header: &TxnHeader, txn: &CreateTxn, owner: i64, is_plain: bool) {
        let zxid = header.zxid.0;
        let (parent_path, _) = split(&txn.path);
        if !self.nodes.contains_key(parent_path) {
            return;
        }
        let raise = |stat: &mut StatPersisted| {
            let cversion = match txn.parent_cversion {
                -1 => stat.cversion + 1,
                given => given,
            };
            if cversion > stat.cversion {
                (stat.cversion, stat.pzxid) = (cversion, zxid);
            }
        };
        if self.nodes.contains_key(&*txn.path) {
            if is_plain {
                raise(&mut self.nodes.get_mut(parent_path).unwrap().stat);
            }
            self.nodes.get_mut(&*txn.path).unwrap().acl = Some(txn.acl.clone());
            return;
        }
        raise(&mut self.nodes.get_mut(parent_path).unwrap().stat);
        let stat = StatPersisted {
            czxid: zxid,
            mzxid: zxid,
            ctime: header.time_ms,
            mtime: header.time_ms,
            ephemeral_owner: owner,
            pzxid: zxid,
            ..Default::default()
        };
        let data = txn.data.as_ref().map(|data| data.to_vec());
        self.insert(&txn.path, data, Some(txn.acl.clone()), stat);
    }

    fn apply(&mut self, header: &TxnHeader, txn: &Txn) {
        let zxid = header.zxid.0;
        let owner = |ephemeral: bool| if ephemeral { header.session.0 } else { 0 };
        match txn {
            Txn::CreateSession { timeout_ms } => {
                self.sessions.insert(header.session.0, *timeout_ms);
            }
            Txn::CloseSession { paths } => {
                self.sessions.remove(&header.session.0);
                for path in paths.iter().flatten() {
                    self.remove(path, zxid);
                }
                let own: Vec<String> = self
                    .nodes
                    .iter()
                    .filter(|(_, node)| node.stat.ephemeral_owner == header.session.0)
                    .map(|(path, _)| path.clone())
                    .collect();
                for path in own {
                    self.remove(&path, zxid);
                }
            }
            Txn::Create(txn) | Txn::CreateV0(txn) => {
                self.create(header, txn, owner(txn.ephemeral), true);
            }
            Txn::Create2(txn) => self.create(header, txn, owner(txn.ephemeral), false),
            Txn::CreateContainer(txn) => {
                let plain = CreateTxn {
                    path: txn.path.clone(),
                    data: txn.data.clone(),
                    acl: txn.acl.clone(),
                    ephemeral: false,
                    parent_cversion: txn.parent_cversion,
                };
                self.create(header, &plain, CONTAINER, false);
            }
            Txn::CreateTtl(txn) => {
                let plain = CreateTxn {
                    path: txn.path.clone(),
                    data: txn.data.clone(),
                    acl: txn.acl.clone(),
                    ephemeral: false,
                    parent_cversion: txn.parent_cversion,
                };
                self.create(header, &plain, (0xff << 56) | txn.ttl, false);
            }
            Txn::Delete { path } | Txn::DeleteContainer { path } => self.remove(path, zxid),
            Txn::SetData(txn) | Txn::Reconfig(txn) => {
                if let Some(node) = self.nodes.get_mut(&*txn.path) {
                    node.data = txn.data.as_ref().map(|data| data.to_vec());
                    node.stat.version = txn.version;
                    (node.stat.mzxid, node.stat.mtime) = (zxid, header.time_ms);
                }
            }
            Txn::SetAcl(txn) => {
                if let Some(node) = self.nodes.get_mut(&*txn.path) {
                    node.acl = Some(txn.acl.clone());
                    node.stat.aversion = txn.version;
                }
            }
            Txn::Multi(txns) if !txns.iter().any(|txn| matches!(txn, Txn::Error { .. })) => {
                for txn in txns {
                    self.apply(header, txn);
                }
            }
            // Errors, checks and failed multis change nothing.
            _ => {}
        }
    }
}

impl State for Db {
    fn begin(&mut self) {
        *self = Self {
            begun: self.begun + 1,
            ..Self::fresh()
        };
    }

    fn session(&mut self, id: SessionId, timeout_ms: i32) {
        self.sessions.insert(id.0, timeout_ms);
    }

    fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        self.acls.insert(id, acl);
    }

    fn znode(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: StatPersisted,
    ) -> Result<(), ContentError> {
        if path.is_empty() {
            self.nodes.clear();
        } else if !self.nodes.contains_key(split(path).0) {
            return Err(ContentError::new("its parent is missing"));
        }
        let acl = match acl {
            -1 => Some(vec![Acl::open()]),
            id => self.acls.get(&id).cloned(),
        };
        self.insert(path, data.map(<[u8]>::to_vec), acl, stat);
        Ok(())
    }

    fn snapshot_loaded(
        &mut self,
        zxid: Zxid,
        digest: Option<SnapshotDigest>,
    ) -> Result<(), ContentError> {
        self.snapshot = Some((zxid, digest));
        self.last_zxid = zxid.0;
        Ok(())
    }

    fn txn(&mut self, record: &TxnRecord) {
        let header = &record.header;
        self.apply(header, &record.txn);
        self.last_zxid = self.last_zxid.max(header.zxid.0);
        self.txns.push(header.zxid.0);
        if record
            .digest
            .is_some_and(|digest| digest.digest != self.digest())
        {
            self.mismatches.push(header.zxid.0);
        }
    }
}
