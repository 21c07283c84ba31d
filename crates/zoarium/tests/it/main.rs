//! Tests of the `zoarium` executable, run as users run it.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod backup;
mod backup_archive;
mod bench;
mod bench_suite;
mod client;
mod config_tool;
mod embedding;
mod history;
mod history_tool;
mod log_output;
mod log_tool;
mod pages;
mod preflight;
mod quickstart;
mod restore_tool;
mod snapshot_tool;
mod start;
mod support;
mod test_server;
mod testing;
mod word;
