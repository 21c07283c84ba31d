//! Servers inside other programs.

pub(crate) mod embedding;
mod testing;
