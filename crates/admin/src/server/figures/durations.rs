//! Durations of one kind of event, and their percentiles between two samples.

use metrics::{Distribution, Moments};

/// Bounds up to which durations are counted, in ms.
const BOUNDS: [u64; 40] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 100, 125, 160,
    200, 250, 320, 400, 500, 640, 800, 1_000, 1_500, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000,
];

/// Durations since the start of this server, or since an earlier sample.
#[derive(Debug, Clone)]
pub(super) struct Durations {
    pub(super) count: u64,
    sum_ms: u64,
    /// Numbers of durations up to each of the [`BOUNDS`].
    up_to: Vec<u64>,
}

impl Durations {
    pub(super) fn of(distribution: &Distribution) -> Self {
        Self {
            count: distribution.moments().count,
            sum_ms: distribution.moments().sum,
            up_to: distribution.up_to(&BOUNDS),
        }
    }

    pub(super) fn of_moments(moments: &Moments) -> Self {
        Self {
            count: moments.count,
            sum_ms: moments.sum,
            up_to: moments.up_to(&BOUNDS),
        }
    }

    pub(super) fn since(&self, before: &Self) -> Self {
        if self.count < before.count {
            return self.clone();
        }
        let counts = self.up_to.iter().zip(&before.up_to);
        Self {
            count: self.count - before.count,
            sum_ms: self.sum_ms.saturating_sub(before.sum_ms),
            up_to: counts
                .map(|(now, before)| now.saturating_sub(*before))
                .collect(),
        }
    }

    pub(super) fn mean(&self) -> f64 {
        // Without a value, the mean is missing (NaN).
        self.sum_ms as f64 / self.count as f64
    }

    /// Returns the smallest bound that at least this fraction of the durations does not exceed, in
    /// ms. Returns NaN without a duration.
    pub(super) fn quantile(&self, fraction: f64) -> f64 {
        if self.count == 0 {
            return f64::NAN;
        }
        let rank = fraction * self.count as f64;
        let found = self.up_to.iter().position(|count| *count as f64 >= rank);
        let bound = found.and_then(|at| BOUNDS.get(at)).or(BOUNDS.last());
        bound.map_or(f64::NAN, |bound| *bound as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_cover_the_time_since_the_last_sample() {
        let mut distribution = Distribution::default();
        (0..100).for_each(|_| distribution.record(500));
        let before = Durations::of(&distribution);
        for _ in 0..98 {
            distribution.record(3);
        }
        distribution.record(40);
        distribution.record(40);
        let since = Durations::of(&distribution).since(&before);
        assert_eq!((since.quantile(0.5), since.quantile(0.99)), (3.0, 40.0));
        assert_eq!((since.count, since.mean()), (100, 3.74));
        let none = before.since(&before);
        assert!(none.mean().is_nan() && none.quantile(0.99).is_nan());
        // After a reset, only the values since the reset count.
        assert_eq!(before.since(&Durations::of(&distribution)).count, 100);
    }
}
