//! Share of large requests in the bounds of their host.

use std::iter::Sum;
use std::ops::{AddAssign, SubAssign};

/// Share of one or several requests in the host's two bounds on the bytes of large requests.
///
/// The replica passes it from the request to its transaction, sums it for groups, and returns it
/// when the transaction is applied or dropped. The replica's decisions do not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LargeBytes {
    /// Bytes within the configured bound (`largeRequestMaxBytes`).
    pub counted: u64,
    /// Bytes within the host's own bound.
    pub room: u64,
}

impl LargeBytes {
    /// Share of a request that is not large.
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
