//! Preparation of delete and deleteContainer.

use jute::Str;
use proto::data::perms;
use proto::request::PathVersionRequest;
use proto::txn::Txn;
use proto::{ErrorCode, SessionId};

use super::length::string_bytes;
use super::overlay::pending::PendingNode;
use super::{Preparation, next_version};
use crate::nodes::node::note_child_deleted;
use crate::nodes::owner::Owner;
use crate::path::{self, Split};
use crate::tree::expiry::has_ttl_passed;

impl Preparation<'_> {
    /// Prepares a delete. Checks the permission for the parent before it looks up the znode.
    pub(super) fn delete(&mut self, request: &PathVersionRequest) -> Result<Txn, ErrorCode> {
        self.context.session_check?;
        let (path, split) = deletable(request.path.as_ref())?;
        let parent_path = path::parent_key(path, split.parent);
        let parent = self.node(&parent_path).ok_or(ErrorCode::NoNode)?;
        self.check_permission(&parent, perms::DELETE)?;
        let node = self.node(path).ok_or(ErrorCode::NoNode)?;
        next_version(node.stat.version, request.version)?;
        if node.num_children > 0 {
            return Err(ErrorCode::NotEmpty);
        }
        self.lengthen(string_bytes(path))?;
        self.note_deleted(path, &node, &parent_path, parent);
        Ok(Txn::Delete { path: path.clone() })
    }

    /// Prepares a deleteContainer. A client needs the permission for a delete, but the server
    /// itself does not. Both can delete only a childless container or a childless, expired TTL
    /// znode.
    pub(super) fn delete_container(&mut self, path: &Str) -> Result<Txn, ErrorCode> {
        self.context.session_check?;
        let (path, split) = deletable(Some(path))?;
        let parent_path = path::parent_key(path, split.parent);
        let parent = self.node(&parent_path).ok_or(ErrorCode::NoNode)?;
        if self.context.session != SessionId::NONE {
            self.check_permission(&parent, perms::DELETE)?;
        }
        let node = self.node(path).ok_or(ErrorCode::NoNode)?;
        if node.num_children > 0 {
            return Err(ErrorCode::NotEmpty);
        }
        let owner = self.tree.rules.read(node.stat.ephemeral_owner);
        let is_due = owner == Owner::Container
            || has_ttl_passed(owner, node.stat.mtime, self.context.time_ms);
        if node.is_ephemeral || !is_due {
            return Err(ErrorCode::BadVersion);
        }
        self.note_deleted(path, &node, &parent_path, parent);
        Ok(Txn::DeleteContainer { path: path.clone() })
    }

    pub(super) fn note_deleted(
        &mut self,
        path: &Str,
        node: &PendingNode,
        parent_path: &Str,
        mut parent: PendingNode,
    ) {
        let zxid = self.context.zxid;
        let parent_digest = parent.digest;
        parent.change_stat(|stat| note_child_deleted(&mut stat.pzxid, zxid.0));
        parent.num_children = parent.num_children.saturating_sub(1);
        self.overlay
            .put(parent_path, zxid, Some(parent), parent_digest);
        self.overlay.put(path, zxid, None, node.digest);
    }
}

fn deletable(path: Option<&Str>) -> Result<(&Str, Split<'_>), ErrorCode> {
    let (path, split) = path::split_request(path)?;
    if path::is_system(path) {
        return Err(ErrorCode::BadArguments);
    }
    Ok((path, split))
}
