//! Changes that are proposed and not applied yet.

pub(crate) mod pending;

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use jute::Str;
use proto::{Acl, SessionId, Zxid};

use self::pending::PendingNode;
use crate::Tree;

/// The znodes changed by transactions in flight ("outstanding changes"), and the digest of the tree
/// after them.
///
/// A host reports every applied transaction with [`Self::applied`], after the tree has applied it.
/// A late report is harmless, because an entry then equals the tree's state. An early report would
/// lose a change.
#[derive(Debug)]
pub struct Overlay {
    hasher: DefaultHashBuilder,
    /// Pending znodes by path.
    nodes: HashTable<Pending>,
    /// All changes, in zxid order.
    changes: VecDeque<PendingChange>,
    /// Ephemeral znodes created in flight, in zxid order.
    ephemerals: HashMap<SessionId, VecDeque<(Zxid, Str)>>,
    digest: u64,
    /// Undo information, while a multi is prepared.
    undo: Option<Undo>,
    /// Last ACL list. It is shared, because most creates by a client use the same list.
    last_acl: Arc<[Acl]>,
}

#[derive(Debug)]
struct Pending {
    path: Str,
    /// Zxid of the last change.
    zxid: Zxid,
    /// Pending state of the znode; `None` if it is deleted.
    node: Option<PendingNode>,
}

/// Zxid and znode of a [`Pending`] before a change.
type Replaced = (Zxid, Option<PendingNode>);

#[derive(Debug)]
struct PendingChange {
    zxid: Zxid,
    /// Hash of the path.
    hash: u64,
    /// Owner of the ephemeral znode that the change creates.
    owner: Option<SessionId>,
}

#[derive(Debug)]
struct Undo {
    /// Changed paths with their previous entries; `None` if the path was not in flight.
    replaced: Vec<(Str, Option<Replaced>)>,
    changes_len: usize,
    digest: u64,
}

impl Overlay {
    /// Creates an overlay without transactions in flight.
    pub fn new(tree: &Tree) -> Self {
        Self {
            hasher: DefaultHashBuilder::default(),
            nodes: HashTable::new(),
            changes: VecDeque::new(),
            ephemerals: HashMap::new(),
            digest: tree.digest(),
            undo: None,
            last_acl: Arc::new([]),
        }
    }

    /// Removes the changes of transactions up to `zxid`, which the tree has applied.
    pub fn applied(&mut self, zxid: Zxid) {
        while let Some(change) = self.changes.front()
            && change.zxid <= zxid
        {
            // All entries up to `zxid` have been applied, so two paths with the same hash need not
            // be distinguished.
            let is_applied = |pending: &Pending| pending.zxid <= zxid;
            if let Ok(entry) = self.nodes.find_entry(change.hash, is_applied) {
                entry.remove();
            }
            if let Some(owner) = change.owner {
                self.forget_ephemeral(owner, VecDeque::pop_front);
            }
            self.changes.pop_front();
        }
    }

    /// Returns whether no transaction is in flight.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Returns the digest of the tree after all transactions in flight are applied.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Returns the pending state of a znode: `Some(None)` if it will be deleted, `None` if it is
    /// not in flight.
    pub(super) fn get(&self, path: &str) -> Option<Option<&PendingNode>> {
        if self.nodes.is_empty() {
            return None;
        }
        let found = self
            .nodes
            .find(self.hash(path), |known| *known.path == *path);
        found.map(|pending| pending.node.as_ref())
    }

    /// Records that the znode at `path` becomes `node`, or is deleted if `node` is `None`.
    /// `old_digest` is the znode's previous part in the digest.
    pub(super) fn put(
        &mut self,
        path: &Str,
        zxid: Zxid,
        node: Option<PendingNode>,
        old_digest: u32,
    ) {
        let new_digest = node.as_ref().map_or(0, |node| node.digest);
        self.digest = self
            .digest
            .wrapping_sub(old_digest.into())
            .wrapping_add(new_digest.into());
        let hash = self.hash(path);
        let replaced = match self.entry(hash, path) {
            Entry::Occupied(entry) => {
                let pending = entry.into_mut();
                let old_zxid = std::mem::replace(&mut pending.zxid, zxid);
                Some((old_zxid, std::mem::replace(&mut pending.node, node)))
            }
            Entry::Vacant(entry) => {
                let path = path.clone();
                entry.insert(Pending { path, zxid, node });
                None
            }
        };
        if let Some(undo) = &mut self.undo {
            undo.replaced.push((path.clone(), replaced));
        }
        self.changes.push_back(PendingChange {
            zxid,
            hash,
            owner: None,
        });
    }

    /// Records that the last change creates an ephemeral znode of `owner` at `path`.
    pub(super) fn note_ephemeral(&mut self, owner: SessionId, path: &Str) {
        if let Some(change) = self.changes.back_mut() {
            change.owner = Some(owner);
            let created = (change.zxid, path.clone());
            self.ephemerals.entry(owner).or_default().push_back(created);
        }
    }

    /// Returns the paths at which ephemeral znodes of `owner` were created in flight. They may have
    /// been deleted again.
    pub(super) fn ephemerals_of(&self, owner: SessionId) -> impl Iterator<Item = &Str> {
        let created = self.ephemerals.get(&owner).into_iter().flatten();
        created.map(|(_, path)| path)
    }

    /// Begins a group of changes that can be undone.
    pub(super) fn begin(&mut self) {
        self.undo = Some(Undo {
            replaced: Vec::new(),
            changes_len: self.changes.len(),
            digest: self.digest,
        });
    }

    /// Keeps the changes since [`Self::begin`].
    pub(super) fn commit(&mut self) {
        self.undo = None;
    }

    /// Undoes the changes since [`Self::begin`].
    pub(super) fn roll_back(&mut self) {
        let Some(undo) = self.undo.take() else {
            return;
        };
        self.digest = undo.digest;
        for (path, replaced) in undo.replaced.into_iter().rev() {
            let Entry::Occupied(mut entry) = self.entry(self.hash(&path), &path) else {
                continue;
            };
            match replaced {
                Some((zxid, node)) => {
                    let pending = entry.get_mut();
                    (pending.zxid, pending.node) = (zxid, node);
                }
                None => drop(entry.remove()),
            }
        }
        for change in self.changes.split_off(undo.changes_len).into_iter().rev() {
            if let Some(owner) = change.owner {
                self.forget_ephemeral(owner, VecDeque::pop_back);
            }
        }
    }

    /// Returns a shared copy of a list.
    pub(super) fn share_acl(&mut self, list: &[Acl]) -> Arc<[Acl]> {
        if *self.last_acl != *list {
            self.last_acl = list.into();
        }
        Arc::clone(&self.last_acl)
    }

    fn hash(&self, path: &str) -> u64 {
        self.hasher.hash_one(path)
    }

    fn entry(&mut self, hash: u64, path: &str) -> Entry<'_, Pending> {
        let hasher = &self.hasher;
        let is_it = |known: &Pending| *known.path == *path;
        let hash_of = |known: &Pending| hasher.hash_one(&*known.path);
        self.nodes.entry(hash, is_it, hash_of)
    }

    fn forget_ephemeral(
        &mut self,
        owner: SessionId,
        pop: impl FnOnce(&mut VecDeque<(Zxid, Str)>) -> Option<(Zxid, Str)>,
    ) {
        if let Some(created) = self.ephemerals.get_mut(&owner) {
            pop(created);
            if created.is_empty() {
                self.ephemerals.remove(&owner);
            }
        }
    }
}
