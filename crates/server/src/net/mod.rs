//! Client connections: sockets, handshakes, requests in, replies and events out.

pub(crate) mod answer;
pub(crate) mod batch;
pub(crate) mod connection;
pub(crate) mod dispatch;
pub(crate) mod handshake;
pub(crate) mod large;
pub(crate) mod large_replies;
pub(crate) mod listener;
pub(crate) mod registry;
mod task;
pub(crate) mod throttle;
mod words;
