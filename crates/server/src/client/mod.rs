//! Client connections: sockets, handshakes, requests in, replies and events out.

pub(crate) mod answer;
pub(crate) mod batch;
mod budget_rate;
mod budget_wait;
pub(crate) mod budgets;
pub(crate) mod clients;
pub(crate) mod connection;
pub(crate) mod deliver;
pub(crate) mod dispatch;
mod failures;
pub(crate) mod handshake;
mod held;
pub(crate) mod inbox;
pub(crate) mod large;
pub(crate) mod listener;
mod outgoing;
mod permits;
pub(crate) mod registry;
pub(crate) mod request_throttle;
mod room;
pub(crate) mod sasl;
pub(crate) mod settings;
mod task;
pub(crate) mod throttle;
pub(crate) mod view;
mod words;
pub(crate) mod x509;
