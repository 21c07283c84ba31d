//! The committed transactions as changes, and the resulting states of every znode, in the form of
//! the change history.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use history::Position;
use history::record::{AclList, Change, Content, Kind, Operation, Znode};
use parking_lot::RwLock;
use prost::Message;
use proto::txn::{Txn, TxnHeader, TxnRecord};
use proto::{Acl, SessionId, Zxid};
use tree::{Tree, TreeSettings, Watches};

/// States of a znode, each with the position of the change that caused it.
type States = Vec<(Position, Option<Rc<Znode>>)>;

/// Committed changes, the states of every znode, and the shipped tree.
pub(crate) struct Model {
    /// All changes, in order.
    pub(super) changes: Vec<Change>,
    pub(super) states: BTreeMap<String, States>,
    /// Zxid and time (ms) of each transaction.
    pub(super) times: Vec<(i64, i64)>,
    /// Tree after the last transaction, which decides what clients may read now.
    pub(super) tree: RwLock<Tree>,
}

impl Default for Model {
    fn default() -> Self {
        let settings = TreeSettings {
            extended_types: true,
            ..TreeSettings::new(testkit::LIMITS)
        };
        Self {
            changes: Vec::new(),
            states: BTreeMap::new(),
            times: Vec::new(),
            tree: RwLock::new(Tree::new(Arc::new(settings))),
        }
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").finish_non_exhaustive()
    }
}

impl Model {
    /// Returns the last transaction; 0 before the first one.
    pub(crate) fn last(&self) -> Zxid {
        let last = self.times.last();
        last.map_or(Zxid::ZERO, |(zxid, _)| Zxid(*zxid))
    }

    /// Adds the next transaction.
    pub(crate) fn push_txn(&mut self, record: &TxnRecord) {
        let header = &record.header;
        self.take(header, &record.txn, &mut 0);
        self.times.push((header.zxid.0, header.time_ms));
        let tree = self.tree.get_mut();
        tree.apply(record, &mut Watches::new(), &mut Vec::new());
    }

    fn take(&mut self, header: &TxnHeader, txn: &Txn, index: &mut u32) {
        let change = |operation: Operation, path: &str| Change {
            zxid: header.zxid.0,
            time_ms: header.time_ms,
            session: header.session.0,
            cxid: header.cxid,
            operation: operation.into(),
            path: path.to_owned(),
            ..Change::default()
        };
        let create = |path: &str, data: Option<&Bytes>, acl: &[Acl], kind: Kind| Change {
            data: data.map(content),
            acl: Some(acl_content(acl)),
            kind: kind.into(),
            ..change(Operation::Create, path)
        };
        let one = match txn {
            Txn::Multi(txns) if txns.iter().any(|txn| matches!(txn, Txn::Error { .. })) => return,
            Txn::Multi(txns) => {
                return txns.iter().for_each(|txn| self.take(header, txn, index));
            }
            Txn::CloseSession { paths } => {
                let listed = paths.as_deref().unwrap_or_default();
                let mut owned = self.owned(header.session);
                // The znodes in the list of the transaction come first.
                owned.sort_by_key(|path| {
                    let at = listed.iter().position(|other| **other == **path);
                    at.unwrap_or(usize::MAX)
                });
                for path in owned {
                    self.push(change(Operation::CloseSession, &path), index);
                }
                return;
            }
            Txn::Create(txn) | Txn::Create2(txn) => {
                let kind = if txn.ephemeral {
                    Kind::Ephemeral
                } else {
                    Kind::Persistent
                };
                create(&txn.path, txn.data.as_ref(), &txn.acl, kind)
            }
            Txn::CreateContainer(txn) => {
                create(&txn.path, txn.data.as_ref(), &txn.acl, Kind::Container)
            }
            Txn::CreateTtl(txn) => Change {
                ttl_ms: txn.ttl,
                ..create(&txn.path, txn.data.as_ref(), &txn.acl, Kind::Ttl)
            },
            Txn::Delete { path } => change(Operation::Delete, path),
            Txn::DeleteContainer { path } => change(Operation::DeleteByServer, path),
            Txn::SetData(txn) => Change {
                version: txn.version,
                data: txn.data.as_ref().map(content),
                ..change(Operation::SetData, &txn.path)
            },
            Txn::Reconfig(txn) => Change {
                version: txn.version,
                data: txn.data.as_ref().map(content),
                ..change(Operation::Reconfig, &txn.path)
            },
            Txn::SetAcl(txn) => Change {
                aversion: txn.version,
                acl: Some(acl_content(&txn.acl)),
                ..change(Operation::SetAcl, &txn.path)
            },
            _ => return,
        };
        self.push(one, index);
    }

