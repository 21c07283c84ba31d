//! A replica on a host that only writes down.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod alone;
mod digests;
mod ensemble;
mod generations;
mod handshake;
mod leading;
mod learning;
mod members;
mod observers;
mod oracle;
mod support;
