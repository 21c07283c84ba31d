//! Helpers of the tests.

#![allow(dead_code, reason = "each test uses its part")]

pub(crate) mod network;
pub(crate) mod script;
