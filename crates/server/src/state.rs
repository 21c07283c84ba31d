//! The state of the replica, as its host holds it: behind locks, since connections, learners that get
//! a snapshot, and the thread that writes one read it too.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock, RwLockWriteGuard};
use replica::State;
use replica::sessions::Sessions;
use tree::{Tree, Watches};

/// The tree, and what belongs to it.
///
/// Locks are taken in this order: `tree`, a connection's state, then `watches` or `sessions`.
pub(crate) struct ServerState {
    pub(crate) tree: RwLock<Tree>,
    pub(crate) watches: Mutex<Watches>,
    pub(crate) sessions: Mutex<Sessions>,
    /// How often the tree was replaced by another one, or was about to hold what may be cut off
    /// again: a snapshot that was begun before is worthless then.
    tree_generation: AtomicU64,
}

impl ServerState {
    /// Of a server that serves nobody yet.
    pub(crate) fn new(tree: Tree, tick_ms: i64) -> Self {
        Self {
            tree: RwLock::new(tree),
            watches: Mutex::default(),
            sessions: Mutex::new(Sessions::reporting(tick_ms)),
            tree_generation: AtomicU64::new(0),
        }
    }

    /// The tree is about to hold what may be cut off again, or to be replaced: a snapshot that began
    /// before must not be finished.
    pub(crate) fn give_up_snapshots(&self) {
        self.tree_generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Which tree it is that there is now.
    pub(crate) fn tree_generation(&self) -> u64 {
        self.tree_generation.load(Ordering::Acquire)
    }
}

impl State for ServerState {
    fn tree(&self) -> impl Deref<Target = Tree> {
        self.tree.read()
    }

    fn tree_mut(&self) -> impl DerefMut<Target = Tree> {
        FairGuard(Some(self.tree.write()))
    }

    fn replace_tree(&self, tree: Tree) {
        let mut place = self.tree.write();
        self.give_up_snapshots();
        let replaced = std::mem::replace(&mut *place, tree);
        drop(place);
        // Millions of znodes take a while.
        drop(replaced);
    }

    fn watches(&self) -> impl DerefMut<Target = Watches> {
        self.watches.lock()
    }

    fn sessions(&self) -> impl DerefMut<Target = Sessions> {
        self.sessions.lock()
    }
}

/// An exclusive hold of the tree that lets readers who wait go first when it ends.
struct FairGuard<'a>(Option<RwLockWriteGuard<'a, Tree>>);

impl Deref for FairGuard<'_> {
    type Target = Tree;

    fn deref(&self) -> &Tree {
        self.0.as_ref().expect("it is held until it is dropped")
    }
}

impl DerefMut for FairGuard<'_> {
    fn deref_mut(&mut self) -> &mut Tree {
        self.0.as_mut().expect("it is held until it is dropped")
    }
}

impl Drop for FairGuard<'_> {
    fn drop(&mut self) {
        if let Some(guard) = self.0.take() {
            RwLockWriteGuard::unlock_fair(guard);
        }
    }
}
