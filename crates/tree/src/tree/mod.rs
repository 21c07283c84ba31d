//! The tree itself: its content and the queries on it.

pub(crate) mod digest;
pub(crate) mod expiry;
pub(crate) mod generation;
pub(crate) mod listing;

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use jute::Str;
use proto::{Acl, Id, SessionId, StatPersisted, Zxid};

use crate::nodes::acl_table::{AclSlot, AclTable};
use crate::nodes::arena::{Arena, NodeId};
use crate::nodes::index::Index;
use crate::nodes::node::Node;
use crate::nodes::owner::{Owner, OwnerRules};
use crate::quota::QuotaRoots;
use crate::snapshot::write::Walks;
use crate::{TreeSettings, auth, path};

/// Replicated state: znodes, sessions, ACL lists, and everything derived from them.
///
/// A znode uses 120 bytes with a short name, the memory of its data, and 11 bytes in the index.
/// Sets of ephemeral znodes, containers and TTL znodes use additional memory.
#[derive(Debug)]
pub struct Tree {
    pub(crate) settings: Arc<TreeSettings>,
    pub(crate) rules: OwnerRules,
    pub(crate) arena: Arena,
    pub(crate) index: Index,
    pub(crate) acls: AclTable,
    pub(crate) sessions: BTreeMap<SessionId, i32>,
    pub(crate) ephemerals: HashMap<SessionId, Ephemerals>,
    pub(crate) ephemerals_count: usize,
    pub(crate) containers: HashSet<NodeId>,
    pub(crate) ttls: HashSet<NodeId>,
    pub(crate) unrecognised_ttls: usize,
    pub(crate) quota_roots: QuotaRoots,
    pub(crate) node_count: usize,
    pub(crate) data_size: i64,
    pub(crate) last_zxid: Zxid,
    pub(crate) digest: u64,
    pub(crate) digest_history: digest::RecentDigests,
    pub(crate) last_applied: Option<Zxid>,
    pub(crate) epoch_begin: Option<Zxid>,
    /// Slot of `/zookeeper`, below which znodes are not included in the digest.
    pub(crate) zookeeper: NodeId,
    /// Snapshots that are being written.
    pub(crate) walks: Walks,
}

impl Tree {
    /// Slot of the root, which is allocated first.
    pub(crate) const ROOT: NodeId = NodeId(0);

    /// Creates a tree of the four system znodes at zxid 0.
    pub fn new(settings: Arc<TreeSettings>) -> Self {
        let mut tree =
            Self::with_root(settings, Some(&[]), AclSlot::OPEN, StatPersisted::default());
        tree.add_system_nodes();
        tree.find_or_add_config();
        tree
    }

    /// Creates a tree of the root only.
    pub(crate) fn with_root(
        settings: Arc<TreeSettings>,
        data: Option<&[u8]>,
        acl: AclSlot,
        stat: StatPersisted,
    ) -> Self {
        let mut tree = Self {
            rules: OwnerRules::new(&settings),
            settings,
            arena: Arena::new(),
            index: Index::new(),
            acls: AclTable::new(),
            sessions: BTreeMap::new(),
            ephemerals: HashMap::new(),
            ephemerals_count: 0,
            containers: HashSet::new(),
            ttls: HashSet::new(),
            unrecognised_ttls: 0,
            quota_roots: QuotaRoots::default(),
            node_count: 1,
            data_size: 0,
            last_zxid: Zxid::ZERO,
            digest: 0,
            digest_history: digest::RecentDigests::default(),
            last_applied: None,
            epoch_begin: None,
            zookeeper: NodeId::NIL,
            walks: Walks::default(),
        };
        let mut root = Node::new("", data, acl, stat);
        if tree.settings.digest_enabled {
            root.body.count();
            root.digest = digest::node(path::ROOT, data, &stat);
            tree.digest = root.digest.into();
        }
        tree.data_size = data_len(data);
        tree.arena.insert(root);
        tree
    }

