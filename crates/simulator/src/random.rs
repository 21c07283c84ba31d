//! Numbers without order that are the same for the same seed (splitmix64).

/// A stream of numbers.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // Neighbouring seeds must not have neighbouring streams.
        let mut random = Self(seed ^ 0x5eed_5eed_5eed_5eed);
        random.next();
        Self(random.next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `end`; 0 if that is 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let below = self.next() % (end.max(1) as u64);
        usize::try_from(below).unwrap_or(0)
    }

    /// From `from` up to and without `end`.
    pub(crate) fn range(&mut self, from: i64, end: i64) -> i64 {
        let span = end.saturating_sub(from).max(1).unsigned_abs();
        from + (self.next() % span).cast_signed()
    }

    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        of.get(self.below(of.len())).copied()
    }
}
