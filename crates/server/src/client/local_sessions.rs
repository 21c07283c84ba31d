//! Local sessions: known to the server they were made at, until they need an ephemeral znode.
//!
//! `replica::write_step` says what a write means to its session. A local session ends without a
//! transaction, with the role of its server at the latest.
//!
//! Source: QuorumZooKeeperServer, UpgradeableSessionTracker.

use proto::SessionId;
use proto::request::WriteRequest;
use replica::{Service, SessionRules, WriteStep};

use crate::client::clients::Clients;
use crate::client::connection::Connection;
use crate::clock;

impl Clients {
    /// Whether a new session is local. Without a leader every one is: Apache ZooKeeper answers a
    /// read-only client's handshake by an error reply, unless `localSessionsEnabled`.
    pub(crate) fn makes_local_sessions(&self, service: Service) -> bool {
        match service {
            Service::ReadOnly => true,
            Service::None | Service::Deciding | Service::Forwarding => self.settings.local_sessions,
        }
    }

    /// Makes an id for a new local session and starts its clock.
    pub(crate) fn new_local_session(&self, timeout_ms: i32) -> SessionId {
        let id = self.new_session_id();
        let mut sessions = self.state.sessions.lock();
        sessions.add_local(id, timeout_ms, clock::session_ms());
        id
    }

    /// Touches a session that comes back while there is no leader. False if it is known to be over.
    ///
    /// One that is not known at all may live with a majority elsewhere: as in Apache ZooKeeper it
    /// is taken on trust unless `localSessionsEnabled`.
    pub(crate) fn renew_read_only(&self, session: SessionId, timeout_ms: i32) -> bool {
        let mut sessions = self.state.sessions.lock();
        let is_taken = sessions.is_local(session) || !self.settings.local_sessions;
        is_taken && sessions.touch(session, timeout_ms, clock::session_ms())
    }

    /// A local session is over because its client says so.
    pub(crate) fn end_local_session(&self, session: SessionId) {
        self.state.sessions.lock().remove(session);
    }

    /// Whether the session is local to this server.
    pub(crate) fn is_local(&self, session: SessionId) -> bool {
        self.state.sessions.lock().is_local(session)
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
