//! Shared code of this crate's tests. Each test file uses a part of it.
#![allow(dead_code, unreachable_pub)]

pub mod files;
pub mod host;
