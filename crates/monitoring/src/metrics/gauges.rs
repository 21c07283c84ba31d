//! Metrics that are read off the server's state when somebody asks.

use std::collections::BTreeMap;
use std::fmt;

use tree::QuotaReport;

use super::process::Descriptors;
use super::server_stats::ServerFigures;
use super::text::Decimal;
use crate::role::{LeaderFigures, RoleView};

/// What gauges are computed from.
#[derive(Debug)]
pub struct Gauges<'a> {
    /// The role.
    pub role: &'a RoleView,
    /// Of a leader.
    pub leader: Option<LeaderFigures>,
    /// What the server counted.
    pub server: ServerFigures,
    /// What it holds.
    pub state: State,
    /// Of its process.
    pub descriptors: Descriptors,
    /// Quotas and their use.
    pub quotas: &'a [NamespaceQuota],
}

/// What a server holds at the moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct State {
    /// Requests under way.
    pub outstanding_requests: u64,
    /// Open client connections, those of four-letter words included.
    pub connections: u64,
    /// Znodes.
    pub znode_count: u64,
    /// Watches.
    pub watch_count: u64,
    /// Ephemeral znodes.
    pub ephemerals_count: u64,
    /// Bytes of paths and data.
    pub approximate_data_size: u64,
    /// Sessions the ensemble knows.
    pub global_sessions: u64,
    /// Sessions only this server knows.
    pub local_sessions: u64,
    /// TLS handshakes in progress.
    pub outstanding_tls_handshakes: u64,
    /// Of connection throttling, 0 to 1.
    pub connection_drop_probability: f64,
}

/// A quota below a namespace; those of one namespace are shown as their sum.
/// Source: QuotaMetricsUtils.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceQuota {
    /// First element of the path, without the slash.
    pub namespace: String,
    /// Znodes allowed: the hard limit, or the soft one if there is none; Java shows -1 for none.
    pub count_limit: Option<i64>,
    /// Bytes allowed, likewise.
    pub bytes_limit: Option<i64>,
    /// Znodes counted.
    pub count_usage: Option<i64>,
    /// Bytes counted.
    pub bytes_usage: Option<i64>,
}

impl From<QuotaReport> for NamespaceQuota {
    fn from(quota: QuotaReport) -> Self {
        let names = quota.path.trim_start_matches('/');
        Self {
            namespace: names.split('/').next().unwrap_or_default().to_owned(),
            count_limit: quota.count_limit,
            bytes_limit: quota.bytes_limit,
            count_usage: Some(quota.count),
            bytes_usage: Some(quota.bytes),
        }
    }
}

impl Gauges<'_> {
    pub(super) fn quota(
        &self,
        figure: fn(&NamespaceQuota) -> Option<i64>,
    ) -> BTreeMap<String, Number> {
        let mut sums = BTreeMap::<_, i64>::new();
        for quota in self.quotas {
            if let Some(figure) = figure(quota) {
                let sum = sums.entry(quota.namespace.clone()).or_default();
                *sum = sum.saturating_add(figure);
            }
        }
        sums.into_iter()
            .map(|(namespace, sum)| (namespace, sum.into()))
            .collect()
    }
}

/// A gauge that its role shows.
pub(super) fn shown(number: impl Into<Number>) -> Option<Number> {
    Some(number.into())
}

/// The value of a gauge or a counter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// Printed plain.
    Integer(i64),
    /// Printed with decimals.
    Decimal(Decimal),
}

impl From<i64> for Number {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<u64> for Number {
    /// A count beyond 2^63 is shown as that: readers know 64 bits with a sign.
    fn from(number: u64) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<f64> for Number {
    fn from(number: f64) -> Self {
        Self::Decimal(Decimal(number))
    }
}

impl From<Decimal> for Number {
    fn from(number: Decimal) -> Self {
        Self::Decimal(number)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => number.fmt(f),
            Self::Decimal(number) => number.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_counts_for_the_first_element_of_its_path() {
        let report = |path: &str| QuotaReport {
            path: path.to_owned(),
            count_limit: Some(5),
            bytes_limit: None,
            count: 3,
            bytes: 70,
        };
        let quota = NamespaceQuota::from(report("/app/locks"));
        assert_eq!((&*quota.namespace, quota.count_limit), ("app", Some(5)));
        assert_eq!((quota.count_usage, quota.bytes_limit), (Some(3), None));
        assert_eq!(quota.bytes_usage, Some(70));
        assert_eq!(NamespaceQuota::from(report("/")).namespace, "");
    }
}
