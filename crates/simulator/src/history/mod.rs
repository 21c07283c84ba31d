//! The committed transactions as an omniscient observer sees them, and the resulting tree.
//!
//! The tree is a separate model, which consists of a few maps that grow with every transaction and
//! keep all earlier states. It can return the state of any znode at any zxid.

pub(crate) mod check;
pub(crate) mod secrets;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bytes::Bytes;
use config::membership::Membership;
use jute::Encode;
use proto::txn::{Txn, TxnHeader, TxnRecord};
use proto::{Acl, Epoch, ErrorCode, SessionId, Sid, Zxid};
use simulation::configured::sid_of;
use zab::Record;

use crate::checks::observed::decode;
use crate::storms::plan::Plan;

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) zxid: Zxid,
    /// Epoch in which the transaction was committed, which is its own epoch or a later one.
    pub(crate) epoch: Epoch,
    pub(crate) bytes: Bytes,
    pub(crate) txn: TxnRecord,
}

impl Entry {
    /// Returns whether `bytes` are this entry with `SessionMoved` instead of the error
    /// `BadArguments`. A follower sends this form to its observer. Neither form changes the tree.
    fn is_told_as_moved(&self, bytes: &Bytes) -> bool {
        let txn = Txn::error(ErrorCode::SessionMoved);
        let moved = TxnRecord {
            txn,
            ..self.txn.clone()
        };
        self.txn.txn == Txn::error(ErrorCode::BadArguments) && moved.to_bytes() == *bytes
    }
}

/// State of a znode at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeState {
    pub(crate) data: Option<Bytes>,
    pub(crate) version: i32,
    /// Owner of an ephemeral znode; 0 for other znodes.
    pub(crate) owner: SessionId,
    pub(crate) acl: Rc<[Acl]>,
    pub(crate) lifetime: Lifetime,
    /// Time of the last data change, by the leader's clock.
    pub(crate) changed_ms: i64,
}

/// Condition under which a server deletes a znode on its own initiative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// Never, except at the end of the owner's session.
    Unbounded,
    /// After the deletion of the znode's last child.
    Container,
    /// After this number of ms without a change and without a child.
    Ttl(i64),
}

#[derive(Debug, Default)]
struct Node {
    /// States of the znode, each with the zxid from which it was valid. `None` means that the znode
    /// did not exist.
    states: Vec<(Zxid, Option<NodeState>)>,
    /// Zxids at which the znode was created or deleted, or its data was set.
    changes: Vec<Zxid>,
    child_changes: Vec<Zxid>,
}

/// All committed transactions, and the model of the tree.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) entries: Vec<Entry>,
    nodes: BTreeMap<String, Node>,
    /// Open sessions, each with the epoch in which it was created.
    pub(crate) sessions: BTreeMap<SessionId, Epoch>,
    ephemerals: BTreeMap<SessionId, BTreeSet<String>>,
    /// Lowest id of a server that may learn from a follower; `None` if no server may.
    observers_from: Option<Sid>,
}

impl History {
    pub(crate) fn new(plan: &Plan) -> Self {
        let first = if plan.features.reconfigures {
            0
        } else {
            plan.voters
        };
        let has_them = plan.features.has_observer_masters;
        Self {
            observers_from: has_them.then(|| sid_of(first)),
            ..Self::default()
        }
    }

    /// Returns whether a server may have `bytes` for an entry. These are the entry's own bytes or,
    /// on an observer of a follower, the form with `SessionMoved`.
    pub(crate) fn may_have(&self, sid: Sid, entry: &Entry, bytes: &Bytes) -> bool {
        let is_behind_follower = self.observers_from.is_some_and(|first| sid >= first);
        entry.bytes == *bytes || is_behind_follower && entry.is_told_as_moved(bytes)
    }

    pub(crate) fn end(&self) -> Zxid {
        self.entries.last().map_or(Zxid::ZERO, |entry| entry.zxid)
    }

    /// Returns the member list that was committed last.
    pub(crate) fn member_list(&self) -> Option<String> {
        self.entries
            .iter()
            .rev()
            .find_map(|entry| match &entry.txn.txn {
                Txn::Reconfig(set) => {
                    let data = set.data.as_deref().unwrap_or_default();
                    Some(String::from_utf8_lossy(data).into_owned())
                }
                _ => None,
            })
    }

    /// Returns [`Self::member_list`] in parsed form.
    pub(crate) fn members(&self) -> Option<Membership> {
        Membership::parse(&self.member_list()?, false).ok()
    }

