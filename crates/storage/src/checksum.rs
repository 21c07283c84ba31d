//! Adler-32, the checksum of logs and snapshots.

use std::fmt;

/// A checksum to which bytes are added.
#[derive(Clone)]
pub(crate) struct Checksum(simd_adler32::Adler32);

impl Checksum {
    /// Creates the checksum of an empty sequence of bytes.
    pub(crate) fn new() -> Self {
        Self(simd_adler32::Adler32::new())
    }

    /// Returns the checksum of `bytes`.
    pub(crate) fn of(bytes: &[u8]) -> u32 {
        let mut checksum = Self::new();
        checksum.write(bytes);
        checksum.value()
    }

    /// Adds the next bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// Returns the checksum of all bytes so far.
    pub(crate) fn value(&self) -> u32 {
        self.0.finish()
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Checksum({:#x})", self.value())
    }
}
