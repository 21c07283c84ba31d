//! Leaders and learners through their public interface.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod epoch_ahead;
mod giving_up;
mod held_back;
mod learner_ahead;
mod observer_masters;
mod pending_config;
mod scenarios;
mod truncation;
