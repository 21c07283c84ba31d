//! Treatment of undecodable requests, of missing authentication, and of `sync`.

use proto::{ErrorCode, OpCode, OpKind};

use crate::interface::effect::Service;

/// Error for a request whose record cannot be decoded.
pub const UNDECODABLE: ErrorCode = ErrorCode::MarshallingError;

/// Returns the error for a request whose record cannot be decoded, on this kind of connection.
pub fn refusal_of_undecodable(op: OpCode, is_read_only: bool) -> ErrorCode {
    if is_read_only && op.kind() != OpKind::Read {
        ErrorCode::NotReadOnly
    } else {
        UNDECODABLE
    }
}

/// Treatment of a client's `sync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncStep {
    /// This server answers with this error, in the connection's order.
    Refuse(ErrorCode),
    /// The host passes the request to the replica as [`Input::Sync`](crate::Input::Sync).
    Ask,
    /// This server answers in the connection's order, because it does not order or forward
    /// requests.
    Answer,
}

/// Returns the treatment of a `sync`.
///
/// A learner forwards the `sync` to its leader. A leader or a standalone server answers the `sync`
/// after all writes that the server received earlier, including writes of other connections. A
/// client that lost its connection while its write was in progress relies on this order: after a
/// `sync`, the client sees the outcome of that write. Source: Leader.processSync and
/// SyncRequestProcessor.
pub fn sync_step(service: Service, is_read_only: bool) -> SyncStep {
    match service {
        _ if is_read_only => SyncStep::Refuse(ErrorCode::NotReadOnly),
        Service::Forwarding | Service::Deciding => SyncStep::Ask,
        Service::None | Service::ReadOnly => SyncStep::Answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_leader_a_write_is_refused_whether_it_decodes_or_not() {
        let refusal = refusal_of_undecodable;
        assert_eq!(refusal(OpCode::Create, true), ErrorCode::NotReadOnly);
        assert_eq!(refusal(OpCode::GetData, true), UNDECODABLE);
        assert_eq!(refusal(OpCode::Create, false), UNDECODABLE);
    }

    #[test]
    fn a_sync_is_answered_after_the_writes_before_it() {
        assert_eq!(sync_step(Service::Forwarding, false), SyncStep::Ask);
        assert_eq!(sync_step(Service::Deciding, false), SyncStep::Ask);
        let refused = SyncStep::Refuse(ErrorCode::NotReadOnly);
        assert_eq!(sync_step(Service::ReadOnly, true), refused);
    }
}
