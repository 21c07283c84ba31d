//! Wrong input, made on purpose, for everything that reads bytes from outside.
//!
//! A [`Target`] is a plain function that takes bytes and must come back: without a panic, without
//! more memory than its limit, and soon. Some also say what must be true of what they read (what
//! decodes, encodes and decodes to the same).
//!
//! Inputs are mutants (`mutate`) of valid ones: encodings made by our own encoders and, where
//! they are at hand, bytes recorded from Apache ZooKeeper. Everything follows from one number, the
//! case, so every failure can be had again.
//!
//! `cargo test -p zoarium-fuzz` runs each target for a bounded time; see `tests/bounded`:
//!
//! | variable | says | default |
//! |---|---|---|
//! | `ZOARIUM_FUZZ_SECONDS` | time for each target | 2 |
//! | `ZOARIUM_FUZZ_CASE` | number of the first case | 0 |
//! | `ZOARIUM_FUZZ_CASES` | how many cases, if the time does not end first | no limit |
//!
//! The crate is for tests only; nothing depends on it.

mod mutate;
mod recorded;
mod restore;
mod seeds;
mod targets;

pub use mutate::{Corpus, INPUT_BYTES_MAX};
pub use targets::TARGETS;

/// Something that reads bytes from outside.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name: that of its test, too.
    pub name: &'static str,
    /// Reads the bytes.
    pub run: fn(&[u8]),
    /// Valid inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Words that mean something to it.
    pub words: &'static [&'static str],
    /// Makes checksums right again, so that mutants get past them.
    pub repair: Option<fn(&mut [u8])>,
    /// What it may allocate.
    pub memory: Memory,
}

/// A limit for memory in use at any moment of a run, beyond what was in use before.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// Bytes for each byte of input.
    pub per_byte: usize,
    /// Bytes whatever the input.
    pub fixed: usize,
}

impl Memory {
    /// What decoders get.
    pub const DECODER: Self = Self {
        per_byte: 64,
        fixed: 4 << 20,
    };

    /// The limit for an input of this length.
    pub fn limit(self, input_bytes: usize) -> usize {
        self.fixed + self.per_byte * input_bytes
    }
}
