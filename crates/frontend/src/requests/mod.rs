//! Path of requests: from the bytes of a socket to replies, and to messages to the core.

pub(crate) mod answer;
pub(crate) mod batch;
mod budget_resources;
mod budget_wait;
pub(crate) mod context;
pub(crate) mod dispatch;
mod read_needs;
pub(crate) mod request_throttle;
pub(crate) mod task;
