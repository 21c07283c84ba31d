//! Summaries with a distribution of their values.
//!
//! Values are counted in buckets: one per value below 64, then 32 per doubling. A percentile is
//! therefore exact below 64, and deviates by at most 3 % from 64 to 2^24. Java keeps a sample of
//! 4096 values instead. This implementation counts all values at the cost of one addition.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::shards::Shards;
use super::summary::{Moments, Total};

const EXACT_BITS: u32 = 6;
const EXACT: usize = 1 << EXACT_BITS;
const PER_DOUBLING_BITS: u32 = 5;
const PER_DOUBLING: usize = 1 << PER_DOUBLING_BITS;

/// Number of bits of the largest values that the buckets distinguish. Larger values, from 2^24 on
/// (more than four hours, in ms), are counted in the last bucket.
const VALUE_BITS: u32 = 24;
const BUCKETS: usize = EXACT + (VALUE_BITS - EXACT_BITS) as usize * PER_DOUBLING;

/// Returns the bucket of `value`.
fn bucket_of(value: u64) -> usize {
    let value = usize::try_from(value).unwrap_or(usize::MAX);
    if value < EXACT {
        return value;
    }
    let exponent = value.ilog2();
    if exponent >= VALUE_BITS {
        return BUCKETS - 1;
    }
    let within = (value >> (exponent - PER_DOUBLING_BITS)) & (PER_DOUBLING - 1);
    EXACT + (exponent - EXACT_BITS) as usize * PER_DOUBLING + within
}

/// Returns the value in the middle of a bucket.
fn middle_of(bucket: usize) -> u64 {
    let Some(above) = bucket.checked_sub(EXACT) else {
        return bucket as u64;
    };
    let exponent = EXACT_BITS as usize + above / PER_DOUBLING;
    let width: u64 = 1 << (exponent - PER_DOUBLING_BITS as usize);
    (1 << exponent) + (above % PER_DOUBLING) as u64 * width + width / 2
}

/// Count, sum, extremes and distribution of values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Distribution {
    moments: Moments,
    /// Counts by bucket. Empty before the first value.
    buckets: Vec<u64>,
}

impl Distribution {
    /// Returns the count, sum and extremes.
    pub fn moments(&self) -> &Moments {
        &self.moments
    }

    /// Adds a value.
    pub fn record(&mut self, value: u64) {
        self.moments.record(value);
        self.buckets.resize(BUCKETS, 0);
        self.buckets[bucket_of(value)] += 1;
    }

    /// Adds the values of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.moments.merge(&other.moments);
        if !other.buckets.is_empty() {
            self.buckets.resize(BUCKETS, 0);
        }
        for (sum, count) in self.buckets.iter_mut().zip(&other.buckets) {
            *sum += count;
        }
    }

    /// Returns, for each of these increasing bounds, the number of values that do not exceed the
    /// bound. The result is exact below 64. Above, all values in a bucket count as the value in its
    /// middle.
    pub fn up_to(&self, bounds: &[u64]) -> Vec<u64> {
        let mut counts = vec![0; bounds.len()];
        for (bucket, count) in self
            .buckets
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
        {
            let first = bounds.partition_point(|bound| *bound < middle_of(bucket));
            counts.iter_mut().skip(first).for_each(|sum| *sum += count);
        }
        counts
    }

    /// Returns the approximate `q`-quantile: the smallest value such that at least the fraction `q`
    /// of all values does not exceed it. Returns 0 without values.
    pub fn quantile(&self, q: f64) -> u64 {
        let total: u64 = self.buckets.iter().sum();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "`as` keeps to the bounds of u64, and a rank is in 1..=total"
        )]
        let rank = ((q * total as f64).ceil() as u64).clamp(1, total.max(1));
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                let value = if bucket == BUCKETS - 1 {
                    self.moments.max()
                } else {
                    middle_of(bucket)
                };
                return value.clamp(self.moments.min(), self.moments.max());
            }
        }
        0
    }
}

