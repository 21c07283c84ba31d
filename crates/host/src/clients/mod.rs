//! Clients' connections: their sessions, the delivery of transactions, and their ends.
//!
//! `replica::connection` implements the order of requests and replies. A host moves the bytes and
//! collects metrics.

mod connection;
mod delivery;
mod handshake;
mod registry;
mod service;
mod status;
#[cfg(test)]
mod tests;

pub use connection::{Connection, LockedState};
pub use delivery::{AnswerOutcome, DeliveryHost, PendingAnswer, answer_sync, deliver};
pub use handshake::{
    SessionStep, answer_handshake, answer_renewal, begin_session, judge_handshake,
};
pub use registry::Registry;
pub use status::{ConnectionStatus, SessionCell, SharedConnection};
