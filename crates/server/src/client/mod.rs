//! Client connections: sockets, handshakes, requests, replies and events.

pub(crate) mod answer;
mod at_once;
pub(crate) mod batch;
mod budget_held;
mod budget_wait;
pub(crate) mod clients;
pub(crate) mod connection;
pub(crate) mod deliver;
pub(crate) mod dispatch;
pub(crate) mod handshake;
pub(crate) mod inbox;
pub(crate) mod listener;
mod login;
mod outgoing;
pub(crate) mod request_throttle;
pub(crate) mod sasl;
pub(crate) mod settings;
mod socket;
mod task;
pub(crate) mod view;
mod words;
pub(crate) mod x509;
