//! A ZooKeeper server: sockets, sessions and the pipeline around the pure crates.
//!
//! [`Server::start`] recovers the data directory, starts the threads and listens; the `zoarium`
//! binary and tests embed it. Inside:
//!
//! * `net` takes requests off sockets and puts replies and events onto them,
//! * `pipeline` orders, logs and applies what changes the tree,
//! * `timers` does what happens by the clock,
//! * [`fourlw`] and [`metrics`] answer operators.
//!
//! docs/ARCHITECTURE.md follows a request through all of it.

mod clock;
mod error;
mod failure;
pub mod fourlw;
mod limits;
mod local_sessions;
mod member;
mod membership;
mod mesh;
pub mod metrics;
mod net;
mod peer;
mod permits;
mod pipeline;
mod recovery;
mod role_view;
mod server;
mod service;
mod sessions;
mod settings;
mod shared;
mod start;
mod timers;
mod view;

pub use error::StartError;
pub use recovery::{RecoveredTree, recover_tree};
pub use server::{Server, Started};
