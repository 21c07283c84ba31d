//! A naive tree: one map, with each rule written as in the description of the protocol.
#![allow(unreachable_pub)]

use std::collections::BTreeMap;

use bytes::Bytes;
use jute::Encode;
use proto::data::perms;
use proto::request::{CreateRequest, WriteRequest, flags};
use proto::{Acl, Id, OpCode, SessionId, StatPersisted};

#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub data: Option<Bytes>,
    pub acl: Vec<Acl>,
    pub stat: StatPersisted,
}

#[derive(Debug, Clone)]
pub struct Model {
    pub nodes: BTreeMap<String, Node>,
    pub time_ms: i64,
    pub session: SessionId,
}

const SYSTEM: [&str; 4] = ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"];

impl Model {
    pub fn new() -> Self {
        let node = |acl: Acl, aversion| Node {
            data: Some(Bytes::new()),
            acl: vec![acl],
            stat: StatPersisted {
                aversion,
                ..Default::default()
            },
        };
        let mut nodes = BTreeMap::new();
        for path in &SYSTEM[..3] {
            nodes.insert((*path).to_owned(), node(Acl::open(), 0));
        }
        nodes.insert(
            SYSTEM[3].to_owned(),
            node(Acl::new(1, "world", "anyone"), -1),
        );
        Self {
            nodes,
            time_ms: 0,
            session: SessionId(0),
        }
    }

    /// Returns the paths of the children.
    pub fn children(&self, path: &str) -> Vec<String> {
        let prefix = if path == "/" {
            "/".to_owned()
        } else {
            format!("{path}/")
        };
        let is_child = |other: &&String| {
            other
                .strip_prefix(&prefix)
                .is_some_and(|name| !name.is_empty() && !name.contains('/'))
        };
        self.nodes.keys().filter(is_child).cloned().collect()
    }

    fn parent_of(path: &str) -> String {
        match path.rsplit_once('/').unwrap().0 {
            "" => "/".into(),
            parent => parent.into(),
        }
    }

    fn may(&self, path: &str, wanted: i32) -> Result<(), i32> {
        let granted = |entry: &Acl| entry.perms & wanted != 0 && entry.id.scheme == "world";
        if self.nodes[path].acl.iter().any(granted) {
            Ok(())
        } else {
            Err(-102)
        }
    }

    fn version(current: i32, expected: i32) -> Result<i32, i32> {
        if expected == -1 || expected == current {
            Ok(current + 1)
        } else {
            Err(-103)
        }
    }

    fn is_session(owner: i64) -> bool {
        owner != 0 && owner != i64::MIN && (owner >> 56) & 0xff != 0xff
    }

    /// Executes a request; returns the error codes of a multi's results.
    pub fn write(&mut self, request: &WriteRequest, zxid: i64) -> Result<Vec<i32>, i32> {
        match request {
            WriteRequest::Multi(Ok(operations)) => {
                let before = self.clone();
                let mut codes = vec![0; operations.len()];
                for (at, operation) in operations.iter().enumerate() {
                    if let Err(code) = self.one(operation, zxid, true) {
                        *self = before;
                        codes[at] = code;
                        codes[at + 1..].fill(-2);
                        break;
                    }
                }
                Ok(codes)
            }
            one => self.one(one, zxid, false).map(|()| vec![]),
        }
    }

    fn one(&mut self, request: &WriteRequest, zxid: i64, in_multi: bool) -> Result<(), i32> {
        match request {
            WriteRequest::Create { op, request, ttl } => {
                let is_container =
                    *op == OpCode::CreateContainer || in_multi && request.flags == flags::CONTAINER;
                let owner = match request.flags {
                    _ if is_container => i64::MIN,
                    flags::EPHEMERAL | flags::EPHEMERAL_SEQUENTIAL => self.session.0,
                    flags::TTL => (0xff << 56) | ttl,
                    _ => 0,
                };
                self.create(request, owner, zxid)
            }
            WriteRequest::Delete(request) => {
                let path = request.path.as_ref().unwrap();
                self.delete(path, request.version, zxid)
            }
            WriteRequest::SetData(request) => {
                let path: &str = request.path.as_ref().unwrap();
                let node = self.nodes.get(path).ok_or(-101)?;
                self.may(path, perms::WRITE)?;
                let version = Self::version(node.stat.version, request.version)?;
                let mtime = self.time_ms;
                let node = self.nodes.get_mut(path).unwrap();
                node.data.clone_from(&request.data);
                node.stat = StatPersisted {
                    version,
                    mzxid: zxid,
                    mtime,
                    ..node.stat
                };
                Ok(())
            }
            WriteRequest::SetAcl(request) => {
                let path: &str = request.path.as_ref().unwrap();
                let node = self.nodes.get(path).ok_or(-101)?;
                self.may(path, perms::ADMIN)?;
                let aversion = Self::version(node.stat.aversion, request.version)?;
                let node = self.nodes.get_mut(path).unwrap();
                let perms = request.acl.as_ref().unwrap()[0].perms;
                node.acl = vec![Acl::new(perms, "world", "anyone")];
                node.stat.aversion = aversion;
                Ok(())
            }
            WriteRequest::Check(request) => {
                let path: &str = request.path.as_ref().unwrap();
                let node = self.nodes.get(path).ok_or(-101)?;
                self.may(path, perms::READ)?;
                Self::version(node.stat.version, request.version).map(|_| ())
            }
            WriteRequest::CloseSession => {
                let owner = self.session.0;
                let mine = |(path, node): (&String, &Node)| {
                    (node.stat.ephemeral_owner == owner).then(|| path.clone())
                };
                let paths: Vec<String> = self.nodes.iter().filter_map(mine).collect();
                paths.iter().for_each(|path| self.remove(path, zxid));
                Ok(())
            }
            other => panic!("the model knows no {other:?}"),
        }
    }

