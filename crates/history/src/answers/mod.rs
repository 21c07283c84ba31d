//! Parsing of queries and formatting of answers.

pub mod ask;
pub mod json;
pub(crate) mod moment;
