//! What large requests take of their host's bounds.

use std::iter::Sum;
use std::ops::{AddAssign, SubAssign};

/// What a request, or several, take of the host's two bounds on bytes of large requests.
///
/// The replica carries it from the request to its transaction, adds up what belongs together, and
/// hands it back when that is applied or dropped. It decides nothing by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LargeBytes {
    /// Bytes of the bound of the configuration (`largeRequestMaxBytes`).
    pub counted: u64,
    /// Bytes of the host's own bound.
    pub room: u64,
}

impl LargeBytes {
    /// Of a request that is not large.
    pub const NONE: Self = Self {
        counted: 0,
        room: 0,
    };
}

impl AddAssign for LargeBytes {
    fn add_assign(&mut self, other: Self) {
        self.counted += other.counted;
        self.room += other.room;
    }
}

impl SubAssign for LargeBytes {
    fn sub_assign(&mut self, other: Self) {
        self.counted -= other.counted;
        self.room -= other.room;
    }
}

impl Sum for LargeBytes {
    fn sum<I: Iterator<Item = Self>>(bytes: I) -> Self {
        bytes.fold(Self::NONE, |mut sum, bytes| {
            sum += bytes;
            sum
        })
    }
}
