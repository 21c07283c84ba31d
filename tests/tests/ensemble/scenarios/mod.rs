//! What an ensemble survives and what it does not, with real processes: failures, partitions,
//! growth.

mod disaster;
mod growth;
mod observers;
mod partitions;
mod survival;
