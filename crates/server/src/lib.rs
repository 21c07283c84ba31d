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
#[expect(
    clippy::too_many_lines,
    reason = "to be split when its rules move to a crate of their own"
)]
mod member;
mod membership;
mod mesh;
pub mod metrics;
#[expect(
    clippy::cast_possible_truncation,
    clippy::too_many_lines,
    reason = "to be split when its rules move to a crate of their own"
)]
mod net;
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
#[expect(
    clippy::too_many_lines,
    reason = "to be split when its rules move to a crate of their own"
)]
mod pipeline;
mod recovery;
mod role_view;
mod server;
mod service;
mod sessions;
mod settings;
mod shared;
#[expect(
    clippy::too_many_lines,
    reason = "to be split when its rules move to a crate of their own"
)]
mod start;
mod timers;
mod view;

pub use error::StartError;
pub use recovery::{RecoveredTree, recover_tree};
pub use server::{Server, Started};
