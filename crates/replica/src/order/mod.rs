//! The order of transactions: preparation, proposal, and application after the commit.

pub(crate) mod apply;
pub(crate) mod containers;
pub(crate) mod digests;
pub(crate) mod long_requests;
pub(crate) mod proposals;
pub(crate) mod restore;
