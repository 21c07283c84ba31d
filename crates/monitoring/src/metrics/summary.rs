//! Count, sum, smallest and largest of the values of a metric.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::replies::Sizes;
use super::shards::Shards;
use super::text::Decimal;

/// What is known of recorded values, without their distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moments {
    /// How many values.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    min: u64,
    max: u64,
}

impl Default for Moments {
    fn default() -> Self {
        Self {
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }
}

impl Moments {
    /// Adds a value.
    pub fn record(&mut self, value: u64) {
        self.merge(&Self {
            count: 1,
            sum: value,
            min: value,
            max: value,
        });
    }

    /// Adds what `other` has seen.
    pub fn merge(&mut self, other: &Self) {
        self.count = self.count.wrapping_add(other.count);
        self.sum = self.sum.wrapping_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// The smallest value, 0 if there is none.
    pub fn min(&self) -> u64 {
        if self.min == u64::MAX { 0 } else { self.min }
    }

    /// The largest value, 0 if there is none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The mean, rounded half up to four decimals; 0 if there is none. Source: AvgMinMaxCounter.
    pub fn average(&self) -> Decimal {
        let count = u128::from(self.count);
        if count == 0 {
            return Decimal(0.0);
        }
        let ten_thousandths = (u128::from(self.sum) * 20_000 + count) / (2 * count);
        Decimal(ten_thousandths as f64 / 10_000.0)
    }
}

/// [`Moments`] that any thread may add to.
#[derive(Debug, Default)]
struct AtomicMoments {
    count: AtomicU64,
    total: Total,
}

impl AtomicMoments {
    fn record(&self, value: u64, times: u64) {
        self.count.fetch_add(times, Ordering::Relaxed);
        self.total.record(value, times);
    }

    fn get(&self) -> Moments {
        self.total.moments(self.count.load(Ordering::Relaxed))
    }

    fn reset(&self) {
        self.count.store(0, Ordering::Relaxed);
        self.total.reset();
    }
}

/// [`Moments`] without the count.
#[derive(Debug, Default)]
pub(super) struct Total {
    sum: AtomicU64,
    extremes: Extremes,
}

impl Total {
    /// Adds a value that came `times` times.
    pub(super) fn record(&self, value: u64, times: u64) {
        // Most latencies are 0 ms, and an atomic addition costs more than this look.
        if value != 0 {
            self.sum
                .fetch_add(value.wrapping_mul(times), Ordering::Relaxed);
        }
        self.extremes.record(value);
    }

    pub(super) fn moments(&self, count: u64) -> Moments {
        Moments {
            count,
            sum: self.sum.load(Ordering::Relaxed),
            min: self.extremes.min.load(Ordering::Relaxed),
            max: self.extremes.max.load(Ordering::Relaxed),
        }
    }

    pub(super) fn reset(&self) {
        self.sum.store(0, Ordering::Relaxed);
        self.extremes.reset();
    }
}

/// The smallest and the largest value seen.
#[derive(Debug)]
struct Extremes {
    min: AtomicU64,
    max: AtomicU64,
}

impl Default for Extremes {
    fn default() -> Self {
        Self {
            min: AtomicU64::new(u64::MAX),
            max: AtomicU64::new(0),
        }
    }
}

impl Extremes {
    fn record(&self, value: u64) {
        // A load is much cheaper than a fetch_min, and nearly every value is neither.
        if value < self.min.load(Ordering::Relaxed) {
            self.min.fetch_min(value, Ordering::Relaxed);
        }
        if value > self.max.load(Ordering::Relaxed) {
            self.max.fetch_max(value, Ordering::Relaxed);
        }
    }

    fn reset(&self) {
        self.min.store(u64::MAX, Ordering::Relaxed);
        self.max.store(0, Ordering::Relaxed);
    }
}

/// A basic summary: average, smallest, largest, count and sum of the values since the last reset.
#[derive(Debug)]
pub struct Summary(Shards<AtomicMoments>);

impl Summary {
    /// Empty, for about as many writing threads as `shards`.
    pub fn new(shards: usize) -> Self {
        Self(Shards::new(shards))
    }

    /// Adds a value.
    pub fn record(&self, value: u64) {
        self.record_many(value, 1);
    }

    /// Adds a value that came `times` times, at the cost of one.
    pub fn record_many(&self, value: u64, times: u64) {
        if times > 0 {
            self.0.mine().record(value, times);
        }
    }

