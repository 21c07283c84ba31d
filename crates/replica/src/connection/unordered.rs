//! Requests that are refused unchecked, and the treatment of requests that are not transactions.
//!
//! Requests of a connection are answered in order, with three exceptions: credentials, which apply
//! to later requests, a SASL token, and an operation that does not exist, which ends the
//! connection. The holder of the tree answers reads. Only the requests in this module need other
//! treatment.

use proto::{ErrorCode, Id, OpCode, OpKind};

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

/// Returns whether the identities suffice if clients must authenticate by one of these schemes
/// (`enforce.auth.schemes`). Source: AuthenticationHelper.enforceAuthentication.
pub fn is_authenticated<S: AsRef<str>>(enforced: Option<&[S]>, identities: &[Id]) -> bool {
    let Some(schemes) = enforced else {
        return true;
    };
    let is_enforced = |id: &Id| schemes.iter().any(|scheme| *scheme.as_ref() == *id.scheme);
    identities.iter().any(is_enforced)
}

/// Treatment of a client's `sync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncStep {
    /// This server answers with this error, in the connection's order.
    Refuse(ErrorCode),
    /// The host passes the request to the replica as [`Input::Sync`](crate::Input::Sync).
    Ask,
    /// This server answers in the connection's order, because it does not order writes.
    Answer,
}

/// Returns the treatment of a `sync`.
///
/// A learner forwards it to its leader. A leader, and a standalone server, answers it after all
/// writes that it received earlier, including writes of other connections. A client that lost its
/// connection while its write was in progress relies on this: after a `sync` it sees the outcome of
/// that write. Source: Leader.processSync and SyncRequestProcessor.
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
    fn one_identity_of_one_enforced_scheme_suffices() {
        let digest = Id {
            scheme: "digest".into(),
            id: "a:b".into(),
        };
        let ip = Id {
            scheme: "ip".into(),
            id: "127.0.0.1".into(),
        };
        let identities = [ip, digest];
        assert!(is_authenticated(Some(&["x509", "digest"]), &identities));
        assert!(!is_authenticated(Some(&["x509"]), &identities));
        assert!(!is_authenticated(Some(&["digest"]), &identities[..1]));
        assert!(is_authenticated::<&str>(None, &[]));
    }

    #[test]
    fn a_sync_is_answered_after_the_writes_before_it() {
        assert_eq!(sync_step(Service::Forwarding, false), SyncStep::Ask);
        assert_eq!(sync_step(Service::Deciding, false), SyncStep::Ask);
        let refused = SyncStep::Refuse(ErrorCode::NotReadOnly);
        assert_eq!(sync_step(Service::ReadOnly, true), refused);
    }
}
