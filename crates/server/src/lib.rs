//! A ZooKeeper server: sockets, sessions and the pipeline around the pure crates.
//!
//! [`Server::start`] recovers the data directory, starts the threads and listens; the `zoarium`
//! binary and tests embed it. Inside:
//!
//! * [`net`] takes requests off sockets and puts replies and events onto them,
//! * [`pipeline`] orders, logs and applies what changes the tree,
//! * [`timers`] does what happens by the clock,
//! * [`view`] shows what there is to `monitoring`, which answers operators.
//!
//! docs/ARCHITECTURE.md follows a request through all of it.

mod clock;
mod error;
mod failure;
mod limits;
mod local_sessions;
mod member;
mod membership;
mod mesh;
mod net;
mod pauses;
mod peer;
mod permits;
mod pipeline;
mod recovery;
mod server;
mod service;
mod settings;
mod shared;
mod start;
mod timers;
mod view;

use monitoring::{fourlw, metrics};

pub use error::StartError;
pub use recovery::{RecoveredTree, recover_tree};
pub use server::{Server, Started};
