//! Requests that a learner forwards to its leader.

pub(crate) mod from_learners;
pub(crate) mod pending;
pub(crate) mod renewals;
pub(crate) mod to_leader;
