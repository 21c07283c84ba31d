//! Connections of clients: handshakes, requests, replies and events.
//!
//! ```text
//!  accept_loop -> handshake or four-letter word -> task: frames -> batch -> reads: answered here
//!                                                                    |
//!                                          core <- ClientMessage <- writes, syncs
//!                                           |
//!                                        Delivery -> outbox -> socket
//! ```
//!
//! [`Frontend::new`] constructs the parts of the crate. A connection's own task reads its frames,
//! and answers reads from the tree. It sends writes to the core through a [`CoreInbox`]. The core
//! delivers the results with a [`Delivery`]. The crate is independent of the core's decisions and
//! of other members.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

mod audit_trail;
pub mod clock;
mod connection;
mod deliver;
mod greeting;
pub mod limits;
mod login;
mod requests;
mod settings;
mod start;
mod view;

pub use audit_trail::AuditTrail;
pub use connection::inbox::{ClientMessage, CoreInbox};
pub use connection::service::CurrentService;
pub use connection::waiting::WaitingClients;
pub use connection::{Connection, Registry};
pub use deliver::Delivery;
pub use greeting::listener::{accept_loop, connect_in_process};
pub use requests::context::ConnectionContext;
pub use settings::Settings;
pub use start::{Frontend, FrontendParts, processors};
pub use view::LiveView;
pub use view::report::log_state;
