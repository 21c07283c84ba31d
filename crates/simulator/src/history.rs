//! What was committed, as an onlooker knows it: every transaction, and the tree that follows.
//!
//! The tree here is a model of its own, a few maps that grow with every transaction and forget
//! nothing, so that it can be asked what was where at any zxid.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use proto::txn::{CreateTxn, Txn, TxnRecord};
use proto::{Epoch, SessionId, Zxid};
use zab::Record;

use crate::observed::decode;

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) zxid: Zxid,
    /// The epoch in which it was committed, its own or a later one.
    pub(crate) epoch: Epoch,
    pub(crate) bytes: Bytes,
    pub(crate) txn: TxnRecord,
}

/// A znode at some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeState {
    pub(crate) data: Option<Bytes>,
    pub(crate) version: i32,
    /// 0 if it is no ephemeral.
    pub(crate) owner: SessionId,
}

#[derive(Debug, Default)]
struct Node {
    /// From each of these zxids on it was so; `None`: it was not there.
    states: Vec<(Zxid, Option<NodeState>)>,
    child_changes: Vec<Zxid>,
}

/// Every committed transaction, and the model.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) entries: Vec<Entry>,
    nodes: BTreeMap<String, Node>,
    pub(crate) sessions: BTreeSet<SessionId>,
    ephemerals: BTreeMap<SessionId, BTreeSet<String>>,
}

impl History {
    pub(crate) fn end(&self) -> Zxid {
        self.entries.last().map_or(Zxid::ZERO, |entry| entry.zxid)
    }

    pub(crate) fn at(&self, zxid: Zxid) -> Option<&Entry> {
        let at = self.entries.binary_search_by_key(&zxid, |entry| entry.zxid);
        self.entries.get(at.ok()?)
    }

    /// The last transaction of a tree that says it ends here: a tree that came as a snapshot before
    /// the first transaction of an epoch ends with that epoch's counter 0.
    pub(crate) fn end_of_tree(&self, last: Zxid) -> Zxid {
        if last.counter() != 0 {
            return last;
        }
        let before = self.entries.partition_point(|entry| entry.zxid < last);
        let before = before.checked_sub(1).and_then(|at| self.entries.get(at));
        before.map_or(Zxid::ZERO, |entry| entry.zxid)
    }

    /// The first one behind `zxid`.
    pub(crate) fn after(&self, zxid: Zxid) -> Option<&Entry> {
        let at = self.entries.partition_point(|entry| entry.zxid <= zxid);
        self.entries.get(at)
    }

    /// The end of what was committed before this epoch.
    pub(crate) fn end_before(&self, epoch: Epoch) -> Zxid {
        let at = self.entries.partition_point(|entry| entry.epoch < epoch);
        let before = at.checked_sub(1).and_then(|at| self.entries.get(at));
        before.map_or(Zxid::ZERO, |entry| entry.zxid)
    }

    /// Adds the next one.
    pub(crate) fn push(&mut self, record: &Record, epoch: Epoch) -> Result<(), String> {
        let txn = decode(record).ok_or_else(|| format!("{record} does not decode"))?;
        let zxid = record.zxid;
        self.change(zxid, txn.header.session, &txn.txn);
        self.entries.push(Entry {
            zxid,
            epoch,
            bytes: record.txn.clone(),
            txn,
        });
        Ok(())
    }

