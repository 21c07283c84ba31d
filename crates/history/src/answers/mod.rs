//! Queries as text, and answers as text.

pub mod ask;
pub mod json;
pub(crate) mod moment;
