//! `sync` of a leader's own clients: they want to see what anybody has been told.
//!
//! A commit goes to the learners before this server's own tree has it, so that a client of theirs may
//! have its answer first. Between two turns of the core the tree has what was sent, and a client's own
//! writes come before its `sync`.
//!
//! Source: client-protocol.md 3.7, Leader.processSync.

use std::sync::Arc;

use super::core::Core;
use super::role::Role;
use crate::net::connection::Connection;

impl Core {
    /// Answers a client's `sync` once everything proposed before is applied.
    pub(super) fn sync_own(&mut self, connection: Arc<Connection>) {
        let Role::Leading(leading) = &mut self.role else {
            return connection.close();
        };
        let last_proposed = leading.leader.last_proposed();
        leading.own_syncs.push_back((last_proposed, connection));
        self.apply_committed();
    }

    /// How many committed transactions come before the oldest `sync`; `None` if there is no `sync`,
    /// or something before it is not committed yet.
    pub(super) fn committed_before_own_sync(&self) -> Option<usize> {
        let Role::Leading(leading) = &self.role else {
            return None;
        };
        let (zxid, _) = leading.own_syncs.front()?;
        let before = self
            .in_flight
            .partition_point(|in_flight| in_flight.record.header.zxid <= *zxid);
        (before <= self.committed).then_some(before)
    }

    /// Answers the oldest, before which everything is applied.
    pub(super) fn answer_own_sync(&mut self) {
        let Role::Leading(leading) = &mut self.role else {
            return;
        };
        if let Some((_, connection)) = leading.own_syncs.pop_front() {
            let shared = self.shared.clone();
            let tree = shared.tree.read();
            self.delivery.answer_sync(&shared, &tree, &connection);
            drop(tree);
            self.delivery.wake();
        }
    }
}
