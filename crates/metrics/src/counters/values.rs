//! Values of a summary, collected in batches.

use super::percentiles::Percentiles;

/// Limit below which each value has a counter. Other values are rare and are listed one by one.
const SMALL: usize = 16;

/// Values of a summary that are usually small: times in ms, or counts.
#[derive(Debug, Default)]
pub(crate) struct Values {
    small: [u32; SMALL],
    large: Vec<u64>,
}

impl Values {
    pub(crate) fn record(&mut self, value: u64) {
        let small = usize::try_from(value)
            .ok()
            .and_then(|value| self.small.get_mut(value));
        match small {
            Some(count) => *count += 1,
            None => self.large.push(value),
        }
    }

    /// Records the age of the timestamp `stamp_ms` at `now_ms`, in ms, unless the timestamp is in
    /// the future.
    pub(crate) fn record_age(&mut self, stamp_ms: i64, now_ms: i64) {
        if let Some(age_ms) = age(stamp_ms, now_ms) {
            self.record(age_ms);
        }
    }

    /// Transfers all values to the summary and clears them.
    pub(crate) fn hand_over(&mut self, to: &Percentiles) {
        for (value, times) in self.counts() {
            to.record_many(value, times);
        }
        self.small = Default::default();
        self.large.clear();
    }

    /// Returns each value with its number of occurrences. Equal large values are returned
    /// separately.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        let small = (0..)
            .zip(&self.small)
            .map(|(value, count)| (value, u64::from(*count)));
        let large = self.large.iter().map(|value| (*value, 1));
        small.filter(|(_, count)| *count > 0).chain(large)
    }
}

/// Returns the age of a timestamp in ms, or `None` if the timestamp is in the future.
pub(crate) fn age(stamp_ms: i64, now_ms: i64) -> Option<u64> {
    u64::try_from(now_ms.saturating_sub(stamp_ms)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_count() {
        let mut values = Values::default();
        [0, 3, 0, 15, 16, 16, u64::MAX]
            .into_iter()
            .for_each(|value| values.record(value));
        let counts: Vec<_> = values.counts().collect();
        assert_eq!(
            counts,
            [(0, 2), (3, 1), (15, 1), (16, 1), (16, 1), (u64::MAX, 1)]
        );
    }
}
