//! Application of delete and deleteContainer.

use jute::Str;
use proto::ErrorCode;

use super::TxnStamp;
use super::create::split_applied;
use crate::nodes::arena::NodeId;
use crate::nodes::node::note_child_deleted;
use crate::quota::{QuotaNode, Usage};
use crate::tree::data_len;
use crate::watch::{Firing, ZnodeChange};
use crate::{Tree, path};

impl Tree {
    /// Deletes a znode. The parent's pzxid is updated even if the znode no longer exists, because a
    /// fuzzy snapshot may contain the parent as it was before the deletion, but not the znode.
    pub(super) fn delete(
        &mut self,
        path: &Str,
        stamp: TxnStamp,
        firing: &mut Firing<'_>,
    ) -> Result<(), ErrorCode> {
        if path::is_system(path) {
            return Err(ErrorCode::BadArguments);
        }
        let (parent_path, name) = split_applied(path)?;
        let parent = self.lookup(parent_path).ok_or(ErrorCode::NoNode)?;
        self.change_stat(parent, |node| {
            note_child_deleted(&mut node.pzxid, stamp.zxid.0);
        });
        let found = self.index.find(&self.arena, parent, name.as_bytes());
        let id = found.ok_or(ErrorCode::NoNode)?;
        self.delete_descendants(id);
        let acl = self.acl_of(id).cloned();
        let bytes = data_len(self.arena[id].body.data());
        self.unlink(id, path::utf16_len(path));
        if let Some(QuotaNode::Limits(root)) = QuotaNode::of(path) {
            self.quota_roots.remove(root);
        }
        let bytes = -bytes;
        self.note_usage(path, Usage { count: -1, bytes });
        if firing.is_needed() {
            let parent_key = path::parent_key(path, parent_path);
            let parent = Some((&parent_key, self.acl_of(parent)));
            firing.fire(ZnodeChange::Deleted, path, acl.as_ref(), parent);
        }
        Ok(())
    }

    /// Deletes the descendants of a znode that is being deleted. They exist only during a replay,
    /// because they belong to a later znode with this path. Later records create them again. (Java
    /// leaves them unreachable until then.)
    fn delete_descendants(&mut self, top: NodeId) {
        if self.arena[top].first_child.get().is_none() {
            return;
        }
        let below: Vec<NodeId> = self.descendants(top).collect();
        for id in below.into_iter().rev() {
            let path = self.path_of(id);
            let bytes = -data_len(self.arena[id].body.data());
            self.unlink(id, path::utf16_len(&path));
            if let Some(QuotaNode::Limits(root)) = QuotaNode::of(&path) {
                self.quota_roots.remove(root);
            }
            self.note_usage(&path, Usage { count: -1, bytes });
        }
    }
}
