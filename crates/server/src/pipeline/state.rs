//! The state of the replica, as its host holds it: behind locks, since connections read it too.

use std::ops::{Deref, DerefMut};

use parking_lot::RwLockWriteGuard;
use replica::State;
use replica::sessions::Sessions;
use tree::{Tree, Watches};

use crate::shared::Shared;

impl State for Shared {
    fn tree(&self) -> impl Deref<Target = Tree> {
        self.tree.read()
    }

    fn tree_mut(&self) -> impl DerefMut<Target = Tree> {
        FairGuard(Some(self.tree.write()))
    }

    fn replace_tree(&self, tree: Tree) {
        Self::replace_tree(self, tree);
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
