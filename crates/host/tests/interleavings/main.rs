//! Threads that meet in the types of this crate: `shuttle` draws schedules, and `loom` finds an
//! access whose memory order is too weak.

#![allow(
    clippy::unwrap_used,
    reason = "a thread of a model that panics fails the check"
)]

extern crate executor as zoarium_executor;

#[path = "../../../executor/tests/interleavings/models.rs"]
mod models;
mod registry;
mod session_cell;
mod snapshot;
