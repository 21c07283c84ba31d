//! State of a znode after the transactions in flight.

use std::sync::Arc;

use proto::{Acl, StatPersisted};

use crate::Tree;
use crate::nodes::arena::NodeId;
use crate::nodes::owner::Owner;
use crate::tree::data_len;
use crate::tree::digest;

/// Properties of a znode that are needed to check a request, without its data.
#[derive(Debug, Clone)]
pub(crate) struct PendingNode {
    /// Slot of the znode; nil if it is not in the tree yet.
    pub(crate) id: NodeId,
    pub(crate) stat: StatPersisted,
    /// Sequence number for the next create below the znode. This number wraps, as in
    /// PrepRequestProcessor, unlike the count in `stat`, which stays at its maximum, as in the
    /// tree.
    pub(crate) creations: i32,
    pub(crate) num_children: u32,
    pub(crate) data_len: i64,
    /// ACL list; `None` if it is unknown (see [`crate::nodes::acl_table`]).
    pub(crate) acl: Option<Arc<[Acl]>>,
    /// Whether a session owns the znode, which therefore cannot have children.
    pub(crate) is_ephemeral: bool,
    /// Whether the tree's digest includes the znode.
    pub(crate) is_counted: bool,
    /// The znode's part in the tree's digest.
    pub(crate) digest: u32,
}

impl PendingNode {
    /// Returns the properties of a znode in the tree.
    pub(crate) fn of(tree: &Tree, id: NodeId) -> Self {
        let node = &tree.arena[id];
        let stat = node.stored_stat();
        let owner = tree.rules.read(stat.ephemeral_owner);
        Self {
            id,
            stat,
            creations: stat.cversion,
            num_children: node.num_children,
            data_len: data_len(node.body.data()),
            acl: tree.acl_of(id).cloned(),
            is_ephemeral: matches!(owner, Owner::Session(_)),
            is_counted: node.body.is_counted(),
            digest: node.digest,
        }
    }

    /// Changes the stat and updates the digest.
    pub(crate) fn change_stat(&mut self, change: impl FnOnce(&mut StatPersisted)) {
        let before = self.stat;
        change(&mut self.stat);
        if self.is_counted {
            self.digest = digest::with_stat(self.digest, &before, &self.stat);
        }
    }

    /// Sets the data's length and the digest. The stat must already have its final values.
    pub(crate) fn set_data(&mut self, path: &str, data: Option<&[u8]>) {
        self.data_len = data_len(data);
        if self.is_counted {
            self.digest = digest::node(path, data, &self.stat);
        }
    }
}
