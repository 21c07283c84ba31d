//! Connections to other servers: names, addresses, and streams of the required kind.

pub(crate) mod connector;
pub(crate) mod dial;
pub(crate) mod resolve;
