//! Limits of the machine, measured with a minimal server (`echo`) and with syncs alone (`fsync`).

pub(crate) mod echo;
pub(crate) mod fsync;
