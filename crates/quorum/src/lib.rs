//! Connections between the members of an ensemble: for elections (`mesh`) and on both sides of the
//! quorum port (`peer`), and the logins on all of them (`auth`).
//!
//! ```text
//!  core thread:  replica --Effect--> MemberPorts --orders--> tasks of mesh and peer
//!                   ^                    |                        |
//!                   +------- Input ------+ <-MeshEvent, PeerEvent-+
//! ```
//!
//! A server starts [`MemberPorts`] with two kinds of sink for events. The core passes each event to
//! [`MemberPorts::translate`] or [`MemberPorts::translate_election`], and the returned input to its
//! replica. [`MemberPorts`] executes the effects of the replica.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

mod auth;
mod greetings;
pub mod limits;
mod mesh;
#[cfg_attr(
    test,
    expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_possible_wrap,
        reason = "numbers of test packets are small"
    )
)]
mod peer;
mod ports;
mod start;

pub use mesh::{BindError, InputPermit, MeshEvent, MeshSink};
pub use peer::{DeferredWork, LearnerLinks, PeerEvent, PeerSink};
pub use ports::MemberPorts;
pub use start::PortsStart;
