//! Interleavings of the threads that meet at an executor or at a mailbox.
//!
//! `loom` visits every execution of a small model, up to a bound of preemptions, and knows what a
//! relaxed access may see: it finds a missing fence. `shuttle` draws the schedules of a larger
//! model, where each access is sequentially consistent: it finds a missing check. Mutants
//! (`crates/simulator/mutants`) show that they do.

#![allow(
    clippy::unwrap_used,
    reason = "a thread of a model that panics fails the check"
)]

mod direct_write;
mod loom_model;
mod models;
mod probe;
mod shuttle_model;