    pub(crate) fn at(&self, zxid: Zxid) -> Option<&Entry> {
        let at = self.entries.binary_search_by_key(&zxid, |entry| entry.zxid);
        self.entries.get(at.ok()?)
    }

    /// Returns the last transaction in a tree that ends at `last`. Before the first transaction of
    /// an epoch, a leader's tree and its copies end at the zxid of that epoch with counter 0.
    pub(crate) fn end_of_tree(&self, last: Zxid) -> Zxid {
        if last.counter() != 0 {
            return last;
        }
        let before = self.entries.partition_point(|entry| entry.zxid < last);
        let before = before.checked_sub(1).and_then(|at| self.entries.get(at));
        before.map_or(Zxid::ZERO, |entry| entry.zxid)
    }

    /// Returns the first entry after `zxid`.
    pub(crate) fn after(&self, zxid: Zxid) -> Option<&Entry> {
        let at = self.entries.partition_point(|entry| entry.zxid <= zxid);
        self.entries.get(at)
    }

    /// Returns the zxid of the last transaction that was committed before this epoch.
    pub(crate) fn end_before(&self, epoch: Epoch) -> Zxid {
        let at = self.entries.partition_point(|entry| entry.epoch < epoch);
        let before = at.checked_sub(1).and_then(|at| self.entries.get(at));
        before.map_or(Zxid::ZERO, |entry| entry.zxid)
    }

    /// Adds the next transaction.
    pub(crate) fn push(&mut self, record: &Record, epoch: Epoch) -> Result<(), String> {
        let txn = decode(record).ok_or_else(|| format!("cannot decode {record}"))?;
        let zxid = record.zxid;
        self.must_fit(&txn.txn)
            .map_err(|how| format!("{zxid} {how}"))?;
        self.change(&txn.header, &txn.txn);
        self.entries.push(Entry {
            zxid,
            epoch,
            bytes: record.txn.clone(),
            txn,
        });
        Ok(())
    }

    /// Checks that the model can apply a transaction, or the first part of a multi.
    fn must_fit(&self, txn: &Txn) -> Result<(), String> {
        let is_there = |path: &str| self.get(path, Zxid(i64::MAX)).is_some();
        let makes = |path: &str| {
            if is_there(path) {
                Err(format!("creates {path}, which already exists"))
            } else {
                Ok(())
            }
        };
        let parts = match txn {
            Txn::Multi(_) if has_failed(txn) => &[],
            Txn::Multi(txns) => txns.get(..1).unwrap_or_default(),
            txn => std::slice::from_ref(txn),
        };
        match parts.first() {
            Some(Txn::Create(create) | Txn::Create2(create)) => makes(&create.path),
            Some(Txn::CreateContainer(create)) => makes(&create.path),
            Some(Txn::CreateTtl(create)) => makes(&create.path),
            Some(Txn::Delete { path } | Txn::DeleteContainer { path }) => {
                let has_children = self.descendants(path, Zxid(i64::MAX)).next().is_some();
                if is_there(path) && !has_children {
                    Ok(())
                } else {
                    Err(format!(
                        "deletes {path}, which does not exist or has children"
                    ))
                }
            }
            Some(Txn::SetData(set)) if !set.path.starts_with("/zookeeper") => {
                let version = self.get(&set.path, Zxid(i64::MAX)).map(|node| node.version);
                if version.is_some_and(|version| version.wrapping_add(1) == set.version) {
                    Ok(())
                } else {
                    Err(format!(
                        "sets {} from {version:?} to {}",
                        set.path, set.version
                    ))
                }
            }
            _ => Ok(()),
        }
    }

