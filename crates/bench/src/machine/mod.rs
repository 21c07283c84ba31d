//! Limits of the machine, measured with a server that only replies or only syncs, and with syncs
//! alone.

pub(crate) mod echo;
pub(crate) mod fsync;
