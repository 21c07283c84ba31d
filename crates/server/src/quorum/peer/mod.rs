//! The quorum port, both sides of it: packets between a leader and its learners.
//!
//! ```text
//!  zab::Leader, zab::Learner      on the core thread: decide
//!        | orders      ^ PeerEvent
//!        v             |
//!  LearnerPort    LeaderConnection     this module: sockets, files, buffers
//! ```
//!
//! [`LearnerPort`] is the side that leads: it listens while a term lasts and knows every learner by
//! its [`LinkId`](zab::leader::LinkId). [`LeaderConnection`] is the side that learns: one attempt to
//! reach a leader, and the connection that comes of it. Both are ordered about by a thread that is
//! not async and must not wait; what happens comes back through an [`EventSink`].
//!
//! Each connection has a reader and a writer task. The reader stops when the core is behind (a
//! [`ReadAheadPermit`] travels with each batch of packets and reading goes on once it is dropped),
//! the writer's queue is bounded ([`outbox`]), so neither a flood nor a peer that does not read takes
//! memory.
//! What is wrong on the wire ends the connection with a [`PeerError`] that says why.
//!
//! A snapshot travels raw between two packets. [`send_tree::Writing`] reads it under short shared holds of
//! the tree; [`receive`] reads it into a tree of its own.
//!
//! Silence is not measured here: the machines of [`zab`] have the deadlines. The one exception is a
//! write that makes no progress at all, because a leader expects nothing of a learner that takes in
//! a snapshot.
//!
//! Source: Leader, LearnerHandler, Learner.

mod catch_up;
mod connection;
mod error;
mod event;
mod link;
mod link_figures;
mod listen;
mod outbox;
mod port;
mod reader;
mod receive;
mod send_tree;
mod staging;

#[cfg(test)]
mod tests;

pub(crate) use connection::{Dialer, LeaderConnection, LearnerSettings, LeftWork};
pub(crate) use error::PeerError;
pub(crate) use event::{EventSink, PeerEvent, ReadAheadPermit};
pub(crate) use listen::ListenSettings;
pub(crate) use port::{LearnerLinks, LearnerPort, PortSettings};
