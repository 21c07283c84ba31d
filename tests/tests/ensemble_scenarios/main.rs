//! What an ensemble survives and what it does not, with real processes: as ensemble-scenarios.md
//! tells it.

mod growth;
mod observers;
mod partitions;
mod survival;
