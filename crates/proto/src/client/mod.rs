//! Packets between a client and a server.

pub mod connect;
pub(crate) mod error_code;
pub mod multi;
pub mod op;
pub mod request;
pub mod response;
pub mod watch;
