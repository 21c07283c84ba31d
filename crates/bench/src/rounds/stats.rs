//! Statistics of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use client::Code;
use hdrhistogram::Histogram;

/// Maximum latency in the histogram. Longer latencies are recorded as this latency.
const LATENCY_MAX: Duration = Duration::from_secs(120);
/// Number of significant decimal digits of a latency.
const PRECISION: u8 = 3;

/// Latencies of successful operations, and numbers of refused operations, lost sessions and
/// unanswered requests.
#[derive(Debug, Clone)]
pub(crate) struct Stats {
    /// Latency of successful operations, in ns.
    latency: Histogram<u64>,
    /// Number of refused operations, by error code.
    pub(crate) refused: BTreeMap<i32, u64>,
    /// Number of sessions with a lost connection, by reason.
    pub(crate) lost: BTreeMap<String, u64>,
    /// Number of requests that were pending on the lost connections.
    pub(crate) unanswered: u64,
}

impl Stats {
    pub(crate) fn new() -> Self {
        let max_ns = u64::try_from(LATENCY_MAX.as_nanos()).unwrap_or(u64::MAX);
        let latency = Histogram::new_with_bounds(1, max_ns, PRECISION);
        Self {
            latency: latency.expect("the bounds are constants that a histogram takes"),
            refused: BTreeMap::new(),
            lost: BTreeMap::new(),
            unanswered: 0,
        }
    }

    #[inline]
    pub(crate) fn record(&mut self, latency_ns: u64, count: u64) {
        self.latency.saturating_record_n(latency_ns.max(1), count);
    }

    pub(crate) fn refuse(&mut self, code: i32) {
        *self.refused.entry(code).or_default() += 1;
    }

    pub(crate) fn note_lost(&mut self, what: String, unanswered: u64) {
        *self.lost.entry(what).or_default() += 1;
        self.unanswered += unanswered;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        // The addition cannot fail, because both histograms have the same bounds.
        let _ = self.latency.add(&other.latency);
        for (code, count) in &other.refused {
            *self.refused.entry(*code).or_default() += count;
        }
        for (what, count) in &other.lost {
            *self.lost.entry(what.clone()).or_default() += count;
        }
        self.unanswered += other.unanswered;
    }

    /// Returns the number of successful operations.
    pub(crate) fn ops(&self) -> u64 {
        self.latency.len()
    }

    pub(crate) fn mean(&self) -> Duration {
        Duration::from_secs_f64(self.latency.mean() / 1e9)
    }

    pub(crate) fn max(&self) -> Duration {
        Duration::from_nanos(if self.ops() == 0 {
            0
        } else {
            self.latency.max()
        })
    }

    /// Returns the latency within which `percent` of the operations completed.
    pub(crate) fn percentile(&self, percent: f64) -> Duration {
        Duration::from_nanos(self.latency.value_at_percentile(percent))
    }

    /// Returns whether every operation succeeded.
    pub(crate) fn is_clean(&self) -> bool {
        self.refused.is_empty() && self.lost.is_empty()
    }

    /// Returns the failures, one per line.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let refused = self
            .refused
            .iter()
            .map(|(code, count)| format!("failed operations: {count}, error: {}", Code(*code)));
        let lost = self
            .lost
            .iter()
            .map(|(what, count)| format!("lost sessions: {count}, reason: {what}"));
        let unanswered = (self.unanswered > 0)
            .then(|| format!("operations without a reply: {}", self.unanswered));
        refused.chain(lost).chain(unanswered).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_all_sessions_together() {
        let mut one = Stats::new();
        let mut two = Stats::new();
        one.record(1_000_000, 99);
        two.record(50_000_000, 1);
        one.add(&two);
        let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
        assert_eq!(one.ops(), 100);
        assert!((millis(one.percentile(99.0)) - 1.0).abs() < 0.01);
        assert!((millis(one.percentile(99.9)) - 50.0).abs() < 0.5);
        assert!((millis(one.max()) - 50.0).abs() < 0.5);
        assert!((millis(one.mean()) - 1.49).abs() < 0.01);
    }

    #[test]
    fn without_samples_no_figures_are_reported() {
        let empty = Stats::new();
        assert_eq!((empty.ops(), empty.max()), (0, Duration::ZERO));
        assert!(empty.is_clean());
    }

    #[test]
    fn complaints_name_codes_and_losses() {
        let mut stats = Stats::new();
        stats.refuse(-101);
        stats.refuse(-101);
        stats.note_lost("closed by the server".to_owned(), 16);
        assert!(!stats.is_clean());
        assert_eq!(
            stats.complaints(),
            [
                "failed operations: 2, error: NoNode (-101)",
                "lost sessions: 1, reason: closed by the server",
                "operations without a reply: 16",
            ]
        );
    }
}
