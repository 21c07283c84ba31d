//! Tests of the `zoarium` executable, run as users run it.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod config_tool;
mod data;
mod embedded;
mod history;
mod live;
mod load;
mod pages;
mod preflight;
mod servers;
mod support;
