//! Quotas for metrics.

use proto::QuotaText;

use super::{Stats, limits_path, stats_path};
use crate::Tree;

/// A quota and its usage. Source: QuotaMetricsUtils.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaReport {
    /// Path of the quota.
    pub path: String,
    /// Maximum number of znodes: the hard limit if there is one, otherwise the soft limit.
    pub count_limit: Option<i64>,
    /// Maximum size of data: the hard limit if there is one, otherwise the soft limit, bytes.
    pub bytes_limit: Option<i64>,
    /// Current number of znodes.
    pub count: i64,
    /// Current size of data, bytes.
    pub bytes: i64,
}

impl Tree {
    /// Returns all quotas in unspecified order.
    pub fn quotas(&self) -> Vec<QuotaReport> {
        self.quota_roots
            .iter()
            .map(|root| self.quota_of(root))
            .collect()
    }

    fn quota_of(&self, root: &str) -> QuotaReport {
        let limits = Stats::limits(self.data_of(&limits_path(root)));
        let usage = Stats::usage(self.data_of(&stats_path(root)));
        QuotaReport {
            path: root.to_owned(),
            count_limit: limits.limit(QuotaText::COUNT_HARD, limits.0.count),
            bytes_limit: limits.limit(QuotaText::BYTES_HARD, limits.0.bytes),
            count: usage.0.count,
            bytes: usage.0.bytes,
        }
    }

    fn data_of(&self, path: &str) -> Option<&[u8]> {
        self.arena[self.lookup(path)?].body.data()
    }
}
