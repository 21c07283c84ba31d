//! Invariants of sessions and their requests.

pub(crate) mod ephemerals;
pub(crate) mod expired;
pub(crate) mod fifo;
pub(crate) mod session_owner;
pub(crate) mod short_lived;
