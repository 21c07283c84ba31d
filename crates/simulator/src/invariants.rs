//! The invariants of the ensemble, one per file.

pub(crate) mod access;
pub(crate) mod acknowledged;
pub(crate) mod bounds;
pub(crate) mod digest;
pub(crate) mod durable;
pub(crate) mod ephemerals;
pub(crate) mod expired;
pub(crate) mod fifo;
pub(crate) mod linearizable;
pub(crate) mod liveness;
pub(crate) mod on_disk;
pub(crate) mod one_leader;
pub(crate) mod prefix;
pub(crate) mod primary_order;
pub(crate) mod quota;
pub(crate) mod reads;
pub(crate) mod recipes;
pub(crate) mod recovery_time;
pub(crate) mod session_owner;
pub(crate) mod short_lived;
pub(crate) mod sync;
pub(crate) mod watches;

use proto::SessionId;

/// Result of a check. `Err` describes the violation.
pub(crate) type CheckResult = Result<(), String>;

/// A request of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestId {
    /// Session of the client.
    pub(crate) session: SessionId,
    /// Number of the request in its session.
    pub(crate) cxid: i32,
}

impl RequestId {
    /// Returns the previous request of the session.
    pub(crate) fn before(self) -> Self {
        Self {
            cxid: self.cxid - 1,
            ..self
        }
    }
}
