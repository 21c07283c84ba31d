//! Commands for data directories without a server: arguments, and the formatting of results.

pub(crate) mod backup;
pub(crate) mod log_tool;
pub(crate) mod purge_tool;
pub(crate) mod restore_tool;
pub(crate) mod snapshot_tool;
