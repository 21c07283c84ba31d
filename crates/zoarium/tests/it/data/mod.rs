//! Commands for data directories without a server.

pub(crate) mod backup;
mod backup_archive;
mod log_tool;
mod restore_tool;
mod snapshot_tool;
