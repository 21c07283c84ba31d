//! Pseudo-random numbers that are reproducible from a seed.

use fastrand::Rng;

/// A stream of pseudo-random numbers.
#[derive(Debug, Clone)]
pub struct Random(Rng);

impl Random {
    /// Creates the stream for a seed.
    pub fn new(seed: u64) -> Self {
        Self(Rng::with_seed(seed))
    }

    /// Returns a number from the whole range of `u64`.
    pub fn any(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// Returns a byte from the whole range of `u8`.
    pub fn byte(&mut self) -> u8 {
        self.0.u8(..)
    }

    /// Returns a number below `end`, or 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.usize(..end.max(1))
    }

    /// Returns a number from `from` up to, but not including, `end`. Returns `from` if the range is
    /// empty.
    pub fn range(&mut self, from: i64, end: i64) -> i64 {
        self.0.i64(from..end.max(from.saturating_add(1)))
    }

    /// Returns `true` with a probability of `percent` percent.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns one of the items, or `None` if there are none.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        of.get(self.below(of.len())).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_numbers_and_its_neighbour_has_others() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            [(); 8].map(|()| random.any())
        };
        assert_eq!(numbers(7), numbers(7));
        assert!(numbers(7).iter().all(|number| !numbers(8).contains(number)));
    }

    #[test]
    fn bounds_hold_where_there_is_nothing_to_choose() {
        let mut random = Random::new(1);
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
        assert_eq!(random.range(5, 5), 5);
        assert_eq!(random.range(5, -5), 5);
        assert_eq!(random.pick::<u8>(&[]), None);
        assert!(!random.percent(0) && random.percent(100));
    }
}
