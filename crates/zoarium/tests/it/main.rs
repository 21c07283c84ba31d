//! The `zoarium` executable, run as people run it.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod bench;
mod client;
mod history;
mod history_tool;
mod log_tool;
mod restore_tool;
mod snapshot_tool;
mod start;
mod support;
mod word;
