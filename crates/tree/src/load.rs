//! Building a tree from a snapshot.

use std::sync::Arc;

use proto::{Acl, SessionId, StatPersisted, Zxid};

use crate::acl_table::AclTable;
use crate::arena::NodeId;
use crate::node::Node;
use crate::quota::QuotaNode;
use crate::{Tree, TreeSettings, path};

/// Why a snapshot's content is no tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A znode stands before its parent, or the root is not the first.
    #[error("znode {path:?} has no parent before it")]
    MissingParent {
        /// The znode.
        path: String,
    },
    /// A path twice.
    #[error("znode {path:?} is there twice")]
    Duplicate {
        /// The path.
        path: String,
    },
    /// A path that no znode has.
    #[error("{path:?} cannot be the path of a znode")]
    Path {
        /// The path.
        path: String,
    },
    /// No znode at all.
    #[error("there is no root znode")]
    NoRoot,
}

/// Takes a snapshot's content in the order of the file: sessions, ACL lists, znodes.
#[derive(Debug)]
pub struct TreeLoader {
    settings: Arc<TreeSettings>,
    tree: Option<Tree>,
    acls: AclTable,
    sessions: Vec<(SessionId, i32)>,
    /// The znode that was added last, and its path: the next is often its child or sibling.
    last: Option<(String, NodeId)>,
}

impl TreeLoader {
    /// Nothing yet.
    pub fn new(settings: Arc<TreeSettings>) -> Self {
        Self {
            settings,
            tree: None,
            acls: AclTable::new(),
            sessions: Vec::new(),
            last: None,
        }
    }

    /// A session with its timeout in ms.
    pub fn session(&mut self, id: SessionId, timeout_ms: i32) {
        self.sessions.push((id, timeout_ms));
    }

    /// An ACL list and the id that znodes name it by.
    pub fn acl(&mut self, id: i64, list: &[Acl]) {
        self.acls.load(id, list);
    }

    /// A znode; the root first, with the empty path, and every parent before its children.
    ///
    /// An ACL id that is not in the map is accepted: a fuzzy snapshot has such znodes, and the
    /// replay gives them their list. Until then they are for super users only.
    ///
    /// # Errors
    /// If the path cannot be, is there already, or its parent is not.
    pub fn znode(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl_id: i64,
        stat: StatPersisted,
    ) -> Result<(), LoadError> {
        let path_error = |path: &str| LoadError::Path { path: path.into() };
        let acl = self.acls.acquire_loaded(acl_id);
        let Some(tree) = &mut self.tree else {
            if !path.is_empty() {
                return Err(LoadError::MissingParent { path: path.into() });
            }
            let settings = Arc::clone(&self.settings);
            self.tree = Some(Tree::with_root(settings, data, acl, stat));
            return Ok(());
        };
        let Some(split) = path::split(path).filter(|split| !split.name.is_empty()) else {
            let is_root = path.is_empty();
            return Err(match is_root {
                true => LoadError::Duplicate { path: path.into() },
                false => path_error(path),
            });
        };
        let parent = match &self.last {
            Some((parent_path, parent)) if parent_path == split.parent => Some(*parent),
            _ if split.parent == path::ROOT => return Err(path_error(path)),
            _ => tree.lookup(split.parent),
        };
        let Some(parent) = parent else {
            return Err(LoadError::MissingParent { path: path.into() });
        };
        if tree.index.find(&tree.arena, parent, split.name).is_some() {
            return Err(LoadError::Duplicate { path: path.into() });
        }
        let node = Node::new(split.name, data, acl, stat);
        let id = tree.link(parent, node, path::utf16_len(path));
        if path == path::ZOOKEEPER {
            tree.zookeeper = id;
        }
        if let Some(QuotaNode::Limits(root)) = QuotaNode::of(path) {
            tree.quota_roots.insert(root);
        }
        // A parent stays in place until something is not its child.
        if self
            .last
            .as_ref()
            .is_none_or(|(last, _)| last != split.parent)
        {
            self.last = Some((split.parent.to_owned(), parent));
        }
        Ok(())
    }

    /// The tree at `zxid`, with the system znodes and the usage of all quotas counted anew.
    ///
    /// # Errors
    /// If there was no znode.
    pub fn finish(self, zxid: Zxid) -> Result<Tree, LoadError> {
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
