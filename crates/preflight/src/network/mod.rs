//! Addresses and ports: name lookups, the member list, and the ports on which a start would listen.

pub(crate) mod members;
pub(crate) mod names;
pub(crate) mod ports;
