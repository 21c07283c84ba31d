//! Invariants of the requests of clients, and of the replies that they receive.

pub(crate) mod access;
pub(crate) mod linearizable;
pub(crate) mod quota;
pub(crate) mod reads;
pub(crate) mod recipes;
pub(crate) mod watches;
