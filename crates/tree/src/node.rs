//! One znode.

use proto::{Stat, StatPersisted};

use crate::acl_table::AclSlot;
use crate::arena::NodeId;
use crate::name::Name;
use crate::owner::OwnerRules;

/// A znode: its own name component, data, stat and links; no full path, no child container.
///
/// Children are linked through `next` and `prev`, newest first: a snapshot that entered the list
/// never meets a child that was added after it.
///
/// What a lookup, a list of children and the digest touch stands first, in 64 bytes.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Node {
    /// Last component of the path, empty for the root.
    pub(crate) name: Name,
    /// The parent, nil for the root.
    pub(crate) parent: NodeId,
    /// The newest child.
    pub(crate) first_child: NodeId,
    /// The next older sibling.
    pub(crate) next: NodeId,
    /// The next newer sibling.
    pub(crate) prev: NodeId,
    /// Direct children.
    pub(crate) num_children: u32,
    /// The ACL list.
    pub(crate) acl: AclSlot,
    /// CRC-32 of the path.
    pub(crate) path_crc: u32,
    /// CRC-32 of path and data.
    pub(crate) content_crc: u32,
    /// What the tree's digest holds for this znode.
    pub(crate) digest: u32,
    /// Whether the tree's digest counts it.
    pub(crate) is_counted: bool,
    /// What is stored; `cversion` counts creations.
    pub(crate) stat: StatPersisted,
    /// The data; null and empty differ.
    pub(crate) data: Option<Box<[u8]>>,
}

impl Node {
    /// A znode without links or digest.
    pub(crate) fn new(name: &str, data: Option<&[u8]>, acl: AclSlot, stat: StatPersisted) -> Self {
        Self {
            stat,
            name: Name::new(name),
            data: data.map(Box::from),
            parent: NodeId::NIL,
            first_child: NodeId::NIL,
            next: NodeId::NIL,
            prev: NodeId::NIL,
            num_children: 0,
            acl,
            path_crc: 0,
            content_crc: 0,
            digest: 0,
            is_counted: false,
        }
    }

    /// Frees what it holds, and links the slot to the next free one.
    pub(crate) fn clear(&mut self, next_free: NodeId) {
        self.name = Name::EMPTY;
        self.data = None;
        self.next = next_free;
    }

    /// Bytes of data; 0 for null.
    pub(crate) fn data_len(&self) -> usize {
        self.data.as_ref().map_or(0, |data| data.len())
    }

    /// Replaces the data, in place where the length allows.
    pub(crate) fn set_data(&mut self, data: Option<&[u8]>) {
        match (&mut self.data, data) {
            (Some(old), Some(new)) if old.len() == new.len() => old.copy_from_slice(new),
            (slot, new) => *slot = new.map(Box::from),
        }
    }

    /// What clients see.
    pub(crate) fn stat(&self, rules: OwnerRules) -> Stat {
        let num_children = self.num_children.cast_signed();
        Stat {
            czxid: self.stat.czxid,
            mzxid: self.stat.mzxid,
            ctime: self.stat.ctime,
            mtime: self.stat.mtime,
            version: self.stat.version,
            cversion: self
                .stat
                .cversion
                .wrapping_mul(2)
                .wrapping_sub(num_children),
            aversion: self.stat.aversion,
            ephemeral_owner: rules.visible(self.stat.ephemeral_owner),
            // A frame bounds it far below 2^31.
            data_length: i32::try_from(self.data_len()).unwrap_or(i32::MAX),
            num_children,
            pzxid: self.stat.pzxid,
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

/// Notes a creation below a znode whose creation count becomes `cversion` (-1: one more).
///
/// Only upwards: a fuzzy snapshot may hold a parent newer than the record that is replayed.
/// Source: DataTree.createNode, ZOOKEEPER-3249.
pub(crate) fn note_child_created(stat: &mut StatPersisted, cversion: i32, zxid: i64) {
    let cversion = match cversion {
        -1 => stat.cversion.wrapping_add(1),
        known => known,
    };
    if cversion > stat.cversion {
        stat.cversion = cversion;
        stat.pzxid = zxid;
    }
}

/// Notes a deletion below a znode, only upwards.
pub(crate) fn note_child_deleted(stat: &mut StatPersisted, zxid: i64) {
    stat.pzxid = stat.pzxid.max(zxid);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_znode_is_small() {
        assert_eq!(size_of::<Node>(), 144);
        assert_eq!(std::mem::offset_of!(Node, stat), 64);
    }
}
