//! Slow requests, and the stages of sampled writes.

pub mod slow;
pub mod traces;