    fn change(&mut self, header: &TxnHeader, txn: &Txn) {
        let (zxid, session) = (header.zxid, header.session);
        match txn {
            Txn::CreateSession { .. } => drop(self.sessions.insert(session, zxid.epoch())),
            Txn::CloseSession { .. } => {
                self.sessions.remove(&session);
                for path in self.ephemerals.remove(&session).unwrap_or_default() {
                    self.set(&path, zxid, None);
                }
            }
            Txn::Create(create) | Txn::Create2(create) => {
                let mut state = new_node(header, create.data.as_ref(), &create.acl);
                if create.ephemeral {
                    let owned = self.ephemerals.entry(session).or_default();
                    owned.insert(create.path.to_string());
                    state.owner = session;
                }
                self.set(&create.path, zxid, Some(state));
            }
            Txn::CreateContainer(create) => {
                let mut state = new_node(header, create.data.as_ref(), &create.acl);
                state.lifetime = Lifetime::Container;
                self.set(&create.path, zxid, Some(state));
            }
            Txn::CreateTtl(create) => {
                let mut state = new_node(header, create.data.as_ref(), &create.acl);
                state.lifetime = Lifetime::Ttl(create.ttl);
                self.set(&create.path, zxid, Some(state));
            }
            Txn::Delete { path } | Txn::DeleteContainer { path } => {
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
                self.edit(&set.path, zxid, |node| {
                    node.data.clone_from(&set.data);
                    node.version = set.version;
                    node.changed_ms = header.time_ms;
                });
                self.node(&set.path).changes.push(zxid);
            }
            Txn::SetAcl(set) => {
                self.edit(&set.path, zxid, |node| node.acl = set.acl.clone().into());
            }
            Txn::Multi(txns) if !has_failed(txn) => {
                for txn in txns {
                    self.change(header, txn);
                }
            }
            _ => {}
        }
    }

    /// Changes an existing znode.
    fn edit(&mut self, path: &str, zxid: Zxid, edit: impl FnOnce(&mut NodeState)) {
        if let Some(mut state) = self.get(path, zxid).cloned() {
            edit(&mut state);
            self.node(path).states.push((zxid, Some(state)));
        }
    }

    fn node(&mut self, path: &str) -> &mut Node {
        self.nodes.entry(path.to_owned()).or_default()
    }

    /// Creates or deletes a znode.
    fn set(&mut self, path: &str, zxid: Zxid, state: Option<NodeState>) {
        let node = self.node(path);
        node.states.push((zxid, state));
        node.changes.push(zxid);
        self.node(parent_of(path)).child_changes.push(zxid);
    }

    /// Returns the znode as it was at `zxid`.
    pub(crate) fn get(&self, path: &str, zxid: Zxid) -> Option<&NodeState> {
        let states = &self.nodes.get(path)?.states;
        let at = states.partition_point(|(since, _)| *since <= zxid);
        states.get(at.checked_sub(1)?)?.1.as_ref()
    }

    /// Returns the names of the children at `zxid`, in order.
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

    /// Returns all paths that currently exist.
    pub(crate) fn paths(&self) -> impl Iterator<Item = (&str, &NodeState)> {
        let now = self.end();
        self.nodes
            .keys()
            .filter_map(move |path| Some((path.as_str(), self.get(path, now)?)))
    }

    /// Returns all descendants of a znode at `zxid`.
    pub(crate) fn descendants(&self, path: &str, zxid: Zxid) -> impl Iterator<Item = &str> {
        let from = format!("{path}/");
        let below = self.nodes.range(from.clone()..);
        let below = below.map(|(below, _)| below.as_str());
        let below = below.take_while(move |below| below.starts_with(&from));
        below.filter(move |below| self.get(below, zxid).is_some())
    }

    /// Returns the ephemerals of a session at `zxid`.
    pub(crate) fn owned_at(&self, session: SessionId, zxid: Zxid) -> Vec<&str> {
        let nodes = self.nodes.keys().map(String::as_str);
        let is_owned = |path: &&str| {
            let node = self.get(path, zxid);
            node.is_some_and(|node| node.owner == session)
        };
        nodes.filter(is_owned).collect()
    }

    /// Returns the zxid of the last change of a znode's list of children.
    pub(crate) fn last_child_change(&self, path: &str) -> Option<Zxid> {
        self.nodes.get(path)?.child_changes.last().copied()
    }

    /// Returns the zxid that created a znode, if the znode exists now.
    pub(crate) fn created_at(&self, path: &str) -> Option<Zxid> {
        self.created_before(path, Zxid(i64::MAX))
    }

    /// Returns the zxid that created a znode, if the znode existed at `zxid`.
    pub(crate) fn created_before(&self, path: &str, zxid: Zxid) -> Option<Zxid> {
        let states = &self.nodes.get(path)?.states;
        let states = &states[..states.partition_point(|(since, _)| *since <= zxid)];
        let since = states.iter().rposition(|(_, state)| state.is_none());
        states.get(since.map_or(0, |at| at + 1)).map(|(at, _)| *at)
    }

