//! Replacement of a standalone server's tree by an operator.
//!
//! ```text
//!   serving --Restore--> clients are not served, proposals are applied
//!           --> the tree is replaced --TakeOver--> its snapshot is on disk --> serving
//! ```
//!
//! After a crash before the snapshot has its final name, the old state is loaded; after a later
//! crash, the new tree. Clients must not see an older zxid, and the log must continue after its
//! end. The last zxid of the new tree is therefore raised to this server's last zxid if that is
//! higher. Source: ZooKeeperServer.restoreFromSnapshot, which does not change the files.

use proto::Zxid;
use tree::{Overlay, Tree};

use crate::interface::host::{Host, State, Turn};
use crate::replica::Replica;
use crate::roles::Role;

/// Progress of a restore.
#[derive(Debug)]
pub(crate) enum Restoring {
    /// Earlier proposals are not all applied and synced yet.
    Waiting(Box<Tree>),
    /// The tree is replaced, and its snapshot is being written.
    Writing {
        /// Number that `SnapshotWritten` repeats.
        attempt: u64,
    },
}

impl<H: Host> Replica<H> {
    /// Begins to restore this tree. A member of an ensemble ignores the call, because its state is
    /// determined by the leader's log. The call is also ignored during another restore and while
    /// the server stops.
    pub(crate) fn handle_restore(&mut self, tree: Box<Tree>, turn: &mut Turn<'_, H>) {
        if !self.is_alone() || self.is_ending || self.restoring.is_some() {
            tracing::error!(
                "cannot restore a tree: the server is stopping, is already restoring a tree, or is a member of an ensemble"
            );
            return;
        }
        tracing::warn!(zxid = %tree.last_zxid(), znodes = tree.node_count(), "restoring another tree, disconnecting all clients");
        self.stop_serving(turn);
        self.restoring = Some(Restoring::Waiting(tree));
    }

    /// Replaces the tree if a restore is waiting and all proposals are applied and synced.
    pub(crate) fn restore_if_idle(&mut self, turn: &mut Turn<'_, H>) {
        let is_idle = self.in_flight.is_empty() && self.synced >= self.appended;
        if !is_idle || !matches!(self.restoring, Some(Restoring::Waiting(_))) {
            return;
        }
        let Some(Restoring::Waiting(mut tree)) = self.restoring.take() else {
            return;
        };
        let last: Zxid = tree.last_zxid().max(self.last_zxid);
        tree.raise_last_zxid(last);
        self.role = Role::Looking;
        self.replace_tree(*tree, turn);
        self.overlay = Overlay::new(&turn.state.tree());
        self.restorations += 1;
        let attempt = self.restorations;
        self.restoring = Some(Restoring::Writing { attempt });
        turn.take_over(attempt, last);
    }

    /// Handles the completed write of the restored tree's snapshot.
    pub(crate) fn handle_restored(&mut self, attempt: u64, turn: &mut Turn<'_, H>) {
        let is_it =
            matches!(self.restoring, Some(Restoring::Writing { attempt: own }) if own == attempt);
        if is_it && !self.is_ending {
            self.restoring = None;
            tracing::info!(zxid = %self.last_zxid, "restored the tree, serving clients again");
            self.begin_standalone(turn);
        }
    }
}
