//! Count, sum, minimum and maximum of the values of a metric.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::shards::Shards;
use crate::table::text::Decimal;

/// Number of slots of the distribution, one per power of two. A median is thus correct within a
/// factor of two. Values from 2^30 on share the last slot.
const POWERS: usize = 32;

/// Returns the slot of a value: 0 for the value 0, and `n` for values from `2^(n-1)` to `2^n - 1`.
/// Larger values have the last slot.
fn power_of(value: u64) -> usize {
    let bits = u64::BITS - value.leading_zeros();
    usize::try_from(bits).map_or(POWERS - 1, |bits| bits.min(POWERS - 1))
}

/// Summary of recorded values, with a coarse distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moments {
    /// Number of values.
    pub count: u64,
    /// Sum of the values.
    pub sum: u64,
    min: u64,
    max: u64,
    /// Number of values per slot. All are 0 if the distribution is stored elsewhere.
    powers: [u64; POWERS],
}

impl Default for Moments {
    fn default() -> Self {
        Self {
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
            powers: [0; POWERS],
        }
    }
}

impl Moments {
    /// Adds a value.
    pub fn record(&mut self, value: u64) {
        self.count = self.count.wrapping_add(1);
        self.sum = self.sum.wrapping_add(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        if let Some(power) = self.powers.get_mut(power_of(value)) {
            *power += 1;
        }
    }

    /// Returns a value that about half of all values do not exceed, within a factor of two. Returns
    /// `None` without values.
    pub fn median(&self) -> Option<u64> {
        let total: u64 = self.powers.iter().sum();
        let rank = total.div_ceil(2);
        let mut before = 0;
        for (power, count) in self.powers.iter().enumerate() {
            if *count > 0 && before + count >= rank {
                if power == POWERS - 1 {
                    return Some(self.max);
                }
                let from = if power == 0 { 0 } else { 1_u64 << (power - 1) };
                // This assumes that the values in a slot are evenly distributed.
                let width = u128::from(from);
                let within = width * u128::from(rank - before - 1) / u128::from(*count);
                let value = from + u64::try_from(within).unwrap_or(0);
                return Some(value.clamp(self.min(), self.max));
            }
            before += count;
        }
        None
    }

    /// Returns, for each of these increasing bounds, the number of values that do not exceed the
    /// bound. All values between two powers of two count as the value in their middle.
    pub fn up_to(&self, bounds: &[u64]) -> Vec<u64> {
        let mut counts = vec![0; bounds.len()];
        for (power, count) in self.powers.iter().enumerate() {
            let from = (1_u64 << power) >> 1;
            let middle = from + from / 2;
            let first = bounds.partition_point(|bound| *bound < middle);
            counts.iter_mut().skip(first).for_each(|sum| *sum += count);
        }
        counts
    }

    /// Adds the values of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.count = self.count.wrapping_add(other.count);
        self.sum = self.sum.wrapping_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        for (power, more) in self.powers.iter_mut().zip(&other.powers) {
            *power += more;
        }
    }

    /// Returns the minimum, or 0 without values.
    pub fn min(&self) -> u64 {
        if self.min == u64::MAX { 0 } else { self.min }
    }

    /// Returns the maximum, or 0 without values.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the mean, rounded half up to four decimals, or 0 without values. Source:
    /// AvgMinMaxCounter.
    pub fn average(&self) -> Decimal {
        let count = u128::from(self.count);
        if count == 0 {
            return Decimal(0.0);
        }
        let ten_thousandths = (u128::from(self.sum) * 20_000 + count) / (2 * count);
        Decimal(ten_thousandths as f64 / 10_000.0)
    }
}

/// [`Moments`] that any thread can update.
#[derive(Debug, Default)]
struct AtomicMoments {
    powers: [AtomicU64; POWERS],
    total: Total,
}

impl AtomicMoments {
    fn record(&self, value: u64, times: u64) {
        // The count is not stored, because it is the sum of the slots.
        if let Some(power) = self.powers.get(power_of(value)) {
            power.fetch_add(times, Ordering::Relaxed);
        }
        self.total.record(value, times);
    }

    fn get(&self) -> Moments {
        let powers = std::array::from_fn(|power| {
            let count = self.powers.get(power);
            count.map_or(0, |count| count.load(Ordering::Relaxed))
        });
        Moments {
            powers,
            ..self.total.moments(powers.iter().sum())
        }
    }

    fn reset(&self) {
        let powers = self.powers.iter();
        powers.for_each(|count| count.store(0, Ordering::Relaxed));
        self.total.reset();
    }
}

