//! An async ZooKeeper client in two layers, for the command line, the load generator and tests.
//!
//! * [`RawConnection`] is a socket with a handshake behind it and a buffer on either side. The
//!   caller encodes requests, as many as it likes, and gets replies as slices: no allocation, no
//!   task, one write and one read for whatever waits.
//! * [`Client`] is what applications use: methods for every operation, any number of calls in
//!   flight, pings, watch events, and the same session on another connection when one is lost.
//!
//! Neither trusts the server: lengths are bounded before memory is taken ([`limits`]), and what
//! does not decode ends the connection with an error that says what it was.
//!
//! Source: ZooKeeper, ClientCnxn.

mod client;
mod create;
mod driver;
mod error;
pub mod frame;
mod handshake;
mod in_flight;
pub mod limits;
mod multi;
mod ops;
mod options;
mod watches;
mod wire;

pub use client::Client;
pub use create::Create;
pub use driver::{State, WatchEvent};
pub use error::{Call, Code, Error, LossReason, Result, XidOrNothing};
pub use handshake::{Accepted, Handshake, RawConnection, Session};
pub use in_flight::Reply;
pub use multi::{
    MultiOp, MultiRead, MultiReadResult, MultiResult, decode_read_results, decode_results,
    first_failure,
};
pub use options::Options;
pub use transport::tls;
pub use watches::{AddWatchMode, WatchKind};
pub use wire::{Exchange, Wire};