    /// Returns whether a znode had, at some time in an interval, data that was set more than `ms`
    /// before the end of the interval.
    pub(crate) fn was_unchanged(&self, path: &str, ms: i64, from_ms: i64, upto_ms: i64) -> bool {
        let states = self.nodes.get(path).map_or(&[][..], |node| &node.states);
        let time_of = |zxid: Zxid| self.at(zxid).map(|entry| entry.txn.header.time_ms);
        let mut ends = states[states.len().min(1)..].iter().map(|(zxid, _)| *zxid);
        states.iter().any(|(_, state)| {
            let end_ms = ends.next().and_then(time_of).unwrap_or(upto_ms);
            let since_ms = state.as_ref().map(|state| state.changed_ms);
            since_ms.is_some_and(|since_ms| upto_ms - since_ms > ms && end_ms >= from_ms)
        })
    }

    /// Returns the changes to a znode after `from` and up to `upto`: it was created or deleted, or
    /// its data was set.
    pub(crate) fn changes(&self, path: &str, from: Zxid, upto: Zxid) -> impl Iterator<Item = Zxid> {
        let node = self.nodes.get(path);
        within(node.map_or(&[][..], |node| &node.changes), from, upto)
    }

    /// Returns the changes to a znode's list of children in the interval: a child was created or
    /// deleted.
    pub(crate) fn child_changes(
        &self,
        path: &str,
        from: Zxid,
        upto: Zxid,
    ) -> impl Iterator<Item = Zxid> {
        let node = self.nodes.get(path);
        within(node.map_or(&[][..], |node| &node.child_changes), from, upto)
    }

    /// Counts the changes to a znode and to all its descendants in the interval.
    pub(crate) fn changes_below(&self, path: &str, from: Zxid, upto: Zxid) -> usize {
        let below = format!("{path}/");
        let nodes = self.nodes.range(path.to_owned()..);
        let nodes = nodes.filter(|(at, _)| *at == path || at.starts_with(&below));
        nodes
            .map(|(_, node)| within(&node.changes, from, upto).count())
            .sum()
    }

    /// Returns the entries after `from` and up to `upto`.
    fn between(&self, from: Zxid, upto: Zxid) -> &[Entry] {
        let begin = self.entries.partition_point(|entry| entry.zxid <= from);
        let end = self.entries.partition_point(|entry| entry.zxid <= upto);
        &self.entries[begin..end.max(begin)]
    }

    /// Adds the transactions to the model of a change history that it does not have yet.
    fn add_to(&self, model: &mut check::Model) {
        for entry in self.between(model.last(), Zxid(i64::MAX)) {
            model.push_txn(&entry.txn);
        }
    }

    /// Returns the zxid of the first deletion of a znode after `from` and up to `upto`, if any.
    pub(crate) fn end_between(&self, path: &str, from: Zxid, upto: Zxid) -> Option<Zxid> {
        let states = &self.nodes.get(path)?.states;
        let ends = states.iter().filter(|(_, state)| state.is_none());
        let mut ends = ends.map(|(zxid, _)| *zxid);
        ends.find(|zxid| *zxid > from && *zxid <= upto)
    }

    /// Returns the number of ephemerals that a session owns now.
    pub(crate) fn owned(&self, session: SessionId) -> usize {
        self.ephemerals.get(&session).map_or(0, BTreeSet::len)
    }
}

fn new_node(header: &TxnHeader, data: Option<&Bytes>, acl: &[Acl]) -> NodeState {
    NodeState {
        data: data.cloned(),
        version: 0,
        owner: SessionId::NONE,
        acl: acl.into(),
        lifetime: Lifetime::Unbounded,
        changed_ms: header.time_ms,
    }
}

/// Returns the zxids after `from` and up to `upto` in an ordered list.
fn within(zxids: &[Zxid], from: Zxid, upto: Zxid) -> impl Iterator<Item = Zxid> {
    let begin = zxids.partition_point(|zxid| *zxid <= from);
    let end = zxids.partition_point(|zxid| *zxid <= upto).max(begin);
    zxids[begin..end].iter().copied()
}

/// Returns the path of the parent, which is empty for a child of the root.
pub(crate) fn parent_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Returns whether a transaction is valid from any session at any time. Any client may end a
/// session or request the deletion of an empty container. Source:
/// PrepRequestProcessor.pRequest2Txn.
pub(crate) fn needs_no_session(txn: &Txn) -> bool {
    matches!(txn, Txn::CloseSession { .. } | Txn::DeleteContainer { .. })
}

/// Returns whether the transaction is an error or a failed multi, which changes nothing.
pub(crate) fn has_failed(txn: &Txn) -> bool {
    match txn {
        Txn::Error { .. } => true,
        Txn::Multi(txns) => txns.iter().any(|txn| matches!(txn, Txn::Error { .. })),
        _ => false,
    }
}
