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

mod clock;
mod error;
mod failure;
mod limits;
mod local_sessions;
mod member;
mod membership;
mod mesh;
#[expect(
    clippy::cast_possible_truncation,
    clippy::too_many_lines,
    reason = "to be split when its rules move to a crate of their own"
)]
mod net;
mod pauses;
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a snapshot's size; numbers of test packets"
)]
#[cfg_attr(
    test,
    expect(
        clippy::cast_possible_wrap,
        reason = "numbers of test packets are small"
    )
)]
mod peer;
mod permits;
mod pipeline;
mod recovery;
mod server;
mod service;
mod settings;
mod shared;
#[expect(
    clippy::too_many_lines,
    reason = "to be split when its rules move to a crate of their own"
)]
mod start;
mod state;
mod timers;
mod view;

use monitoring::{fourlw, metrics};

pub use error::StartError;
pub use recovery::{RecoveredTree, recover_tree};
pub use server::{Server, Started};
