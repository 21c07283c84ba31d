//! Limits of the machine: a server that only replies or only syncs, and syncs without a server.

pub(crate) mod echo;
pub(crate) mod fsync;
