//! A ZooKeeper server: sockets, sessions and the pipeline around the pure crates.
//!
//! [`Server::start`] recovers the data directory, starts the threads and listens; the `zoarium`
//! binary and tests embed it. Inside:
//!
//! * `net` takes requests off sockets and puts replies and events onto them,
//! * `pipeline` orders, logs and applies what changes the tree,
//! * `timers` does what happens by the clock,
//! * `view` shows what there is to `monitoring`, which answers operators.
//!
//! docs/ARCHITECTURE.md follows a request through all of it.

mod assemble;
mod client;
mod clock;
mod disk;
mod error;
mod failure;
mod inbox;
mod limits;
mod quorum;
mod settings;
mod sockets;
mod state;

use monitoring::{fourlw, metrics};

pub use assemble::server::{Server, Started};
pub use disk::recovery::{RecoveredTree, recover_tree};
pub use error::StartError;
