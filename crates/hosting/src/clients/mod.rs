//! Clients' connections: which session each serves, what a transaction brings them, and when they end.
//!
//! What a connection waits for, and in which order its replies leave, is `replica::connection`. A host
//! moves the bytes and counts.

mod connection;
mod delivery;
mod handshake;
mod registry;
mod service;
mod serving;
#[cfg(test)]
mod tests;

pub use connection::{Connection, Guarded};
pub use delivery::{Answered, Delivering, ToAnswer, answer_sync, deliver};
pub use handshake::{Begun, answer_handshake, begin_session, judge_handshake};
pub use registry::Registry;
pub use serving::{Connected, Serving};
