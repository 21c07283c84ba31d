//! Input of the history: the initial znodes, and committed transactions as changes.

pub(crate) mod baseline;
pub(crate) mod expand;
pub(crate) mod filter;
pub(crate) mod follow;
