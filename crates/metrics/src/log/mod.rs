//! The log: levels that can change at runtime, and its newest lines.

pub mod log_levels;
pub mod recent_log;
