//! The plain list with which the history is compared: every change, and the tree after each.

use std::collections::BTreeMap;

use bytes::Bytes;
use proto::Acl;
use proto::txn::{Txn, TxnRecord};
use zoarium_history::record::{AclList, Kind, Operation};

use crate::generate::Made;

/// A change in the list.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlainChange {
    pub(crate) zxid: i64,
    pub(crate) index: u32,
    pub(crate) time_ms: i64,
    pub(crate) session: i64,
    pub(crate) by: Option<(String, String)>,
    pub(crate) operation: Operation,
    pub(crate) path: String,
    pub(crate) data: Option<Bytes>,
    pub(crate) acl: Option<Vec<Acl>>,
}

/// A znode in the list.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlainZnode {
    pub(crate) czxid: i64,
    pub(crate) mzxid: i64,
    pub(crate) ctime_ms: i64,
    pub(crate) mtime_ms: i64,
    pub(crate) version: i32,
    pub(crate) aversion: i32,
    pub(crate) owner: i64,
    pub(crate) kind: Kind,
    pub(crate) data: Option<Bytes>,
    pub(crate) acl: Vec<Acl>,
}

pub(crate) type Tree = BTreeMap<String, PlainZnode>;

/// Every change, and the tree after each transaction.
pub(crate) struct Plain {
    pub(crate) changes: Vec<PlainChange>,
    /// Trees by zxid; the first is the empty tree.
    pub(crate) trees: Vec<(i64, Tree)>,
    /// Times of the leader's clock by zxid.
    pub(crate) times: Vec<(i64, i64)>,
}

impl Plain {
    pub(crate) fn of(made: &[Made]) -> Self {
        let mut plain = Self {
            changes: Vec::new(),
            trees: vec![(start_zxid(made), start_tree())],
            times: Vec::new(),
        };
        for (record, origin) in made {
            let mut tree = plain.trees.last().unwrap().1.clone();
            let by = match origin.identities.first() {
                Some(who) => {
                    let host = origin.client.split(':').next().unwrap();
                    Some((who.clone(), host.to_owned()))
                }
                None => None,
            };
            for (index, (operation, path, txn)) in (0..).zip(steps(record, &tree)) {
                let change = apply(&mut tree, record, operation, &path, txn);
                plain.changes.push(PlainChange {
                    index,
                    by: by.clone(),
                    ..change
                });
            }
            let header = &record.header;
            plain.trees.push((header.zxid.0, tree));
            plain.times.push((header.zxid.0, header.time_ms));
        }
        plain
    }

    /// Returns the tree after a transaction.
    pub(crate) fn tree(&self, zxid: i64) -> &Tree {
        let at = self.trees.partition_point(|(at, _)| *at <= zxid);
        &self.trees[at - 1].1
    }

    pub(crate) fn head(&self) -> i64 {
        self.trees.last().unwrap().0
    }
}

/// Returns the zxid of the snapshot before the first transaction.
pub(crate) fn start_zxid(made: &[Made]) -> i64 {
    made[0].0.header.zxid.0 - 1
}

pub(crate) fn start_tree() -> Tree {
    let root = PlainZnode {
        czxid: 0,
        mzxid: 0,
        ctime_ms: 0,
        mtime_ms: 0,
        version: 0,
        aversion: 0,
        owner: 0,
        kind: Kind::Persistent,
        data: Some(Bytes::new()),
        acl: vec![Acl::open()],
    };
    Tree::from([("/".to_owned(), root)])
}

type StepOf<'a> = (Operation, String, Option<&'a Txn>);

fn steps<'a>(record: &'a TxnRecord, tree: &Tree) -> Vec<StepOf<'a>> {
    match &record.txn {
        Txn::Multi(txns) if txns.iter().any(|txn| matches!(txn, Txn::Error { .. })) => Vec::new(),
        Txn::Multi(txns) => txns.iter().filter_map(step).collect(),
        Txn::CloseSession { .. } => {
            let session = record.header.session.0;
            let owned = tree.iter().filter(|(_, znode)| znode.owner == session);
            owned
                .map(|(path, _)| (Operation::CloseSession, path.clone(), None))
                .collect()
        }
        txn => step(txn).into_iter().collect(),
    }
}

fn step(txn: &Txn) -> Option<StepOf<'_>> {
    let (operation, path) = match txn {
        Txn::Create(txn) | Txn::Create2(txn) => (Operation::Create, &txn.path),
        Txn::CreateContainer(txn) => (Operation::Create, &txn.path),
        Txn::CreateTtl(txn) => (Operation::Create, &txn.path),
        Txn::Delete { path } => (Operation::Delete, path),
        Txn::DeleteContainer { path } => (Operation::DeleteByServer, path),
        Txn::SetData(txn) => (Operation::SetData, &txn.path),
        Txn::SetAcl(txn) => (Operation::SetAcl, &txn.path),
        _ => return None,
    };
    Some((operation, path.to_string(), Some(txn)))
}

fn apply(
    tree: &mut Tree,
    record: &TxnRecord,
    operation: Operation,
    path: &str,
    txn: Option<&Txn>,
) -> PlainChange {
    let header = &record.header;
    let mut change = PlainChange {
        zxid: header.zxid.0,
        index: 0,
        time_ms: header.time_ms,
        session: header.session.0,
        by: None,
        operation,
        path: path.to_owned(),
        data: None,
        acl: None,
    };
    let created = |data: &Option<Bytes>, acl: &[Acl], owner: i64, kind: Kind| PlainZnode {
        czxid: header.zxid.0,
        mzxid: header.zxid.0,
        ctime_ms: header.time_ms,
        mtime_ms: header.time_ms,
        version: 0,
        aversion: 0,
        owner,
        kind,
        data: data.clone(),
        acl: acl.to_vec(),
    };
    let made = match txn {
        Some(Txn::Create(txn) | Txn::Create2(txn)) if txn.ephemeral => Some(created(
            &txn.data,
            &txn.acl,
            header.session.0,
            Kind::Ephemeral,
        )),
        Some(Txn::Create(txn) | Txn::Create2(txn)) => {
            Some(created(&txn.data, &txn.acl, 0, Kind::Persistent))
        }
        Some(Txn::CreateContainer(txn)) => Some(created(&txn.data, &txn.acl, 0, Kind::Container)),
        Some(Txn::CreateTtl(txn)) => Some(created(&txn.data, &txn.acl, 0, Kind::Ttl)),
        Some(Txn::SetData(txn)) => {
            let znode = tree.get_mut(path).unwrap();
            znode.data.clone_from(&txn.data);
            (znode.version, znode.mzxid) = (txn.version, header.zxid.0);
            znode.mtime_ms = header.time_ms;
            change.data.clone_from(&txn.data);
            return change;
        }
        Some(Txn::SetAcl(txn)) => {
            let znode = tree.get_mut(path).unwrap();
            (znode.acl, znode.aversion) = (txn.acl.clone(), txn.version);
            change.acl = Some(txn.acl.clone());
            return change;
        }
        _ => None,
    };
    match made {
        Some(znode) => {
            (change.data, change.acl) = (znode.data.clone(), Some(znode.acl.clone()));
            tree.insert(path.to_owned(), znode);
        }
        None => assert!(tree.remove(path).is_some(), "{path} is not there"),
    }
    change
}

/// Decodes the ACL of a content.
pub(crate) fn acl_of(bytes: &Bytes) -> Vec<Acl> {
    use prost::Message;
    AclList::decode(bytes.clone()).unwrap().to_acl()
}
