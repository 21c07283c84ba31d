//! The files of a data directory: names, locks, epochs, and removal.

pub(crate) mod dirs;
pub(crate) mod epoch;
pub(crate) mod names;
pub(crate) mod purge;
pub(crate) mod set_aside;
pub(crate) mod untrusted;
