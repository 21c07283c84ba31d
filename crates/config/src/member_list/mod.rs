//! The member list of an ensemble, and its changes.

pub mod members;
pub mod membership;
pub mod reconfig;
