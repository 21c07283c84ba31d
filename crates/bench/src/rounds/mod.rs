//! Rounds of a measurement of one side, or of two sides in turns, with their loads and statistics.

pub(crate) mod compare;
pub(crate) mod load;
pub(crate) mod process;
pub(crate) mod round;
pub(crate) mod snapshots;
pub(crate) mod stats;
pub(crate) mod threads;