    /// What was recorded since the last reset.
    pub fn get(&self) -> Moments {
        let mut all = Moments::default();
        self.0.iter().for_each(|cell| all.merge(&cell.get()));
        all
    }

    /// Forgets every value.
    pub fn reset(&self) {
        self.0.iter().for_each(AtomicMoments::reset);
    }
}

/// Sizes of encoded packets: the last, the smallest and the largest. Source: BufferStats.
#[derive(Debug)]
pub struct BufferStats {
    last: AtomicI64,
    extremes: Shards<Extremes>,
}

impl BufferStats {
    /// Empty, for about as many writing threads as `shards`.
    pub fn new(shards: usize) -> Self {
        Self {
            last: AtomicI64::new(-1),
            extremes: Shards::new(shards),
        }
    }

    /// Notes the size of a packet.
    pub fn record(&self, bytes: u32) {
        self.record_all(Sizes {
            last: bytes,
            min: bytes,
            max: bytes,
        });
    }

    /// Notes the sizes of several packets.
    pub(super) fn record_all(&self, sizes: Sizes) {
        self.last.store(i64::from(sizes.last), Ordering::Relaxed);
        let extremes = self.extremes.mine();
        extremes.record(u64::from(sizes.min));
        extremes.record(u64::from(sizes.max));
    }

    /// The sizes since the last reset.
    pub fn get(&self) -> BufferSizes {
        let last = self.last.load(Ordering::Relaxed);
        let mut sizes = BufferSizes {
            last,
            ..BufferSizes::NONE
        };
        for cell in self.extremes.iter() {
            let min = cell.min.load(Ordering::Relaxed);
            if min == u64::MAX {
                continue;
            }
            let min = min.cast_signed();
            sizes.min = if sizes.min < 0 {
                min
            } else {
                sizes.min.min(min)
            };
            sizes.max = sizes
                .max
                .max(cell.max.load(Ordering::Relaxed).cast_signed());
        }
        sizes
    }

    /// Forgets every size.
    pub fn reset(&self) {
        self.last.store(-1, Ordering::Relaxed);
        self.extremes.iter().for_each(Extremes::reset);
    }
}

/// Sizes in bytes; -1 each before the first packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferSizes {
    /// Of the latest packet.
    pub last: i64,
    /// Of the smallest.
    pub min: i64,
    /// Of the largest.
    pub max: i64,
}

impl BufferSizes {
    /// No packet yet.
    pub const NONE: Self = Self {
        last: -1,
        min: -1,
        max: -1,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_summary_is_all_zeros() {
        let moments = Summary::new(2).get();
        assert_eq!(
            (moments.count, moments.sum, moments.min(), moments.max()),
            (0, 0, 0, 0)
        );
        assert_eq!(moments.average().to_string(), "0.0");
    }

    #[test]
    fn average_is_rounded_half_up_to_four_decimals() {
        for (values, text) in [
            (vec![26], "26.0"),
            (vec![1, 2, 2], "1.6667"),
            ([vec![0; 31], vec![1]].concat(), "0.0313"),
            (vec![20_000_000], "2.0E7"),
            ([vec![0; 9_999], vec![1]].concat(), "1.0E-4"),
        ] {
            let mut moments = Moments::default();
            values.iter().for_each(|value| moments.record(*value));
            assert_eq!(moments.average().to_string(), text);
        }
    }

    #[test]
    fn summary_sees_the_values_of_all_threads() {
        let summary = Summary::new(4);
        std::thread::scope(|scope| {
            for base in [10, 20, 30] {
                let summary = &summary;
                scope.spawn(move || (0..10).for_each(|i| summary.record(base + i)));
            }
        });
        let moments = summary.get();
        assert_eq!((moments.count, moments.sum), (30, 735));
        assert_eq!((moments.min(), moments.max()), (10, 39));
        summary.reset();
        assert_eq!(summary.get(), Moments::default());
    }

    #[test]
    fn buffer_sizes_start_at_minus_one_and_return_there() {
        let stats = BufferStats::new(2);
        assert_eq!(stats.get(), BufferSizes::NONE);
        [94, 48, 60]
            .into_iter()
            .for_each(|bytes| stats.record(bytes));
        assert_eq!(
            stats.get(),
            BufferSizes {
                last: 60,
                min: 48,
                max: 94
            }
        );
        stats.reset();
        assert_eq!(stats.get(), BufferSizes::NONE);
    }
}
