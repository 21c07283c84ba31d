//! Parsers of queries, and formatters of answers.

pub mod ask;
pub mod json;
pub(crate) mod moment;
