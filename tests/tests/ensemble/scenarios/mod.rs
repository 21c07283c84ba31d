//! Failures, partitions and growth of an ensemble of real processes: events that it survives, and
//! events that stop it.

mod disaster;
mod growth;
mod observers;
mod partitions;
mod survival;