    fn push(&mut self, mut change: Change, index: &mut u32) {
        change.index = *index;
        *index += 1;
        let before = self.znode(&change.path, change.zxid);
        let position = change.position();
        let after = match change.operation() {
            Operation::Create => Some(Znode {
                czxid: change.zxid,
                mzxid: change.zxid,
                ctime_ms: change.time_ms,
                mtime_ms: change.time_ms,
                owner: match change.kind() {
                    Kind::Ephemeral => change.session,
                    _ => 0,
                },
                kind: change.kind,
                ttl_ms: change.ttl_ms,
                data: change.data.clone(),
                acl: change.acl.clone(),
                ..Znode::default()
            }),
            Operation::SetData | Operation::Reconfig => before.map(|before| Znode {
                mzxid: change.zxid,
                mtime_ms: change.time_ms,
                version: change.version,
                data: change.data.clone(),
                ..(*before).clone()
            }),
            Operation::SetAcl => before.map(|before| Znode {
                aversion: change.aversion,
                acl: change.acl.clone(),
                ..(*before).clone()
            }),
            _ => None,
        };
        let states = self.states.entry(change.path.clone()).or_default();
        states.push((position, after.map(Rc::new)));
        self.changes.push(change);
    }

    /// Returns the ephemeral znodes of a session, in order.
    fn owned(&self, session: SessionId) -> Vec<String> {
        let last = self.states.iter().filter(|(_, states)| {
            let state = states.last().and_then(|(_, state)| state.as_ref());
            state.is_some_and(|znode| znode.owner == session.0)
        });
        last.map(|(path, _)| path.clone()).collect()
    }

    /// Returns a znode after the transaction `zxid`.
    pub(super) fn znode(&self, path: &str, zxid: i64) -> Option<Rc<Znode>> {
        self.znode_after(path, Position::after(Zxid(zxid)))
    }

    /// Returns a znode after a change.
    pub(super) fn znode_after(&self, path: &str, position: Position) -> Option<Rc<Znode>> {
        let states = self.states.get(path)?;
        let at = states.partition_point(|(since, _)| *since <= position);
        states.get(at.checked_sub(1)?)?.1.clone()
    }

    /// Returns a znode after the transaction `zxid`.
    pub(crate) fn state(&self, path: &str, zxid: Zxid) -> Option<Rc<Znode>> {
        self.znode(path, zxid.0)
    }

    /// Returns the version of a znode's data; -1 if the znode does not exist.
    pub(crate) fn version(&self, path: &str) -> i32 {
        let znode = self.znode(path, i64::MAX);
        znode.map_or(-1, |znode| znode.version)
    }

    /// Returns the shipped tree after the last transaction.
    pub(crate) fn tree(&self) -> &RwLock<Tree> {
        &self.tree
    }

    /// Returns all paths, also of znodes that no longer exist, in order.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.states.keys().map(String::as_str)
    }
}

/// Returns a content with its bytes, but without its hash.
fn content(bytes: &Bytes) -> Content {
    Content {
        size: bytes.len() as u64,
        inline: Some(bytes.clone()),
        ..Content::default()
    }
}

pub(super) fn acl_content(acl: &[Acl]) -> Content {
    content(&AclList::from_acl(acl).encode_to_vec().into())
}
