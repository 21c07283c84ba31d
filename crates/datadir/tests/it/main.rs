//! Tests of data directories without a server, through the public interface.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod files;
mod mutations;
mod restore;
mod support;
mod survey;
