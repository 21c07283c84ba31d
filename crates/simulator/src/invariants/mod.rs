//! The invariants of the ensemble, one per file.

mod agreement;
pub(crate) mod bounds;
mod clients;
pub(crate) mod liveness;
pub(crate) mod recovery_time;
mod sessions;

pub(crate) use agreement::{
    acknowledged, digest, durable, on_disk, one_leader, prefix, primary_order, sync,
};
pub(crate) use clients::{access, linearizable, quota, reads, recipes, watches};
pub(crate) use sessions::{ephemerals, expired, fifo, session_owner, short_lived};

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
