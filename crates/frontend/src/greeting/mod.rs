//! Start of a connection: its acceptance and its first frame.

pub(crate) mod handshake;
pub(crate) mod listener;
pub(crate) mod words;