    /// Creates `/zookeeper` and `/zookeeper/quota` if they are missing.
    pub(crate) fn add_system_nodes(&mut self) {
        let stat = StatPersisted::default();
        let zookeeper = self.find_or_link(Self::ROOT, "zookeeper", AclSlot::OPEN, stat);
        self.zookeeper = zookeeper;
        self.find_or_link(zookeeper, "quota", AclSlot::OPEN, stat);
    }

    /// Returns the config znode. Adds it if it is missing, as in data from releases before 3.5. A
    /// new database and the members of an ensemble add it, whereas a standalone server leaves the
    /// data unchanged.
    ///
    /// Source: DataTree.addConfigNode, ZKDatabase.initConfigInZKDatabase.
    pub(crate) fn find_or_add_config(&mut self) -> NodeId {
        let known = self.index.find(&self.arena, self.zookeeper, b"config");
        known.unwrap_or_else(|| {
            let read_only = Acl::new(proto::data::perms::READ, auth::WORLD, auth::ANYONE);
            let acl = self.acls.acquire(&[read_only]);
            let stat = StatPersisted {
                aversion: -1,
                ..StatPersisted::default()
            };
            self.find_or_link(self.zookeeper, "config", acl, stat)
        })
    }

    fn find_or_link(
        &mut self,
        parent: NodeId,
        name: &str,
        acl: AclSlot,
        stat: StatPersisted,
    ) -> NodeId {
        match self.index.find(&self.arena, parent, name.as_bytes()) {
            Some(id) => id,
            None => {
                let path = match parent {
                    Self::ROOT => format!("/{name}"),
                    parent => format!("{}/{name}", self.path_of(parent)),
                };
                self.link(parent, Node::new(name, Some(&[]), acl, stat), &path)
            }
        }
    }

    /// Returns the zxid of the newest applied transaction.
    pub fn last_zxid(&self) -> Zxid {
        self.last_zxid
    }

    /// Returns the last transaction that was applied to this instance. Unlike
    /// [`last_zxid`](Self::last_zxid), it is never the begin of an epoch, and `None` if the tree was
    /// only loaded.
    pub fn last_applied(&self) -> Option<Zxid> {
        self.last_applied
    }

    /// Returns whether this instance has begun an epoch and has not applied a transaction since.
    pub fn is_at_epoch_begin(&self) -> bool {
        self.epoch_begin == Some(self.last_zxid)
    }

    /// Raises the last zxid to `zxid`. A restored tree replaces the history up to that zxid, so its
    /// own last zxid must not be lower.
    pub fn raise_last_zxid(&mut self, zxid: Zxid) {
        self.last_zxid = self.last_zxid.max(zxid);
    }

    /// Returns whether the identities together have all permissions for `/`.
    pub fn has_all_permissions(&self, identities: &[Id]) -> bool {
        let acl = self.acl_of(Self::ROOT).map(|acl| &**acl);
        let mut bits = (0..5).map(|bit| 1 << bit);
        bits.all(|bit| self.permits(acl, bit, identities))
    }

    /// Returns whether one of the identities is super, or the ACL of `/` grants the identities
    /// together all permissions. Permissions of `world:anyone` do not make a client an
    /// administrator. Neither does a setting that disables ACL checks.
    pub fn is_administrator(&self, identities: &[Id]) -> bool {
        let acl = self.acl_of(Self::ROOT).map_or(&[][..], |acl| acl);
        auth::is_named(
            &self.settings.auth,
            acl,
            proto::data::perms::ALL,
            identities,
        )
    }

    /// Returns the sum of the znodes' digests; 0 if digests are off.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Returns the digests at zxids divisible by 128, oldest first, at most 1024 of them.
    pub fn digest_history(&self) -> impl Iterator<Item = (Zxid, u64)> {
        self.digest_history.iter()
    }

    /// Returns the content of a snapshot's digest section, which is the zxid and digest after the
    /// last transaction applied to this instance; `None` if no transaction was applied or if
    /// digests are off.
    pub fn last_applied_digest(&self) -> Option<(Zxid, u64)> {
        let zxid = self.last_applied.filter(|_| self.settings.digest_enabled)?;
        Some((zxid, self.digest))
    }

    /// Returns the settings of the tree.
    pub fn settings(&self) -> &Arc<TreeSettings> {
        &self.settings
    }

