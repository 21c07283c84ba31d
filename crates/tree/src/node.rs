//! One znode.

use proto::{Stat, StatPersisted};

use crate::acl_table::AclSlot;
use crate::arena::NodeId;
use crate::body::Body;
use crate::owner::OwnerRules;

/// A znode: its own name component, data, stat and links; no full path, no child container.
///
/// Children are linked through `next` and `prev`, newest first: a snapshot that entered the list
/// never meets a child that was added after it.
///
/// What a lookup and a list of children touch stands side by side: parent, next sibling, name. The
/// stat is not a record of its own, since that would take four bytes more to fill up.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Node {
    /// Direct children.
    pub(crate) num_children: u32,
    /// The ACL list.
    pub(crate) acl: AclSlot,
    /// The newest child.
    pub(crate) first_child: NodeId,
    /// The next newer sibling.
    pub(crate) prev: NodeId,
    /// The next older sibling.
    pub(crate) next: NodeId,
    /// The parent, nil for the root.
    pub(crate) parent: NodeId,
    /// Last component of the path, empty for the root; data; owner.
    pub(crate) body: Body,
    /// What the tree's digest holds for this znode, see [`Body::is_counted`].
    pub(crate) digest: u32,
    /// Changes of data.
    pub(crate) version: i32,
    /// Children ever created.
    pub(crate) cversion: i32,
    /// Changes of the ACL.
    pub(crate) aversion: i32,
    /// Zxid that created it.
    czxid: i64,
    /// Creation, ms since 1970.
    ctime: i64,
    /// Zxid that last set its data.
    pub(crate) mzxid: i64,
    /// Last change of data, ms since 1970.
    pub(crate) mtime: i64,
    /// Zxid that last created or deleted a child.
    pub(crate) pzxid: i64,
}

impl Node {
    /// A znode without links or digest.
    pub(crate) fn new(name: &str, data: Option<&[u8]>, acl: AclSlot, stat: StatPersisted) -> Self {
        Self {
            body: Body::new(name, data, stat.ephemeral_owner),
            parent: NodeId::NIL,
            first_child: NodeId::NIL,
            next: NodeId::NIL,
            prev: NodeId::NIL,
            num_children: 0,
            acl,
            digest: 0,
            version: stat.version,
            cversion: stat.cversion,
            aversion: stat.aversion,
            czxid: stat.czxid,
            ctime: stat.ctime,
            mzxid: stat.mzxid,
            mtime: stat.mtime,
            pzxid: stat.pzxid,
        }
    }

    /// Frees what it holds, and links the slot to the next free one.
    pub(crate) fn clear(&mut self, next_free: NodeId) {
        self.body = Body::empty();
        self.next = next_free;
    }

    /// What is stored; `cversion` counts creations.
    pub(crate) fn stored_stat(&self) -> StatPersisted {
        StatPersisted {
            czxid: self.czxid,
            mzxid: self.mzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            cversion: self.cversion,
            aversion: self.aversion,
            ephemeral_owner: self.body.owner(),
            pzxid: self.pzxid,
        }
    }

    /// What clients see.
    pub(crate) fn stat(&self, rules: OwnerRules) -> Stat {
        let num_children = self.num_children.cast_signed();
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            cversion: self.cversion.wrapping_mul(2).wrapping_sub(num_children),
            aversion: self.aversion,
            ephemeral_owner: rules.visible(self.body.owner()),
            // A frame bounds it far below 2^31.
            data_length: i32::try_from(self.body.data_len()).unwrap_or(i32::MAX),
            num_children,
            pzxid: self.pzxid,
        }
    }
}

/// A znode's stat when it is created.
pub(crate) fn stat_at_creation(zxid: i64, time_ms: i64, owner: i64) -> StatPersisted {
    StatPersisted {
        czxid: zxid,
        mzxid: zxid,
        ctime: time_ms,
        mtime: time_ms,
        version: 0,
        cversion: 0,
        aversion: 0,
        ephemeral_owner: owner,
        pzxid: zxid,
    }
}

/// The part of a stat that changes with a znode's children: `cversion` and `pzxid`.
pub(crate) type ChildrenStat<'a> = (&'a mut i32, &'a mut i64);

/// Notes a creation below a znode whose creation count becomes `parent_cversion` (-1: one more).
///
/// Only upwards: a fuzzy snapshot may hold a parent newer than the record that is replayed.
/// Source: DataTree.createNode, ZOOKEEPER-3249.
pub(crate) fn note_child_created(
    (cversion, pzxid): ChildrenStat<'_>,
    parent_cversion: i32,
    zxid: i64,
) {
    let parent_cversion = match parent_cversion {
        -1 => cversion.wrapping_add(1),
        known => known,
    };
    if parent_cversion > *cversion {
        *cversion = parent_cversion;
        *pzxid = zxid;
    }
}

/// Notes a deletion below a znode, only upwards.
pub(crate) fn note_child_deleted(pzxid: &mut i64, zxid: i64) {
    *pzxid = zxid.max(*pzxid);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_znode_is_small() {
        assert_eq!(size_of::<Node>(), 120);
        let hot = std::mem::offset_of!(Node, next)..std::mem::offset_of!(Node, digest);
        assert_eq!(hot, 16..64);
    }
}