    fn change(&mut self, zxid: Zxid, session: SessionId, txn: &Txn) {
        match txn {
            Txn::CreateSession { .. } => drop(self.sessions.insert(session)),
            Txn::CloseSession { .. } => {
                self.sessions.remove(&session);
                for path in self.ephemerals.remove(&session).unwrap_or_default() {
                    self.set(&path, zxid, None);
                }
            }
            Txn::Create(create) | Txn::Create2(create) => self.create(zxid, session, create),
            Txn::Delete { path } => {
                let owner = self
                    .get(path, zxid)
                    .map_or(SessionId::NONE, |node| node.owner);
                if let Some(owned) = self.ephemerals.get_mut(&owner) {
                    let path: &str = path;
                    owned.remove(path);
                }
                self.set(path, zxid, None);
            }
            Txn::SetData(set) => {
                let owner = self
                    .get(&set.path, zxid)
                    .map_or(SessionId::NONE, |node| node.owner);
                let (data, version) = (set.data.clone(), set.version);
                let state = NodeState {
                    data,
                    version,
                    owner,
                };
                self.node(&set.path).states.push((zxid, Some(state)));
            }
            Txn::Multi(txns) if !has_failed(&Txn::Multi(txns.clone())) => {
                for txn in txns {
                    self.change(zxid, session, txn);
                }
            }
            _ => {}
        }
    }

    fn create(&mut self, zxid: Zxid, session: SessionId, create: &CreateTxn) {
        let owner = if create.ephemeral {
            session
        } else {
            SessionId::NONE
        };
        if create.ephemeral {
            let owned = self.ephemerals.entry(session).or_default();
            owned.insert(create.path.to_string());
        }
        let (data, version) = (create.data.clone(), 0);
        let state = NodeState {
            data,
            version,
            owner,
        };
        self.set(&create.path, zxid, Some(state));
    }

    fn node(&mut self, path: &str) -> &mut Node {
        self.nodes.entry(path.to_owned()).or_default()
    }

    /// It comes or goes.
    fn set(&mut self, path: &str, zxid: Zxid, state: Option<NodeState>) {
        self.node(path).states.push((zxid, state));
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        self.node(parent).child_changes.push(zxid);
    }

    /// The znode as it was at `zxid`.
    pub(crate) fn get(&self, path: &str, zxid: Zxid) -> Option<&NodeState> {
        let states = &self.nodes.get(path)?.states;
        let at = states.partition_point(|(since, _)| *since <= zxid);
        states.get(at.checked_sub(1)?)?.1.as_ref()
    }

    /// Names of the children at `zxid`, in order.
    pub(crate) fn children(&self, path: &str, zxid: Zxid) -> Vec<&str> {
        let from = format!("{path}/");
        let below = self
            .nodes
            .range(from.clone()..)
            .map(|(below, _)| below.as_str());
        let below = below.map_while(|below| Some((below, below.strip_prefix(&from)?)));
        let here =
            below.filter(|(below, name)| !name.contains('/') && self.get(below, zxid).is_some());
        here.map(|(_, name)| name).collect()
    }

    /// All paths that are there now.
    pub(crate) fn paths(&self) -> impl Iterator<Item = (&str, &NodeState)> {
        let now = self.end();
        self.nodes
            .keys()
            .filter_map(move |path| Some((path.as_str(), self.get(path, now)?)))
    }

    /// The first change of a znode (or of its children) behind `from` and up to `upto`.
    pub(crate) fn change_between(
        &self,
        path: &str,
        is_of_children: bool,
        from: Zxid,
        upto: Zxid,
    ) -> Option<Zxid> {
        let node = self.nodes.get(path)?;
        let is_within = |zxid: &Zxid| *zxid > from && *zxid <= upto;
        let gone = node.states.iter().filter(|(_, state)| state.is_none());
        let mut gone = gone.map(|(zxid, _)| *zxid);
        if is_of_children {
            let mut changes = node.child_changes.iter().copied();
            return changes.find(is_within).or_else(|| gone.find(is_within));
        }
        let mut changes = node.states.iter().map(|(zxid, _)| *zxid);
        changes.find(is_within)
    }

    /// What a session owns now.
    pub(crate) fn owned(&self, session: SessionId) -> usize {
        self.ephemerals.get(&session).map_or(0, BTreeSet::len)
    }
}

/// Whether nothing was changed.
pub(crate) fn has_failed(txn: &Txn) -> bool {
    match txn {
        Txn::Error { .. } => true,
        Txn::Multi(txns) => txns.iter().any(|txn| matches!(txn, Txn::Error { .. })),
        _ => false,
    }
}
