//! Tests of accepting, and of TLS on a port: stores as keytool and openssl write them, and
//! handshakes over real sockets.

#![allow(clippy::disallowed_methods, reason = "tests may block")]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail the test that calls them"
)]

mod accept;
mod authority;
mod handshakes;
mod member_check;
mod reload;
mod stores;
mod subjects;
mod version1;