    fn create(&mut self, request: &CreateRequest, owner: i64, zxid: i64) -> Result<(), i32> {
        let path: &str = request.path.as_ref().unwrap();
        let is_sequential = matches!(request.flags, 2 | 3 | 6);
        let acl = request.acl.clone().unwrap().into_iter().map(|entry| Acl {
            perms: entry.perms,
            id: Id {
                scheme: entry.scheme.unwrap(),
                id: entry.id.unwrap(),
            },
        });
        let parent = Self::parent_of(path);
        let parent_stat = self.nodes.get(&parent).ok_or(-101)?.stat;
        self.may(&parent, perms::CREATE)?;
        let path = if is_sequential {
            format!("{path}{:010}", parent_stat.cversion)
        } else {
            path.to_owned()
        };
        if self.nodes.contains_key(&path) {
            return Err(-110);
        }
        if Self::is_session(parent_stat.ephemeral_owner) {
            return Err(-108);
        }
        let parent = self.nodes.get_mut(&parent).unwrap();
        parent.stat.cversion += 1;
        parent.stat.pzxid = zxid;
        let stat = StatPersisted {
            czxid: zxid,
            mzxid: zxid,
            ctime: self.time_ms,
            mtime: self.time_ms,
            version: 0,
            cversion: 0,
            aversion: 0,
            ephemeral_owner: owner,
            pzxid: zxid,
        };
        let node = Node {
            data: request.data.clone(),
            acl: acl.collect(),
            stat,
        };
        self.nodes.insert(path, node);
        Ok(())
    }

    fn delete(&mut self, path: &str, version: i32, zxid: i64) -> Result<(), i32> {
        if SYSTEM.contains(&path) {
            return Err(-8);
        }
        let parent = Self::parent_of(path);
        if !self.nodes.contains_key(&parent) {
            return Err(-101);
        }
        self.may(&parent, perms::DELETE)?;
        let node = self.nodes.get(path).ok_or(-101)?;
        Self::version(node.stat.version, version)?;
        if !self.children(path).is_empty() {
            return Err(-111);
        }
        self.remove(path, zxid);
        Ok(())
    }

    fn remove(&mut self, path: &str, zxid: i64) {
        self.nodes.remove(path);
        self.nodes
            .get_mut(&Self::parent_of(path))
            .unwrap()
            .stat
            .pzxid = zxid;
    }

    /// Computes the digest from scratch with its formula.
    pub fn digest(&self) -> u64 {
        let counted = self
            .nodes
            .iter()
            .filter(|(path, _)| !path.starts_with("/zookeeper/"));
        counted
            .map(|(path, node)| u64::from(Self::node_digest(path, node)))
            .sum()
    }

    fn node_digest(path: &str, node: &Node) -> u32 {
        let mut bytes = if path == "/" {
            vec![]
        } else {
            path.as_bytes().to_vec()
        };
        bytes.extend(node.data.iter().flatten());
        let stat = &node.stat;
        for long in [stat.czxid, stat.mzxid, stat.pzxid, stat.ctime, stat.mtime] {
            long.encode(&mut bytes);
        }
        for int in [stat.version, stat.cversion, stat.aversion] {
            int.encode(&mut bytes);
        }
        stat.ephemeral_owner.encode(&mut bytes);
        crc32fast::hash(&bytes)
    }
}
