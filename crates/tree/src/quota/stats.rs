//! Limits and usage of a subtree, and the check of the limits.
//!
//! Source: StatsTrack, ZooKeeperServer.checkQuota.

use proto::QuotaText;

/// Number of znodes and bytes of data in a subtree, or a change in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Usage {
    pub(crate) count: i64,
    pub(crate) bytes: i64,
}

/// Content of a limits or usage znode. A missing value is -1, which as a limit means no limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stats(pub(super) QuotaText);

impl Stats {
    const NONE: i64 = QuotaText::NONE;

    /// Creates the usage of a counted subtree.
    pub(crate) fn counted(usage: Usage) -> Self {
        Self(QuotaText::new(usage.count, usage.bytes))
    }

    /// Parses limits. If the data cannot be parsed, both limits are missing. (A Java server stops.)
    pub(crate) fn limits(data: Option<&[u8]>) -> Self {
        let none = || QuotaText::new(Self::NONE, Self::NONE);
        Self(QuotaText::parse(data).unwrap_or_else(none))
    }

    /// Parses usage. If the data cannot be parsed, the usage is 0.
    pub(crate) fn usage(data: Option<&[u8]>) -> Self {
        Self(QuotaText::parse(data).unwrap_or_else(|| QuotaText::new(0, 0)))
    }

    /// Returns the data to store.
    pub(crate) fn text(&self) -> String {
        self.0.to_string()
    }

    /// Returns the hard limit with this key if there is one, otherwise `soft`; `None` without a
    /// limit.
    pub(super) fn limit(&self, hard: &str, soft: i64) -> Option<i64> {
        let hard = Some(self.0.other(hard)).filter(|limit| *limit > Self::NONE);
        Some(hard.unwrap_or(soft)).filter(|limit| *limit > Self::NONE)
    }

    /// Adds a change to the usage.
    pub(crate) fn add(&mut self, change: Usage) {
        self.0.count = self.0.count.saturating_add(change.count);
        self.0.bytes = self.0.bytes.saturating_add(change.bytes);
    }

    /// Returns the kind of limit that `change` would exceed if added to the usage `used`. If both
    /// kinds would be exceeded, returns [`ExceededLimit::Hard`].
    pub(crate) fn broken_by(&self, used: &Self, change: Usage) -> Option<ExceededLimit> {
        let (limits, used) = (&self.0, &used.0);
        let hard = |key| limits.other(key);
        let count_hard = hard(QuotaText::COUNT_HARD);
        let count = check(used.count, change.count, count_hard, limits.count);
        let bytes_hard = || hard(QuotaText::BYTES_HARD);
        let bytes = || check(used.bytes, change.bytes, bytes_hard(), limits.bytes);
        match count {
            Some(ExceededLimit::Hard) => count,
            _ => bytes().max(count),
        }
    }
}

/// Kind of limit that is exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ExceededLimit {
    /// A soft limit that was not exceeded before this change. The server logs it.
    Soft,
    /// A hard limit. The server refuses the change.
    Hard,
}

/// Checks the hard limit if there is one, otherwise the soft limit.
fn check(used: i64, change: i64, hard: i64, soft: i64) -> Option<ExceededLimit> {
    let (limit, broken) = if hard > Stats::NONE {
        (hard, ExceededLimit::Hard)
    } else {
        (soft, ExceededLimit::Soft)
    };
    if change == 0 || limit <= Stats::NONE || used.saturating_add(change) <= limit {
        return None;
    }
    // An exceeded soft limit is logged only once, not for every change.
    let is_news = broken == ExceededLimit::Hard || used <= limit;
    is_news.then_some(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_text_is_no_limit_and_no_usage() {
        assert_eq!(Stats::limits(Some(&[0xff])).text(), "count=-1,bytes=-1");
        assert_eq!(Stats::usage(Some(b"x")).text(), "count=0,bytes=0");
    }

    #[test]
    fn a_hard_limit_hides_the_soft_one() {
        let limits = Stats::limits(Some(b"count=1,bytes=5=;countHardLimit=3"));
        let used = Stats::usage(Some(b"count=2,bytes=5"));
        let change = |count, bytes| limits.broken_by(&used, Usage { count, bytes });
        assert_eq!(change(1, 0), None);
        assert_eq!(change(2, 0), Some(ExceededLimit::Hard));
        assert_eq!(change(1, 1), Some(ExceededLimit::Soft));
        assert_eq!(change(0, -1), None);
        assert_eq!(change(0, 0), None);
    }

    #[test]
    fn usage_does_not_overflow() {
        let mut used = Stats::usage(Some(b"count=9223372036854775807,bytes=0"));
        used.add(Usage {
            count: 1,
            bytes: -1,
        });
        assert_eq!(used.text(), "count=9223372036854775807,bytes=-1");
    }
}
