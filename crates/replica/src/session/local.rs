//! Effect of a client's write on its session, before the write is ordered.
//!
//! A local session begins and ends without a transaction. Its writes are ordered like all others.
//! Before the first write that creates an ephemeral, the session becomes global: a createSession
//! with its id is ordered first. A local session never outlives its server's role.
//!
//! Source: QuorumZooKeeperServer, UpgradeableSessionTracker.

use std::ops::DerefMut;

use proto::op::ZnodeChange;
use proto::request::{WriteRequest, flags};
use proto::{ErrorCode, SessionId};

use super::Sessions;

/// Treatment of a client's write before it is ordered.
#[derive(Debug, PartialEq, Eq)]
pub enum WriteStep {
    /// The write can be ordered.
    Order,
    /// The write is ordered after a createSession with this timeout in ms.
    UpgradeAndOrder(i32),
    /// The write is ordered, and answered with this error whatever its outcome.
    OrderInVain(ErrorCode),
    /// The write ends a local session without a transaction.
    CloseLocal,
    /// The write is answered with this error and not ordered.
    Refuse(ErrorCode),
}

/// Rules of a server for sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionRules {
    /// Whether new sessions are local (`localSessionsEnabled`).
    pub local: bool,
    /// Whether sessions become global when necessary (`localSessionsUpgradingEnabled`).
    pub upgrades: bool,
    /// Whether the connection is read-only.
    pub is_read_only: bool,
}

/// Returns the treatment of a write of this session, and begins the session's upgrade if necessary.
/// `lock` locks the session table and is called only if the treatment depends on the table.
pub fn write_step<S: DerefMut<Target = Sessions>>(
    rules: SessionRules,
    session: SessionId,
    request: &WriteRequest,
    lock: impl FnOnce() -> S,
) -> WriteStep {
    let is_close = matches!(request, WriteRequest::CloseSession);
    if rules.is_read_only {
        return if is_close && lock().is_local(session) {
            WriteStep::CloseLocal
        } else {
            WriteStep::Refuse(ErrorCode::NotReadOnly)
        };
    }
    if !rules.local {
        return WriteStep::Order;
    }
    if is_close {
        return if lock().is_local(session) {
            WriteStep::CloseLocal
        } else {
            WriteStep::Order
        };
    }
    if !creates_ephemeral(request) {
        return WriteStep::Order;
    }
    let mut sessions = lock();
    if rules.upgrades {
        match sessions.upgrade(session) {
            Some(timeout_ms) => WriteStep::UpgradeAndOrder(timeout_ms),
            None => WriteStep::Order,
        }
    } else if sessions.is_local(session) && !matches!(request, WriteRequest::Multi(_)) {
        // A remote leader would return a different error. For a multi, the leader's answer is used.
        WriteStep::OrderInVain(ErrorCode::EphemeralOnLocalSession)
    } else {
        WriteStep::Order
    }
}

/// Returns whether a request needs a global session. createTTL and createContainer do not, whatever
/// their flags are. Source: QuorumZooKeeperServer.checkUpgradeSession.
fn creates_ephemeral(request: &WriteRequest) -> bool {
    match request {
        WriteRequest::Create { op, request, .. } => {
            let is_plain = op.change() == ZnodeChange::Create;
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
    use proto::OpCode;
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
    fn a_multi_needs_a_global_session_if_one_operation_does() {
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