/// [`Moments`] without the count and the distribution.
#[derive(Debug, Default)]
pub(crate) struct Total {
    sum: AtomicU64,
    extremes: Extremes,
}

impl Total {
    /// Adds a value that occurred `times` times.
    pub(crate) fn record(&self, value: u64, times: u64) {
        // Most latencies are 0 ms, and an atomic addition costs more than this check.
        if value != 0 {
            self.sum
                .fetch_add(value.wrapping_mul(times), Ordering::Relaxed);
        }
        self.extremes.record(value);
    }

    pub(crate) fn moments(&self, count: u64) -> Moments {
        Moments {
            count,
            sum: self.sum.load(Ordering::Relaxed),
            min: self.extremes.min.load(Ordering::Relaxed),
            max: self.extremes.max.load(Ordering::Relaxed),
            powers: [0; POWERS],
        }
    }

    pub(crate) fn reset(&self) {
        self.sum.store(0, Ordering::Relaxed);
        self.extremes.reset();
    }
}

/// Minimum and maximum.
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
        // A load is much cheaper than a fetch_min, and few values change the minimum or maximum.
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

/// Basic summary: average, minimum, maximum, count and sum of the values since the last reset.
#[derive(Debug)]
pub struct Summary(Shards<AtomicMoments>);

impl Summary {
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
        if times > 0 {
            self.0.own_shard().record(value, times);
        }
    }

    /// Returns the values since the last reset.
    pub fn get(&self) -> Moments {
        let mut all = Moments::default();
        self.0.iter().for_each(|cell| all.merge(&cell.get()));
        all
    }

    /// Removes all values.
    pub fn reset(&self) {
        self.0.iter().for_each(AtomicMoments::reset);
    }
}

/// Last, smallest and largest size of several packets, bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) last: u32,
    pub(crate) min: u32,
    pub(crate) max: u32,
}

/// Sizes of encoded packets: last, minimum and maximum. Source: BufferStats.
#[derive(Debug)]
pub struct BufferStats {
    last: AtomicI64,
    extremes: Shards<Extremes>,
}

impl BufferStats {
    /// Creates empty statistics for about `shards` writing threads.
    pub fn new(shards: usize) -> Self {
        Self {
            last: AtomicI64::new(-1),
            extremes: Shards::new(shards),
        }
    }

    /// Records the size of a packet.
    pub fn record(&self, bytes: u32) {
        self.record_all(Sizes {
            last: bytes,
            min: bytes,
            max: bytes,
        });
    }

    /// Records the sizes of several packets.
    pub(crate) fn record_all(&self, sizes: Sizes) {
        self.last.store(i64::from(sizes.last), Ordering::Relaxed);
        let extremes = self.extremes.own_shard();
        extremes.record(u64::from(sizes.min));
        extremes.record(u64::from(sizes.max));
    }

    /// Returns the sizes since the last reset.
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

    /// Removes all sizes.
    pub fn reset(&self) {
        self.last.store(-1, Ordering::Relaxed);
        self.extremes.iter().for_each(Extremes::reset);
    }
}

/// Sizes, bytes. All are -1 before the first packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferSizes {
    /// Size of the last packet.
    pub last: i64,
    /// Size of the smallest packet.
    pub min: i64,
    /// Size of the largest packet.
    pub max: i64,
}

impl BufferSizes {
    /// Values before the first packet.
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
    fn values_are_counted_up_to_bounds_within_a_doubling() {
        let summary = Summary::new(2);
        for value in [0, 1, 1, 5, 100, u64::MAX] {
            summary.record(value);
        }
        assert_eq!(summary.get().up_to(&[0, 1, 3, 6, 1000]), [1, 3, 3, 4, 5]);
        assert_eq!(Moments::default().up_to(&[7]), [0]);
    }

    #[test]
    fn a_median_is_right_within_a_doubling() {
        assert_eq!(Moments::default().median(), None);
        for values in [
            vec![0],
            vec![7],
            vec![0, 0, 9],
            vec![3, 3, 3, 100],
            (1..1000).collect(),
        ] {
            let summary = Summary::new(2);
            values.iter().for_each(|value| summary.record(*value));
            let mut sorted: Vec<u64> = values.clone();
            sorted.sort_unstable();
            let exact = sorted[(sorted.len() - 1) / 2];
            let median = summary.get().median().expect("values");
            let is_near = median <= 2 * exact && exact <= 2 * median;
            assert!(is_near, "{values:?}: {median} and not {exact}");
        }
        let summary = Summary::new(1);
        summary.record(u64::MAX);
        assert_eq!(summary.get().median(), Some(u64::MAX));
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
