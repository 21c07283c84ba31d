//! Tests of the client against a scripted server on a loopback socket.

#![allow(clippy::disallowed_methods, reason = "tests may block")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod calls;
mod cancelled;
mod dropped;
mod handles;
#[cfg(feature = "sasl")]
mod login;
mod protected;
mod reconnect;
mod refused;
mod support;
mod together;