    /// Returns the number of znodes as in `zk_znode_count`, where the root counts twice.
    pub fn node_count(&self) -> usize {
        self.node_count + 1
    }

    /// Returns the number of ephemeral znodes.
    pub fn ephemerals_count(&self) -> usize {
        self.ephemerals_count
    }

    /// Returns the total length of all paths in UTF-16 units (the root counts twice, as "" and "/")
    /// and of all data in bytes.
    pub fn approximate_data_size(&self) -> i64 {
        self.data_size + 1
    }

    /// Returns the replicated sessions with their timeouts in ms, ordered by id.
    pub fn sessions(&self) -> impl ExactSizeIterator<Item = (SessionId, i32)> {
        self.sessions
            .iter()
            .map(|(id, timeout_ms)| (*id, *timeout_ms))
    }

    /// Returns the timeout of a replicated session, ms.
    pub fn session_timeout_ms(&self, session: SessionId) -> Option<i32> {
        self.sessions.get(&session).copied()
    }

    /// Returns the total length of the paths of a session's ephemeral znodes, in UTF-16 units.
    pub(crate) fn ephemeral_path_bytes(&self, session: SessionId) -> usize {
        let owned = self.ephemerals.get(&session);
        owned.map_or(0, |owned| owned.path_bytes)
    }

    /// Returns the ephemeral znodes of a session.
    pub(crate) fn ephemerals_of(&self, session: SessionId) -> impl Iterator<Item = NodeId> {
        let owned = self.ephemerals.get(&session);
        owned
            .into_iter()
            .flat_map(|owned| owned.ids.iter().copied())
    }

    /// Returns each owner of ephemeral znodes with their paths.
    pub fn ephemerals(&self) -> impl Iterator<Item = (SessionId, impl Iterator<Item = Str>)> {
        self.ephemerals
            .iter()
            .map(|(owner, owned)| (*owner, owned.ids.iter().map(|id| self.path_of(*id))))
    }

    /// Returns each owner of ephemeral znodes with their number.
    pub fn ephemeral_counts(&self) -> impl Iterator<Item = (SessionId, usize)> {
        let owners = self.ephemerals.iter();
        owners.map(|(owner, owned)| (*owner, owned.ids.len()))
    }

    /// Returns the number of a session's ephemeral znodes.
    pub fn ephemeral_count(&self, session: SessionId) -> usize {
        let owned = self.ephemerals.get(&session);
        owned.map_or(0, |owned| owned.ids.len())
    }

    /// Returns the owners of ephemeral znodes whose session does not exist. A leader or standalone
    /// server deletes their ephemeral znodes after loading.
    ///
    /// Owners that are unrecognised TTLs are omitted. See [`Self::unrecognised_ttls`].
    pub fn orphan_owners(&self) -> Vec<SessionId> {
        let mut owners: Vec<_> = self
            .ephemerals
            .keys()
            .copied()
            .filter(|owner| !self.sessions.contains_key(owner))
            .filter(|owner| !self.rules.is_unrecognised_ttl(owner.0))
            .collect();
        owners.sort_unstable();
        owners
    }

    /// Returns the number of TTL znodes that are treated as ephemeral because extended types are
    /// off.
    ///
    /// Java deletes them when it starts. A server should log a warning or refuse to start.
    pub fn unrecognised_ttls(&self) -> usize {
        self.unrecognised_ttls
    }

    /// Returns the memory of slots and index, without long names and data, bytes.
    pub fn table_bytes(&self) -> usize {
        self.arena.slot_bytes() + self.index.bytes()
    }

    /// Returns whether one of the identities may read a znode with this ACL list. Used to filter
    /// events. If the list is unknown (`None`), only super users may read the znode.
    pub fn may_see(&self, acl: Option<&[Acl]>, identities: &[Id]) -> bool {
        self.permits(acl, proto::data::perms::READ, identities)
    }

    /// Returns whether one of the identities may currently read the znode at a path; `None` if the
    /// znode does not exist.
    pub fn may_read(&self, path: &str, identities: &[Id]) -> Option<bool> {
        let id = self.lookup(path)?;
        Some(self.may_see(self.acl_of(id).map(|acl| &**acl), identities))
    }

