//! Invariants of the replies that clients receive.

pub(crate) mod access;
pub(crate) mod linearizable;
pub(crate) mod quota;
pub(crate) mod reads;
pub(crate) mod recipes;
pub(crate) mod watches;
