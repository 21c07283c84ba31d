//! Local sessions: known to the server they were made at, until they need an ephemeral znode.
//!
//! A local session costs no transaction. Its writes are ordered as everybody's are. Before the first
//! one that creates an ephemeral the session becomes global: a createSession with the same id goes
//! in front. It ends without a transaction, too, and with the role of its server at the latest.
//!
//! Source: QuorumZooKeeperServer, UpgradeableSessionTracker.

use proto::request::{WriteRequest, flags};
use proto::{ErrorCode, OpCode, SessionId};
use replica::Service;

use crate::client::clients::Clients;
use crate::client::connection::Connection;
use crate::clock;

/// What becomes of a client's write before anybody orders it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WriteStep {
    /// It is ordered.
    Order,
    /// It is ordered behind a createSession with this timeout in ms.
    UpgradeAndOrder(i32),
    /// It is ordered, and answered by this error whatever comes of it.
    OrderInVain(ErrorCode),
    /// It ends a local session here.
    CloseLocal,
    /// It gets this error at once.
    Refuse(ErrorCode),
}

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
        let is_close = matches!(request, WriteRequest::CloseSession);
        let session = connection.session();
        if connection.is_read_only() {
            return match is_close && self.is_local(session) {
                true => WriteStep::CloseLocal,
                false => WriteStep::Refuse(ErrorCode::NotReadOnly),
            };
        }
        if !self.settings.local_sessions {
            return WriteStep::Order;
        }
        if is_close && self.is_local(session) {
            return WriteStep::CloseLocal;
        }
        if !creates_ephemeral(request) {
            return WriteStep::Order;
        }
        let mut sessions = self.state.sessions.lock();
        if self.settings.upgrades_sessions {
            match sessions.upgrade(session) {
                Some(timeout_ms) => WriteStep::UpgradeAndOrder(timeout_ms),
                None => WriteStep::Order,
            }
        } else if sessions.is_local(session) && !matches!(request, WriteRequest::Multi(_)) {
            // A leader elsewhere finds another reason. What it says of a multi, counts.
            WriteStep::OrderInVain(ErrorCode::EphemeralOnLocalSession)
        } else {
            WriteStep::Order
        }
    }
}

/// Whether a request needs a global session. Those by createTTL and createContainer don't, whatever
/// their flags. Source: QuorumZooKeeperServer.checkUpgradeSession.
fn creates_ephemeral(request: &WriteRequest) -> bool {
    match request {
        WriteRequest::Create { op, request, .. } => {
            let is_plain = matches!(op, OpCode::Create | OpCode::Create2);
            let is_ephemeral = matches!(
                request.flags,
                flags::EPHEMERAL | flags::EPHEMERAL_SEQUENTIAL
            );
            is_plain && is_ephemeral
        }
        WriteRequest::Multi(Ok(writes)) => writes.iter().any(creates_ephemeral),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proto::request::CreateRequest;

    use super::*;

    fn create(op: OpCode, flags: i32) -> WriteRequest {
        let request = CreateRequest {
            path: Some("/a".into()),
            data: None,
            acl: None,
            flags,
        };
        WriteRequest::Create {
            op,
            request,
            ttl: -1,
        }
    }

    #[test]
    fn create_and_create2_with_an_ephemeral_flag_need_a_global_session() {
        for op in [OpCode::Create, OpCode::Create2] {
            let needing = (-1..10).filter(|flags| creates_ephemeral(&create(op, *flags)));
            assert_eq!(needing.collect::<Vec<_>>(), [1, 3]);
        }
        for op in [OpCode::CreateTtl, OpCode::CreateContainer] {
            assert!(!(0..10).any(|flags| creates_ephemeral(&create(op, flags))));
        }
    }

    #[test]
    fn a_multi_needs_what_one_of_its_operations_needs() {
        let plain = || create(OpCode::Create, flags::PERSISTENT);
        let ephemeral = create(OpCode::Create2, flags::EPHEMERAL);
        let close = WriteRequest::CloseSession;
        assert!(!creates_ephemeral(&WriteRequest::Multi(Ok(vec![
            plain(),
            close
        ]))));
        assert!(creates_ephemeral(&WriteRequest::Multi(Ok(vec![
            plain(),
            ephemeral
        ]))));
    }
}
