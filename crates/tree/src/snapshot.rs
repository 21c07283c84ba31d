//! Writing the tree: sessions, ACL map, znodes and end marker, as snapshot files and SNAP
//! transfers hold them.
//!
//! The writer takes the tree's lock for a chunk at a time, so the result is *fuzzy*: it holds all
//! up to the zxid it is named after and parts of what came later, and becomes exact when the log
//! is replayed over it. Three things make that converge:
//!
//! * the ACL map comes before the znodes that use it;
//! * a znode is written at once with its stat, and only children that it had at that moment are
//!   visited: lists grow at the front, and the walk notes the front when it writes the parent;
//! * a znode that dies under the walk keeps its link to the next one, see [`crate::arena`].
//!
//! Source: storage-formats.md 6.1, 6.2, 8; DataTree.serialize.

use jute::{Encode, put_buffer, put_str};
use proto::Zxid;

use crate::Tree;
use crate::arena::{NodeId, Pin};

/// How far a snapshot has come.
#[derive(Debug)]
pub struct SnapshotCursor {
    zxid: Zxid,
    place: Place,
    /// The znode to write next, which may be dead by then.
    next: NodeId,
    /// Path of the parent of `next`.
    parent_path: String,
    /// The znodes above `next`, from the root.
    parents: Vec<NodeId>,
    _pin: Pin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Start,
    Nodes,
    End,
}

impl SnapshotCursor {
    /// The zxid to name the snapshot after: everything up to it is in.
    pub fn zxid(&self) -> Zxid {
        self.zxid
    }
}

impl Tree {
    /// Begins a snapshot. Until the cursor is dropped, slots of znodes that are deleted (144
    /// bytes each) are not used again.
    pub fn start_snapshot(&self) -> SnapshotCursor {
        SnapshotCursor {
            zxid: self.last_zxid,
            place: Place::Start,
            next: Self::ROOT,
            parent_path: String::new(),
            parents: Vec::new(),
            _pin: self.arena.pin(),
        }
    }

    /// Appends some more of the snapshot: at least `bytes_wanted`, the last znode whole.
    ///
    /// False when the end has been written. The first chunk holds all sessions and ACL lists.
    pub fn snapshot_chunk(
        &self,
        cursor: &mut SnapshotCursor,
        bytes_wanted: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let enough = out.len().saturating_add(bytes_wanted);
        if cursor.place == Place::Start {
            self.put_sessions(out);
            self.put_acl_map(out);
            cursor.place = Place::Nodes;
        }
        while cursor.place == Place::Nodes && out.len() < enough {
            self.put_next(cursor, out);
        }
        cursor.place != Place::End
    }

    fn put_sessions(&self, out: &mut Vec<u8>) {
        (self.sessions.len() as i32).encode(out);
        for (session, timeout_ms) in &self.sessions {
            session.encode(out);
            timeout_ms.encode(out);
        }
    }

    fn put_acl_map(&self, out: &mut Vec<u8>) {
        let count_at = out.len();
        0i32.encode(out);
        let mut count = 0i32;
        for (id, list) in self.acls.iter() {
            id.encode(out);
            list[..].encode(out);
            count += 1;
        }
        out[count_at..count_at + 4].copy_from_slice(&count.to_be_bytes());
    }

    /// Writes the next znode if it is alive, and finds the one after it.
    fn put_next(&self, cursor: &mut SnapshotCursor, out: &mut Vec<u8>) {
        let node = &self.arena[cursor.next];
        if node.is_alive() {
            let parent_len = cursor.parent_path.len();
            if cursor.next != Self::ROOT {
                cursor.parent_path.push('/');
                cursor.parent_path.push_str(node.name.as_str());
            }
            put_str(Some(&cursor.parent_path), out);
            put_buffer(node.data.as_deref(), out);
            self.acls.id(node.acl).encode(out);
            node.stat.encode(out);
            if let Some(child) = node.first_child.get() {
                cursor.parents.push(cursor.next);
                cursor.next = child;
                return;
            }
            cursor.parent_path.truncate(parent_len);
        }
        self.step_on(cursor, out);
    }

    /// To the next sibling, or that of the closest znode above with one; a dead znode's link
    /// leads to what followed it.
    fn step_on(&self, cursor: &mut SnapshotCursor, out: &mut Vec<u8>) {
        loop {
            if let Some(sibling) = self.arena[cursor.next].next.get() {
                cursor.next = sibling;
                return;
            }
            let Some(parent) = cursor.parents.pop() else {
                put_str(Some(crate::path::ROOT), out);
                cursor.place = Place::End;
                return;
            };
            let above = cursor.parent_path.rfind('/').unwrap_or(0);
            cursor.parent_path.truncate(above);
            cursor.next = parent;
        }
    }
}
