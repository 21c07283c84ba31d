//! Znodes of the tree and their fields.

use proto::{Stat, StatPersisted};

use super::acl_table::AclSlot;
use super::arena::NodeId;
use super::body::Body;
use super::owner::OwnerRules;

/// A znode: its own name component, data, stat and links, but neither its full path nor a container
/// of children.
///
/// Children are linked through `next` and `prev`, newest first, so a snapshot that has entered the
/// list never reaches a child that was added later.
///
/// Fields that are read by a lookup and by getChildren are adjacent: parent, next sibling, name.
/// The stat is not a separate struct, because its padding would take four more bytes.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Node {
    /// Number of direct children.
    pub(crate) num_children: u32,
    /// Slot of the ACL list.
    pub(crate) acl: AclSlot,
    /// Newest child.
    pub(crate) first_child: NodeId,
    /// Next newer sibling.
    pub(crate) prev: NodeId,
    /// Next older sibling.
    pub(crate) next: NodeId,
    /// Parent; nil for the root.
    pub(crate) parent: NodeId,
    /// Last component of the path (empty for the root), data and owner.
    pub(crate) body: Body,
    /// The znode's part in the tree's digest. See [`Body::is_counted`].
    pub(crate) digest: u32,
    /// Number of data changes.
    pub(crate) version: i32,
    /// Number of children ever created.
    pub(crate) cversion: i32,
    /// Number of ACL changes.
    pub(crate) aversion: i32,
    /// Zxid of the creation.
    czxid: i64,
    /// Time of the creation, ms since 1970.
    ctime: i64,
    /// Zxid of the last data change.
    pub(crate) mzxid: i64,
    /// Time of the last data change, ms since 1970.
    pub(crate) mtime: i64,
    /// Zxid of the last creation or deletion of a child.
    pub(crate) pzxid: i64,
}

impl Node {
    /// Creates a znode without links and digest.
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

    /// Frees the memory of the body and links the slot to the next free slot.
    pub(crate) fn clear(&mut self, next_free: NodeId) {
        self.body = Body::empty();
        self.next = next_free;
    }

    /// Returns the stored stat, in which `cversion` counts creations.
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

    /// Returns the stat that clients see.
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
            // The frame length limits the data to far less than 2^31 bytes.
            data_length: i32::try_from(self.body.data_len()).unwrap_or(i32::MAX),
            num_children,
            pzxid: self.pzxid,
        }
    }
}

/// Returns the stat of a new znode.
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

/// Records a creation below a znode in the two fields of its stat that change with its children.
/// The creation count becomes `parent_cversion`, or increases by one if `parent_cversion` is -1.
///
/// Values only increase, because a fuzzy snapshot may contain a parent that is newer than the
/// replayed record. Source: DataTree.createNode, ZOOKEEPER-3249.
pub(crate) fn note_child_created(
    cversion: &mut i32,
    pzxid: &mut i64,
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

/// Records a deletion below a znode. The pzxid only increases.
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
