//! Application of create, create2, createContainer and createTTL.

use bytes::Bytes;
use jute::Str;
use proto::txn::Txn;
use proto::{Acl, ErrorCode, Stat};

use super::{Outcome, TxnStamp};
use crate::nodes::arena::NodeId;
use crate::nodes::node::{Node, note_child_created, stat_at_creation};
use crate::nodes::owner::stored_container;
use crate::quota::{QuotaNode, Usage};
use crate::tree::data_len;
use crate::watch::{Firing, ZnodeChange};
use crate::{Tree, path};

/// Fields that all create transactions have.
struct NewNode<'a> {
    path: &'a Str,
    data: Option<&'a Bytes>,
    acl: &'a [Acl],
    /// Stored owner of the znode.
    owner: i64,
    /// Resulting creation count of the parent; -1 if the count increases by one.
    parent_cversion: i32,
}

impl Tree {
    pub(super) fn apply_create(
        &mut self,
        txn: &Txn,
        stamp: TxnStamp,
        firing: &mut Firing<'_>,
    ) -> Outcome {
        let result = self
            .new_node(txn, stamp)
            .and_then(|node| Ok((node.path.clone(), self.create(&node, stamp, firing)?)));
        match result {
            Ok((path, stat)) => Outcome::Created {
                op: txn.op(),
                path,
                stat,
            },
            Err(code) => Outcome::Error(code),
        }
    }

    /// Returns the fields of a create transaction.
    ///
    /// # Errors
    /// BadArguments if the TTL is out of range. A Java server logs such a createTTL but stops when
    /// it applies the transaction, which therefore never took effect.
    fn new_node<'a>(&self, txn: &'a Txn, stamp: TxnStamp) -> Result<NewNode<'a>, ErrorCode> {
        match txn {
            Txn::Create(txn) | Txn::CreateV0(txn) | Txn::Create2(txn) => Ok(NewNode {
                path: &txn.path,
                data: txn.data.as_ref(),
                acl: &txn.acl,
                owner: if txn.ephemeral { stamp.session.0 } else { 0 },
                parent_cversion: txn.parent_cversion,
            }),
            Txn::CreateContainer(txn) => Ok(NewNode {
                path: &txn.path,
                data: txn.data.as_ref(),
                acl: &txn.acl,
                owner: stored_container(),
                parent_cversion: txn.parent_cversion,
            }),
            Txn::CreateTtl(txn) => Ok(NewNode {
                path: &txn.path,
                data: txn.data.as_ref(),
                acl: &txn.acl,
                owner: self
                    .rules
                    .stored_ttl(txn.ttl)
                    .ok_or(ErrorCode::BadArguments)?,
                parent_cversion: txn.parent_cversion,
            }),
            _ => Err(ErrorCode::Unimplemented),
        }
    }

    fn create(
        &mut self,
        new: &NewNode<'_>,
        stamp: TxnStamp,
        firing: &mut Firing<'_>,
    ) -> Result<Stat, ErrorCode> {
        let zxid = stamp.zxid.0;
        let (parent_path, name) = split_applied(new.path)?;
        let parent = self.lookup(parent_path).ok_or(ErrorCode::NoNode)?;
        // The ACL list is acquired even if the znode exists, because a znode in a fuzzy snapshot
        // may refer to a list that only this record contains.
        let acl = self.acls.acquire(new.acl);
        if let Some(existing) = self.index.find(&self.arena, parent, name.as_bytes()) {
            let replaced = std::mem::replace(&mut self.arena[existing].acl, acl);
            self.acls.release(replaced);
            self.note_created(parent, new.parent_cversion, zxid);
            return Err(ErrorCode::NodeExists);
        }
        self.note_created(parent, new.parent_cversion, zxid);
        let stat = stat_at_creation(zxid, stamp.time_ms, new.owner);
        let data = new.data.map(|data| &**data);
        let id = self.link(parent, Node::new(name, data, acl, stat), new.path);
        // The outcome contains the stat at the creation, before a recount may replace the data of a
        // usage znode.
        let stat = self.arena[id].stat(self.rules);
        match QuotaNode::of(new.path) {
            Some(QuotaNode::Limits(root)) => self.quota_roots.insert(root),
            Some(QuotaNode::Stats(root)) => self.recount_quota(root),
            None => {}
        }
        let bytes = data_len(data);
        self.note_usage(new.path, Usage { count: 1, bytes });
        if firing.is_needed() {
            let parent_key = path::parent_key(new.path, parent_path);
            let parent = Some((&parent_key, self.acl_of(parent)));
            firing.fire(ZnodeChange::Created, new.path, self.acl_of(id), parent);
        }
        Ok(stat)
    }

    /// Records a creation below `parent`, even if the znode already exists, because a parent that
    /// was written to a fuzzy snapshot before its child must be updated. (Java does this only for
    /// the plain create, and handles the parent incorrectly for other kinds.)
    fn note_created(&mut self, parent: NodeId, parent_cversion: i32, zxid: i64) {
        self.change_stat(parent, |node| {
            note_child_created(&mut node.cversion, &mut node.pzxid, parent_cversion, zxid);
        });
    }
}

/// Splits the path in a transaction. Returns NoNode for an invalid path, which occurs only in a
/// corrupted log.
pub(super) fn split_applied(path: &str) -> Result<(&str, &str), ErrorCode> {
    match path::split(path) {
        Some(split) if !split.name.is_empty() && split.parent != path::ROOT => {
            Ok((split.parent, split.name))
        }
        _ => Err(ErrorCode::NoNode),
    }
}
