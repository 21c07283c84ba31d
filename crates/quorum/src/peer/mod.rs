//! Both sides of the quorum port: packets between a leader and its learners.
//!
//! ```text
//!  zab::Leader, zab::Learner      on the core thread: decide
//!        | orders      ^ PeerEvent
//!        v             |
//!  LearnerPort    LeaderConnection     this module: sockets, files, buffers
//! ```
//!
//! [`LearnerPort`] is the leader's side: it listens during a term, and identifies each learner by
//! its [`LinkId`](zab::leader::LinkId). [`LeaderConnection`] is the learner's side: one attempt to
//! reach a leader, and the resulting connection. The core thread, which must not wait, controls
//! both. It receives events through a [`PeerSink`].
//!
//! Each connection has a reader and a writer task. A [`ReadAheadPermit`] travels with each batch of
//! packets. When the core is slow, the reader stops, and continues after a permit has been dropped.
//! The writer's queue is bounded ([`outbox`]). Therefore neither a flood nor a peer that does not
//! read can fill the memory. A protocol error ends the connection with a [`PeerError`] that
//! contains the reason.
//!
//! A snapshot is sent raw between two packets. [`port`] reads it under short shared locks on the
//! tree. [`receive`] loads it into a separate tree.
//!
//! This module does not detect silence, because the state machines of [`zab`] have the deadlines.
//! The only exception is a write that makes no progress, because a leader does not expect messages
//! from a learner that is receiving a snapshot.
//!
//! Source: Leader, LearnerHandler, Learner.

mod connection;
mod error;
mod event;
mod outbox;
mod port;
mod reader;
mod receive;

#[cfg(test)]
mod tests;

pub use connection::DeferredWork;
pub(crate) use connection::{Dialer, LeaderConnection, LearnerSettings};
pub(crate) use error::PeerError;
pub(crate) use event::ReadAheadPermit;
pub use event::{PeerEvent, PeerSink};
pub use port::LearnerLinks;
pub(crate) use port::{LearnerPort, ListenSettings, PortSettings};
