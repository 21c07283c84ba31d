//! Tree writer for snapshot files and SNAP transfers. It writes sessions, ACL map, znodes and end
//! marker.
//!
//! The writer holds the tree's lock for one chunk at a time, so the result is *fuzzy*: it contains
//! all transactions up to the zxid in its name and parts of later ones. Replaying the log over it
//! makes it exact. Three rules make the replay converge:
//!
//! * the ACL map precedes the znodes that use it;
//! * a znode is written in one step with its stat, and only the children that it has at that moment
//!   are visited: lists grow at the front, and the walk records the front when it writes the
//!   parent;
//! * deleting the next znode of a walk moves the walk to the following znode, so the walk keeps its
//!   position and deleted znodes need not be kept for it.
//!
//! Source: DataTree.serialize.

use std::sync::{Arc, Weak};

use jute::{Encode, put_buffer, put_len, put_str};
use parking_lot::Mutex;
use proto::Zxid;

use crate::Tree;
use crate::nodes::arena::{Arena, NodeId};

/// Progress of writing a snapshot.
#[derive(Debug)]
pub struct SnapshotCursor {
    zxid: Zxid,
    stage: Stage,
    walk: Arc<Mutex<Walk>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Start,
    Nodes,
    End,
}

/// Position of the walk over the znodes.
#[derive(Debug)]
struct Walk {
    /// Next znode to write; nil after the last child of the last of `parents`.
    next: NodeId,
    /// Ancestors of the next znode, from the root.
    parents: Vec<NodeId>,
    /// Path of the last znode in `parents`.
    parent_path: String,
}

/// Active walks, which deletions must update.
///
/// A walk is locked only while the tree's lock is held: by its snapshot with the shared lock, by a
/// deletion with the exclusive lock. Therefore no thread ever waits for the lock of a walk.
#[derive(Debug, Default)]
pub(crate) struct Walks(Mutex<Vec<Weak<Mutex<Walk>>>>);

impl Walks {
    /// Advances walks that are at `id`, which has no children and is about to be unlinked.
    pub(crate) fn leave(&mut self, arena: &Arena, id: NodeId) {
        let walks = self.0.get_mut();
        if !walks.is_empty() {
            walks.retain(|walk| match walk.upgrade() {
                Some(walk) => {
                    walk.lock().leave(arena, id);
                    true
                }
                None => false,
            });
        }
    }
}

impl Walk {
    fn leave(&mut self, arena: &Arena, id: NodeId) {
        if self.next == id {
            self.next = arena[id].next;
        } else if self.next == NodeId::NIL && self.parents.last() == Some(&id) {
            self.go_up(arena);
        }
    }

    /// Moves to the znode after the last one in `parents`.
    fn go_up(&mut self, arena: &Arena) {
        if let Some(parent) = self.parents.pop() {
            let above = self.parent_path.rfind('/').unwrap_or(0);
            self.parent_path.truncate(above);
            self.next = arena[parent].next;
        }
    }
}

impl SnapshotCursor {
    /// Returns the zxid for the snapshot's name. All transactions up to it are included.
    pub fn zxid(&self) -> Zxid {
        self.zxid
    }
}

impl Tree {
    /// Begins a snapshot. A paused snapshot does not use additional memory, even if the tree
    /// changes.
    pub fn start_snapshot(&self) -> SnapshotCursor {
        let walk = Arc::new(Mutex::new(Walk {
            next: Self::ROOT,
            parents: Vec::new(),
            parent_path: String::new(),
        }));
        let mut walks = self.walks.0.lock();
        walks.retain(|walk| walk.strong_count() > 0);
        walks.push(Arc::downgrade(&walk));
        SnapshotCursor {
            zxid: self.last_zxid,
            stage: Stage::Start,
            walk,
        }
    }

    /// Appends the next part of the snapshot, which contains only whole znodes. Each part except
    /// the last has at least `bytes_wanted` bytes.
    ///
    /// Returns `false` when the end has been written. The first chunk contains all sessions and ACL
    /// lists.
    pub fn snapshot_chunk(
        &self,
        cursor: &mut SnapshotCursor,
        bytes_wanted: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let enough = out.len().saturating_add(bytes_wanted);
        if cursor.stage == Stage::Start {
            self.put_sessions(out);
            self.put_acl_map(out);
            cursor.stage = Stage::Nodes;
        }
        let walk = &mut *cursor.walk.lock();
        while cursor.stage == Stage::Nodes && out.len() < enough {
            if walk.next != NodeId::NIL {
                self.put_next(walk, out);
            } else if walk.parents.is_empty() {
                put_str(Some(crate::path::ROOT), out);
                cursor.stage = Stage::End;
            } else {
                walk.go_up(&self.arena);
            }
        }
        cursor.stage != Stage::End
    }

    fn put_sessions(&self, out: &mut Vec<u8>) {
        put_len(self.sessions.len(), out);
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

    /// Writes a znode and moves to its first child, or to the following znode.
    fn put_next(&self, walk: &mut Walk, out: &mut Vec<u8>) {
        let node = &self.arena[walk.next];
        let parent_len = walk.parent_path.len();
        if walk.next != Self::ROOT {
            walk.parent_path.push('/');
            walk.parent_path.push_str(node.body.name());
        }
        put_str(Some(&walk.parent_path), out);
        put_buffer(node.body.data(), out);
        self.acls.id(node.acl).encode(out);
        node.stored_stat().encode(out);
        if node.first_child == NodeId::NIL {
            walk.parent_path.truncate(parent_len);
            walk.next = node.next;
        } else {
            walk.parents.push(walk.next);
            walk.next = node.first_child;
        }
    }
}
