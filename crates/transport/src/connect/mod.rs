//! Connections to other servers: names, addresses, and streams of the wanted kind.

pub(crate) mod connector;
pub(crate) mod dial;
pub(crate) mod resolve;
