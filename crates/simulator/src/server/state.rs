//! The tree and what belongs to it, lent to the replica and read by clients' connections.

use std::cell::{Cell, RefCell};
use std::ops::{Deref, DerefMut};

use parking_lot::Mutex;
use proto::Zxid;
use replica::sessions::Sessions;
use tree::{Tree, Watches};

/// What a server holds behind locks.
#[derive(Debug)]
pub(crate) struct SimState {
    tree: RefCell<Tree>,
    pub(super) watches: Mutex<Watches>,
    sessions: RefCell<Sessions>,
    /// Counts the trees, and the times when one was about to hold what may be cut off again.
    generation: Cell<u64>,
    /// Where the tree ended before the change under way.
    pub(super) before: Cell<Zxid>,
}

impl SimState {
    pub(super) fn new(tree: Tree, tick_ms: i64) -> Self {
        Self {
            before: Cell::new(tree.last_zxid()),
            tree: RefCell::new(tree),
            watches: Mutex::new(Watches::new()),
            sessions: RefCell::new(Sessions::reporting(tick_ms)),
            generation: Cell::new(0),
        }
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.get()
    }

    /// Snapshots that were begun must not be finished.
    pub(super) fn give_up_snapshots(&self) {
        self.generation.set(self.generation.get() + 1);
    }
}

impl replica::State for SimState {
    fn tree(&self) -> impl Deref<Target = Tree> {
        self.tree.borrow()
    }

    fn tree_mut(&self) -> impl DerefMut<Target = Tree> {
        let tree = self.tree.borrow_mut();
        // A tree at the beginning of an epoch ends where the history before it does.
        if tree.last_zxid().counter() != 0 {
            self.before.set(tree.last_zxid());
        }
        tree
    }

    fn replace_tree(&self, tree: Tree) {
        self.give_up_snapshots();
        self.before.set(tree.last_zxid());
        self.tree.replace(tree);
    }

    fn watches(&self) -> impl DerefMut<Target = Watches> {
        self.watches.lock()
    }

    fn sessions(&self) -> impl DerefMut<Target = Sessions> {
        self.sessions.borrow_mut()
    }
}