    pub(crate) fn permits(&self, acl: Option<&[Acl]>, wanted: i32, identities: &[Id]) -> bool {
        if self.settings.skip_acl {
            return true;
        }
        match acl {
            Some(acl) => auth::permits(&self.settings.auth, acl, wanted, identities),
            None => auth::is_super(identities),
        }
    }

    /// Returns the ACL list of a znode; `None` if it is unknown.
    pub(crate) fn acl_of(&self, id: NodeId) -> Option<&Arc<[Acl]>> {
        self.acls.list(self.arena[id].acl)
    }

    /// Returns the znode at a path. The empty string is the root.
    pub(crate) fn lookup(&self, path: &str) -> Option<NodeId> {
        if path.is_empty() || path == path::ROOT {
            return Some(Self::ROOT);
        }
        let mut id = Self::ROOT;
        let mut rest = path.as_bytes().strip_prefix(b"/")?;
        loop {
            let (name, behind) = rest.split_at(path::name_end(rest));
            if name.is_empty() {
                return None;
            }
            id = self.index.find(&self.arena, id, name)?;
            match behind.split_first() {
                Some((_, next)) => rest = next,
                None => return Some(id),
            }
        }
    }

    /// Returns the path of a znode.
    pub(crate) fn path_of(&self, id: NodeId) -> Str {
        let mut ids = Vec::new();
        let (mut at, mut len) = (id, 0);
        while at != Self::ROOT {
            len += 1 + self.arena[at].body.name_bytes().len();
            ids.push(at);
            at = self.arena[at].parent;
        }
        if ids.is_empty() {
            return Str::from_static(path::ROOT);
        }
        let mut path = String::with_capacity(len);
        for id in ids.into_iter().rev() {
            path.push('/');
            path.push_str(self.arena[id].body.name());
        }
        path.into()
    }

    /// Returns the children of a znode, newest first.
    pub(crate) fn children(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        std::iter::successors(self.arena[id].first_child.get(), |id| {
            self.arena[*id].next.get()
        })
    }

    /// Returns all descendants of a znode, each after its parent. Follows links without recursion,
    /// so any depth is safe.
    pub(crate) fn descendants(&self, top: NodeId) -> impl Iterator<Item = NodeId> {
        std::iter::successors(self.after(top, top), move |id| self.after(*id, top))
    }

    fn after(&self, id: NodeId, top: NodeId) -> Option<NodeId> {
        if let Some(child) = self.arena[id].first_child.get() {
            return Some(child);
        }
        let mut at = id;
        while at != top {
            if let Some(sibling) = self.arena[at].next.get() {
                return Some(sibling);
            }
            at = self.arena[at].parent;
        }
        None
    }

    /// Links a new znode to its parent, and adds it to the index and to the lists for its kind.
    pub(crate) fn link(&mut self, parent: NodeId, node: Node, path: &str) -> NodeId {
        let id = self.link_unindexed(parent, node, path);
        self.index.insert(&self.arena, id);
        id
    }

    /// Links a new znode like [`Self::link`] but does not add it to the index.
    pub(crate) fn link_unindexed(&mut self, parent: NodeId, mut node: Node, path: &str) -> NodeId {
        let path_len = path::utf16_len(path);
        let parent_node = &self.arena[parent];
        node.parent = parent;
        node.next = parent_node.first_child;
        // If digests are off, the root and its descendants are not counted.
        if parent_node.body.is_counted() && parent != self.zookeeper {
            node.body.count();
            node.digest = digest::node(path, node.body.data(), &node.stored_stat());
            self.digest = self.digest.wrapping_add(node.digest.into());
        }
        let owner = node.body.owner();
        self.data_size += path_len.cast_signed() as i64 + data_len(node.body.data());
        self.node_count += 1;
        let id = self.arena.insert(node);
        if let Some(next) = self.arena[id].next.get() {
            self.arena[next].prev = id;
        }
        let parent_node = &mut self.arena[parent];
        parent_node.first_child = id;
        parent_node.num_children += 1;
        self.list_kind(id, owner, path_len);
        id
    }

