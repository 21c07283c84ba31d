//! Tests of the tree through the public interface.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod common;
mod create;
mod expiry;
mod length;
mod model;
mod model_tree_vs_map;
mod multi;
mod quota;
mod read;
mod replay;
mod snapshot;
mod vectors;
mod watch;
mod write;
