//! Committed transactions, and the state of the znodes after each of them.
//!
//! The history is computed from the transactions alone, independently of the tree.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use proto::txn::{Txn, TxnRecord};
use proto::watch::EventType;
use proto::{SessionId, Zxid};

/// State of a znode that replies contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Znode {
    pub(crate) czxid: i64,
    pub(crate) mzxid: i64,
    pub(crate) version: i32,
    pub(crate) aversion: i32,
    pub(crate) data: Option<Bytes>,
    owner: Option<SessionId>,
}

/// All committed transactions.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// States of each path, each with the transaction that created the state.
    znodes: HashMap<String, Vec<(Zxid, Option<Znode>)>>,
    /// Changes that fire watches, by path.
    changes: BTreeMap<String, Vec<(Zxid, EventType)>>,
    /// Session and number of each request, by zxid.
    requests: HashMap<Zxid, (SessionId, i32)>,
    ephemerals: HashMap<SessionId, Vec<String>>,
    /// Last transaction that closed each session.
    closed: HashMap<SessionId, Zxid>,
    pub(crate) last: Zxid,
}

impl History {
    pub(crate) fn applied(&mut self, record: &TxnRecord) {
        let header = record.header;
        self.last = header.zxid;
        self.requests
            .insert(header.zxid, (header.session, header.cxid));
        self.take(&record.txn, header.zxid, header.session);
    }

    /// Returns the state of a path after the transaction `at`.
    pub(crate) fn get(&self, path: &str, at: Zxid) -> Option<&Znode> {
        let states = self.znodes.get(path)?;
        let count = states.partition_point(|(zxid, _)| *zxid <= at);
        states.get(count.checked_sub(1)?)?.1.as_ref()
    }

    /// Returns the session and the number of the request that created this transaction.
    pub(crate) fn request(&self, zxid: Zxid) -> Option<(SessionId, i32)> {
        self.requests.get(&zxid).copied()
    }

    /// Returns whether a transaction up to `at` has closed the session.
    pub(crate) fn is_closed(&self, session: SessionId, at: Zxid) -> bool {
        self.closed.get(&session).is_some_and(|zxid| *zxid <= at)
    }

    /// Returns the changes of a path after `since` and up to `upto`.
    pub(crate) fn changes(&self, path: &str, since: Zxid, upto: Zxid) -> &[(Zxid, EventType)] {
        let all = self.changes.get(path).map_or(&[][..], Vec::as_slice);
        let begin = all.partition_point(|(zxid, _)| *zxid <= since);
        let end = all.partition_point(|(zxid, _)| *zxid <= upto);
        all.get(begin..end).unwrap_or_default()
    }

    /// Returns the changed paths at or below this one.
    pub(crate) fn changed_under<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a str> {
        let all = self.changes.range(path.to_owned()..);
        let paths = all.map(|(changed, _)| changed.as_str());
        paths.take_while(move |changed| changed.starts_with(path))
    }

    fn take(&mut self, txn: &Txn, zxid: Zxid, session: SessionId) {
        match txn {
            Txn::Create(_)
            | Txn::CreateV0(_)
            | Txn::Create2(_)
            | Txn::CreateContainer(_)
            | Txn::CreateTtl(_) => {
                let fields = txn.fields();
                let path = fields.path.map(ToString::to_string).unwrap_or_default();
                let znode = Znode {
                    czxid: zxid.0,
                    mzxid: zxid.0,
                    version: 0,
                    aversion: 0,
                    data: fields.data.cloned(),
                    owner: fields.is_ephemeral.then_some(session),
                };
                if fields.is_ephemeral {
                    let owned = self.ephemerals.entry(session).or_default();
                    owned.push(path.clone());
                }
                self.set(&path, zxid, Some(znode));
                self.change(&path, zxid, EventType::NodeCreated);
                self.change(parent_of(&path), zxid, EventType::NodeChildrenChanged);
            }
            Txn::Delete { path } | Txn::DeleteContainer { path } => self.remove(path, zxid),
            Txn::SetData(set) | Txn::Reconfig(set) => {
                self.alter(&set.path, zxid, |znode| {
                    (znode.version, znode.mzxid) = (set.version, zxid.0);
                    znode.data.clone_from(&set.data);
                });
                self.change(&set.path, zxid, EventType::NodeDataChanged);
            }
            Txn::SetAcl(set) => self.alter(&set.path, zxid, |znode| znode.aversion = set.version),
            Txn::CloseSession { .. } => {
                self.closed.insert(session, zxid);
                // The list in the transaction may be absent.
                for path in self.ephemerals.remove(&session).unwrap_or_default() {
                    self.remove(&path, zxid);
                }
            }
            Txn::Multi(parts) => {
                let is_failed = parts.iter().any(|part| matches!(part, Txn::Error { .. }));
                for part in parts.iter().filter(|_| !is_failed) {
                    self.take(part, zxid, session);
                }
            }
            Txn::CreateSession { .. } | Txn::Error { .. } | Txn::Check(_) => {}
        }
    }

    fn remove(&mut self, path: &str, zxid: Zxid) {
        let Some(znode) = self.get(path, zxid) else {
            return;
        };
        if let Some(owner) = znode.owner
            && let Some(owned) = self.ephemerals.get_mut(&owner)
        {
            owned.retain(|other| other != path);
        }
        self.set(path, zxid, None);
        self.change(path, zxid, EventType::NodeDeleted);
        self.change(parent_of(path), zxid, EventType::NodeChildrenChanged);
    }

    fn alter(&mut self, path: &str, zxid: Zxid, alter: impl FnOnce(&mut Znode)) {
        if let Some(mut znode) = self.get(path, zxid).cloned() {
            alter(&mut znode);
            self.set(path, zxid, Some(znode));
        }
    }

    fn set(&mut self, path: &str, zxid: Zxid, znode: Option<Znode>) {
        let states = self.znodes.entry(path.to_owned()).or_default();
        states.push((zxid, znode));
    }

    fn change(&mut self, path: &str, zxid: Zxid, event: EventType) {
        let changes = self.changes.entry(path.to_owned()).or_default();
        changes.push((zxid, event));
    }
}

fn parent_of(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(at) => path.get(..at).unwrap_or("/"),
    }
}
