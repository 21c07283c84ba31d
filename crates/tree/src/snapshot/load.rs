//! Construction of a tree from a snapshot.

use std::sync::Arc;

use proto::{Acl, SessionId, StatPersisted, Zxid};

use crate::nodes::acl_table::{AclSlot, AclTable};
use crate::nodes::arena::NodeId;
use crate::nodes::index::{Duplicate, Pending};
use crate::nodes::node::Node;
use crate::quota::QuotaNode;
use crate::{Tree, TreeSettings, path};

/// Reason why a snapshot's content is not a tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The parent of a znode does not precede it, or the first znode is not the root.
    #[error("znode {path:?} precedes its parent")]
    MissingParent {
        /// Path of the znode.
        path: String,
    },
    /// A path occurs twice.
    #[error("znode {path:?} occurs twice")]
    Duplicate {
        /// The duplicate path.
        path: String,
    },
    /// The path is not valid for a znode.
    #[error("{path:?} is not a valid path of a znode")]
    Path {
        /// The invalid path.
        path: String,
    },
    /// The snapshot does not contain a znode.
    #[error("the root znode is missing")]
    NoRoot,
}

/// Builder of a tree from a snapshot's content in the order of the file: sessions, ACL lists,
/// znodes.
#[derive(Debug)]
pub struct TreeLoader {
    settings: Arc<TreeSettings>,
    tree: Option<Tree>,
    acls: AclTable,
    sessions: Vec<(SessionId, i32)>,
    /// Path of the last znode.
    last_path: String,
    /// Last znode and its nearest ancestors, each with the length of its path and its slot.
    last_chain: Vec<(usize, NodeId)>,
    /// Znodes that are not in the tree's index yet.
    pending: Pending,
}

impl TreeLoader {
    /// Creates an empty loader.
    pub fn new(settings: Arc<TreeSettings>) -> Self {
        Self {
            settings,
            tree: None,
            acls: AclTable::new(),
            sessions: Vec::new(),
            last_path: String::new(),
            last_chain: Vec::new(),
            pending: Pending::new(),
        }
    }

    /// Adds a session with its timeout in ms.
    pub fn session(&mut self, id: SessionId, timeout_ms: i32) {
        self.sessions.push((id, timeout_ms));
    }

    /// Adds an ACL list with the id by which znodes refer to it.
    pub fn acl(&mut self, id: i64, list: &[Acl]) {
        self.acls.load(id, list);
    }

    /// Adds a znode. The root must be first, with the empty path, and parents must precede their
    /// children.
    ///
    /// An ACL id that is not in the map is accepted, because a fuzzy snapshot may contain znodes
    /// with such an id. Replay assigns their list. Until then, only super users can access them.
    ///
    /// # Errors
    /// If the path is invalid, or if its parent is missing. A duplicate path may be reported only
    /// by a later call or by [`Self::finish`].
    pub fn znode(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl_id: i64,
        stat: StatPersisted,
    ) -> Result<(), LoadError> {
        let acl = self.acls.acquire_loaded(acl_id);
        if self.tree.is_none() {
            return self.root(path, data, acl, stat);
        }
        if path.is_empty() {
            return Err(LoadError::Duplicate { path: path.into() });
        }
        let Some(split) =
            path::split(path).filter(|split| !split.name.is_empty() && split.parent != path::ROOT)
        else {
            return Err(LoadError::Path { path: path.into() });
        };
        let missing_parent = || LoadError::MissingParent { path: path.into() };
        let parent = self.parent(split.parent)?.ok_or_else(missing_parent)?;
        let tree = self.tree.as_mut().ok_or(LoadError::NoRoot)?;
        let node = Node::new(split.name, data, acl, stat);
        let id = tree.link_unindexed(parent, node, path);
        let added = self.pending.add(&mut tree.index, &tree.arena, id);
        added.map_err(|duplicate| duplicate_znode(tree, &duplicate))?;
        if path == path::ZOOKEEPER {
            tree.zookeeper = id;
        }
        if let Some(QuotaNode::Limits(root)) = QuotaNode::of(path) {
            tree.quota_roots.insert(root);
        }
        self.last_path.truncate(split.parent.len());
        self.last_path.push_str(&path[split.parent.len()..]);
        self.last_chain.push((path.len(), id));
        Ok(())
    }

    fn root(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: AclSlot,
        stat: StatPersisted,
    ) -> Result<(), LoadError> {
        if !path.is_empty() {
            return Err(LoadError::MissingParent { path: path.into() });
        }
        let settings = Arc::clone(&self.settings);
        self.tree = Some(Tree::with_root(settings, data, acl, stat));
        self.last_chain.push((0, Tree::ROOT));
        Ok(())
    }

    /// Returns the parent of the next znode. In a file in depth-first order, the parent is the last
    /// znode or one of its ancestors. This avoids a lookup from the root, which is expensive in a
    /// deep tree.
    fn parent(&mut self, parent_path: &str) -> Result<Option<NodeId>, LoadError> {
        while let Some((len, id)) = self.last_chain.last() {
            if *len == parent_path.len() && self.last_path.get(..*len) == Some(parent_path) {
                return Ok(Some(*id));
            }
            if *len < parent_path.len() {
                break;
            }
            self.last_chain.pop();
        }
        self.enter_pending()?;
        let Some(found) = self.tree.as_ref().and_then(|tree| tree.lookup(parent_path)) else {
            return Ok(None);
        };
        self.last_chain.clear();
        self.last_chain.push((parent_path.len(), found));
        parent_path.clone_into(&mut self.last_path);
        Ok(Some(found))
    }

    /// Adds the pending znodes to the index.
    fn enter_pending(&mut self) -> Result<(), LoadError> {
        let tree = self.tree.as_mut().ok_or(LoadError::NoRoot)?;
        let entered = self.pending.enter_all(&mut tree.index, &tree.arena);
        entered.map_err(|duplicate| duplicate_znode(tree, &duplicate))
    }

    /// Returns the tree at `zxid`. Adds `/zookeeper` and `/zookeeper/quota` if missing, and
    /// recounts the usage of all quotas.
    ///
    /// # Errors
    /// If the snapshot does not contain a znode, or if a path occurs twice.
    pub fn finish(mut self, zxid: Zxid) -> Result<Tree, LoadError> {
        self.enter_pending()?;
        let mut tree = self.tree.ok_or(LoadError::NoRoot)?;
        tree.acls = self.acls;
        tree.acls.purge();
        tree.sessions = self.sessions.into_iter().collect();
        tree.last_zxid = zxid;
        tree.add_system_nodes();
        let roots: Vec<String> = tree.quota_roots.iter().map(str::to_owned).collect();
        for root in roots {
            tree.recount_quota(&root);
        }
        Ok(tree)
    }
}

fn duplicate_znode(tree: &Tree, duplicate: &Duplicate) -> LoadError {
    let path = tree.path_of(duplicate.0).to_string();
    LoadError::Duplicate { path }
}
