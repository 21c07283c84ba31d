//! Invariants: the members agree and keep what they have acknowledged.

pub(crate) mod acknowledged;
pub(crate) mod digest;
pub(crate) mod durable;
pub(crate) mod on_disk;
pub(crate) mod one_leader;
pub(crate) mod prefix;
pub(crate) mod primary_order;
pub(crate) mod sync;
