//! Byte streams to clients and between members, opened in the same way for all ports.
//!
//! ```text
//!   bind ----> Listener --accept_each--> TcpStream --tls::Acceptor---+
//!                                                                    +--> Stream --> ReadHalf, WriteHalf
//!   resolve -> connect_first, connect_patiently ----------Connector--+
//! ```
//!
//! This crate does not know the protocols that use the streams. A [`Stream`] is an enum of the
//! available kinds, so a read of plain TCP costs the same as without this crate.

// The input comes from unknown peers, so a wrong length in it must not cause a panic.
#![warn(clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

mod accept;
mod bind;
mod connect;
mod options;
mod reserved_descriptors;
pub mod sasl;
mod stream;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(not(feature = "tls"))]
#[path = "tls/absent.rs"]
pub mod tls;
mod writer;

pub use accept::{Accepting, Listener, accept_each};
pub use bind::{bind, bind_everywhere, bind_ip};
pub use connect::connector::{Connecting, Connector, Interceptor};
pub use connect::dial::{DialFailure, DialRetries, connect_first, connect_patiently};
pub use connect::resolve::{ADDRESSES_MAX, NameSource, canonical_host, resolve, resolve_all};
pub use options::SocketOptions;
pub use reserved_descriptors::ReservedDescriptors;
pub use stream::{Duplex, ReadHalf, Stream, WriteHalf};
pub use writer::TcpWriter;
