//! Tests of everything that clients can do to a server through their sockets.

#![allow(clippy::disallowed_methods, reason = "tests may block")]
#![allow(
    clippy::unwrap_used,
    reason = "a failed expectation of a test is a failed test"
)]

mod auth;
mod hostile;
mod limits;
mod metrics;
mod raw;
mod stopping;
