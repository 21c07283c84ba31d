//! Fuzzing of all code that reads bytes from outside.
//!
//! A [`Target`] is a plain function that receives bytes. It must return quickly, without a panic
//! and within its memory limit. Some targets also check properties of the decoded data (for
//! example, that it is equal after it has been encoded and decoded again).
//!
//! Inputs are mutants (`mutate`) of valid inputs: encodings by Zoarium's own encoders and, if they
//! are available, bytes recorded from Apache ZooKeeper. The number of the case determines the
//! input, so a failure can be reproduced. Only the keys and certificates of the TLS targets differ
//! in each process.
//!
//! `cargo test -p zoarium-fuzz` runs each target for a bounded time; see `tests/bounded`:
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `ZOARIUM_FUZZ_SECONDS` | time for each target | 2 |
//! | `ZOARIUM_FUZZ_CASE` | number of the first case | 0 |
//! | `ZOARIUM_FUZZ_CASES` | maximum number of cases within the time | no limit |
//!
//! The package in `coverage/` contains the same targets for cargo-fuzz: libFuzzer changes valid
//! inputs, and keeps each input that reaches new code. `.ci/long fuzz` runs each target for 60 s.
//!
//! The crate is only for tests, and no other crate depends on it.

mod check;
mod mutate;
mod recorded;
mod restore;
mod seeds;
mod targets;

pub use check::{CEILING_BYTES, fault_of, peak_of};
pub use mutate::{Corpus, INPUT_BYTES_MAX};
pub use targets::TARGETS;

/// Function that reads bytes from outside, and the inputs for it.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Name of the target and of its test.
    pub name: &'static str,
    /// Function that reads the bytes.
    pub run: fn(&[u8]),
    /// Function that returns valid inputs, from which the mutants are made.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Keywords of the input format, which are inserted into mutants.
    pub words: &'static [&'static str],
    /// Function that corrects checksums, so that mutants pass the checks.
    pub repair: Option<fn(&mut [u8])>,
    /// Limit for the target's memory.
    pub memory: Memory,
}

/// Limit for the additional memory in use at any moment of a run.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// Number of bytes allowed per byte of input.
    pub per_byte: usize,
    /// Number of bytes allowed for any input.
    pub fixed: usize,
}

impl Memory {
    /// Limit for decoders.
    pub const DECODER: Self = Self {
        per_byte: 64,
        fixed: 4 << 20,
    };

    /// Returns the limit for an input of this length.
    pub fn limit(self, input_bytes: usize) -> usize {
        self.fixed + self.per_byte * input_bytes
    }
}
