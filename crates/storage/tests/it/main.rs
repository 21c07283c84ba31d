//! Tests of the files of a data directory, through the public interface.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod common;
mod crash_log;
mod damage_edits;
mod damage_sweeps;
mod faults;
mod judgement;
mod large_records;
mod log_writer;
mod mutations;
mod repair;
mod start_files;
mod truncate_purge;
mod vectors_bytes;
mod vectors_load;