    /// Removes a childless znode from all structures and frees it. `path_len` is in UTF-16 units.
    pub(crate) fn unlink(&mut self, id: NodeId, path_len: usize) {
        self.walks.leave(&self.arena, id);
        self.index.remove(&self.arena, id);
        let node = &self.arena[id];
        let (parent, prev, next) = (node.parent, node.prev, node.next);
        let (owner, acl) = (node.body.owner(), node.acl);
        self.digest = self.digest.wrapping_sub(node.digest.into());
        self.data_size -= path_len.cast_signed() as i64 + data_len(node.body.data());
        self.node_count -= 1;
        match prev.get() {
            Some(prev) => self.arena[prev].next = next,
            None => self.arena[parent].first_child = next,
        }
        if let Some(next) = next.get() {
            self.arena[next].prev = prev;
        }
        self.arena[parent].num_children -= 1;
        self.unlist_kind(id, owner, path_len);
        self.acls.release(acl);
        self.arena.remove(id);
    }

    /// Changes a znode's stat and updates the digest.
    pub(crate) fn change_stat(&mut self, id: NodeId, change: impl FnOnce(&mut Node)) {
        let node = &mut self.arena[id];
        if !node.body.is_counted() {
            return change(node);
        }
        let before = node.stored_stat();
        change(node);
        let digest = digest::with_stat(node.digest, &before, &node.stored_stat());
        self.replace_digest(id, digest);
    }

    /// Updates the digest after a change of a znode's data and stat.
    ///
    /// `data` is the new data. It is a parameter because its copy in the znode is often not in the
    /// cache yet.
    pub(crate) fn rehash(&mut self, id: NodeId, path: &str, data: Option<&[u8]>) {
        let node = &self.arena[id];
        if node.body.is_counted() {
            let digest = digest::node(path, data, &node.stored_stat());
            self.replace_digest(id, digest);
        }
    }

    fn replace_digest(&mut self, id: NodeId, digest: u32) {
        let old = std::mem::replace(&mut self.arena[id].digest, digest);
        self.digest = self
            .digest
            .wrapping_sub(old.into())
            .wrapping_add(digest.into());
    }

    fn list_kind(&mut self, id: NodeId, owner: i64, path_len: usize) {
        match self.rules.read(owner) {
            Owner::Persistent => {}
            Owner::Container => drop(self.containers.insert(id)),
            Owner::Ttl { .. } => drop(self.ttls.insert(id)),
            Owner::Session(session) => {
                let owned = self.ephemerals.entry(session).or_default();
                owned.ids.insert(id);
                owned.path_bytes += path_len;
                self.ephemerals_count += 1;
                self.unrecognised_ttls += usize::from(self.rules.is_unrecognised_ttl(owner));
            }
        }
    }

    fn unlist_kind(&mut self, id: NodeId, owner: i64, path_len: usize) {
        match self.rules.read(owner) {
            Owner::Persistent => {}
            Owner::Container => drop(self.containers.remove(&id)),
            Owner::Ttl { .. } => drop(self.ttls.remove(&id)),
            Owner::Session(session) => {
                if let Some(owned) = self.ephemerals.get_mut(&session) {
                    owned.ids.remove(&id);
                    owned.path_bytes = owned.path_bytes.saturating_sub(path_len);
                    if owned.ids.is_empty() {
                        self.ephemerals.remove(&session);
                    }
                }
                self.ephemerals_count -= 1;
                self.unrecognised_ttls -= usize::from(self.rules.is_unrecognised_ttl(owner));
            }
        }
    }
}

/// Ephemeral znodes of one session.
#[derive(Debug, Default)]
pub(crate) struct Ephemerals {
    pub(crate) ids: HashSet<NodeId>,
    /// Total length of their paths, which are not stored, in UTF-16 units.
    path_bytes: usize,
}

/// Returns the length of data in bytes; 0 for null.
pub(crate) fn data_len(data: Option<&[u8]>) -> i64 {
    // A slice contains at most isize::MAX bytes.
    data.map_or(0, |data| data.len().cast_signed() as i64)
}
