//! Zab as plain values: messages and facts in, decisions out.
//!
//! Zab has three phases. A leader-to-be learns of every accepted epoch (discovery), brings its
//! learners to its own history (synchronisation), and from then on orders every change
//! (broadcast). Nothing here reads a clock, a socket or a disk. That a record is durable is an
//! *input*: a server is counted only after it has been told, so an acknowledgement that runs
//! ahead of the disk cannot be written down.
//!
//! What is here: the leader's accounting of [`broadcast`], which a standalone server needs too
//! (it is the leader of an ensemble of one). Discovery, synchronisation and the learners' side
//! come to stand beside it, as one state machine per role that holds a `Proposals` while it
//! leads.

pub mod broadcast;
