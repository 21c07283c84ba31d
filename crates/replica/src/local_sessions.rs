//! What a client's write means to its session, before anybody orders it.
//!
//! A local session costs no transaction. Its writes are ordered as everybody's are. Before the first
//! one that creates an ephemeral the session becomes global: a createSession with the same id goes
//! in front. It ends without a transaction, too, and with the role of its server at the latest.
//!
//! Source: QuorumZooKeeperServer, UpgradeableSessionTracker.

use std::ops::DerefMut;

use proto::request::{WriteRequest, flags};
use proto::{ErrorCode, OpCode, SessionId};

use crate::sessions::Sessions;

/// What becomes of a client's write before anybody orders it.
#[derive(Debug, PartialEq, Eq)]
pub enum WriteStep {
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

/// What a server lets sessions do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionRules {
    /// Whether new sessions are local (`localSessionsEnabled`).
    pub local: bool,
    /// Whether they become global when they need to (`localSessionsUpgradingEnabled`).
    pub upgrades: bool,
    /// Whether the connection is one of reads only.
    pub is_read_only: bool,
}

/// What becomes of a write of this session; begins the upgrade of the session if it needs one.
/// `lock` gives the sessions, and is called only where they matter.
pub fn write_step<S: DerefMut<Target = Sessions>>(
    rules: SessionRules,
    session: SessionId,
    request: &WriteRequest,
    lock: impl FnOnce() -> S,
) -> WriteStep {
    let is_close = matches!(request, WriteRequest::CloseSession);
    if rules.is_read_only {
        return match is_close && lock().is_local(session) {
            true => WriteStep::CloseLocal,
            false => WriteStep::Refuse(ErrorCode::NotReadOnly),
        };
    }
    if !rules.local {
        return WriteStep::Order;
    }
    if is_close {
        return match lock().is_local(session) {
            true => WriteStep::CloseLocal,
            false => WriteStep::Order,
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
        // A leader elsewhere finds another reason. What it says of a multi, counts.
        WriteStep::OrderInVain(ErrorCode::EphemeralOnLocalSession)
    } else {
        WriteStep::Order
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
