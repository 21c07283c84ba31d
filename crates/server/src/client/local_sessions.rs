//! Local sessions: known to the server they were made at, until they need an ephemeral znode.
//!
//! `replica::write_step` says what a write means to its session. A local session ends without a
//! transaction, with the role of its server at the latest.
//!
//! Source: QuorumZooKeeperServer, UpgradeableSessionTracker.

use proto::SessionId;
use proto::request::WriteRequest;
use replica::{SessionRules, WriteStep};

use crate::client::clients::Clients;
use crate::client::connection::Connection;

impl Clients {
    /// A local session is over because its client says so.
    pub(crate) fn end_local_session(&self, session: SessionId) {
        self.state.sessions.lock().remove(session);
    }

    /// What becomes of a write; begins the upgrade of its session if it needs one.
    pub(crate) fn write_step(&self, connection: &Connection, request: &WriteRequest) -> WriteStep {
        let rules = SessionRules {
            local: self.settings.local_sessions,
            upgrades: self.settings.upgrades_sessions,
            is_read_only: connection.is_read_only(),
        };
        let lock = || self.state.sessions.lock();
        replica::write_step(rules, connection.session(), request, lock)
    }
}
