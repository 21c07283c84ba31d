//! The server's process: its environment, threads, version, and use of the machine.

pub mod environment;
pub(crate) mod figures;
pub mod threads;
pub mod version;

pub use figures::{Descriptors, Memory, ProcessFigures};
