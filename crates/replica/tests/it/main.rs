//! A replica on a host that only records effects.
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