/// A shard in use. It takes 5 KiB, so it is allocated when its first value is recorded. The count
/// is the sum of the buckets.
#[derive(Debug)]
struct Cell {
    total: Total,
    buckets: [AtomicU64; BUCKETS],
}

impl Default for Cell {
    fn default() -> Self {
        Self {
            total: Total::default(),
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

/// Advanced summary, which is a [`super::Summary`] with percentiles.
#[derive(Debug)]
pub struct Percentiles(Shards<OnceLock<Box<Cell>>>);

impl Percentiles {
    /// Creates an empty summary for about `shards` writing threads.
    pub fn new(shards: usize) -> Self {
        Self(Shards::new(shards))
    }

    /// Adds a value.
    pub fn record(&self, value: u64) {
        self.record_many(value, 1);
    }

    /// Adds a value that occurred `times` times, at the cost of adding one value.
    pub fn record_many(&self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        let cell = self.0.own_shard().get_or_init(Box::default);
        cell.total.record(value, times);
        cell.buckets[bucket_of(value)].fetch_add(times, Ordering::Relaxed);
    }

    /// Returns the values since the last reset.
    pub fn get(&self) -> Distribution {
        let mut all = Distribution::default();
        for cell in self.cells() {
            let buckets = cell
                .buckets
                .iter()
                .map(|bucket| bucket.load(Ordering::Relaxed));
            let buckets: Vec<_> = buckets.collect();
            let moments = cell.total.moments(buckets.iter().sum());
            all.merge(&Distribution { moments, buckets });
        }
        all
    }

    /// Removes all values.
    pub fn reset(&self) {
        for cell in self.cells() {
            cell.total.reset();
            cell.buckets
                .iter()
                .for_each(|bucket| bucket.store(0, Ordering::Relaxed));
        }
    }

    fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.0.iter().filter_map(OnceLock::get).map(|cell| &**cell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_exact_then_within_three_percent() {
        for value in (0..5000).chain([65_535, 1 << 20, (1 << 24) - 1]) {
            let middle = middle_of(bucket_of(value));
            let error = middle.abs_diff(value) as f64;
            assert!(
                error <= value as f64 * 0.032,
                "{value} is shown as {middle}"
            );
            assert!(value >= 64 || middle == value);
        }
    }

    #[test]
    fn a_bucket_never_counts_less_than_the_one_before() {
        let mut last = 0;
        for value in 0..200_000 {
            let bucket = bucket_of(value);
            assert!(
                bucket == last || bucket == last + 1,
                "{value} is in {bucket}, not {last}"
            );
            last = bucket;
        }
        assert_eq!(bucket_of((1 << 24) - 1), BUCKETS - 1);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_of_one_to_thousand() {
        let percentiles = Percentiles::new(2);
        assert_eq!(percentiles.get().quantile(0.99), 0);
        std::thread::scope(|scope| {
            for part in 0..4 {
                let percentiles = &percentiles;
                scope.spawn(move || {
                    (1..=1000)
                        .filter(|v| v % 4 == part)
                        .for_each(|v| percentiles.record(v));
                });
            }
        });
        let all = percentiles.get();
        assert_eq!((all.moments().count, all.moments().sum), (1000, 500_500));
        for (q, exact) in [(0.5, 500_f64), (0.95, 950.0), (0.99, 990.0), (0.999, 999.0)] {
            let error = (all.quantile(q) as f64 - exact).abs();
            assert!(error <= exact * 0.032, "{q} is {}", all.quantile(q));
        }
        assert_eq!(all.quantile(1.0), 1000);
        percentiles.reset();
        assert_eq!(percentiles.get().quantile(0.5), 0);
    }

    #[test]
    fn a_value_beyond_all_buckets_is_shown_as_the_largest() {
        let mut distribution = Distribution::default();
        distribution.record(u64::MAX / 2);
        assert_eq!(distribution.quantile(0.5), u64::MAX / 2);
    }
}
