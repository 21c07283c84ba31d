//! Metrics that are computed from the server's state when they are requested.

use std::collections::BTreeMap;
use std::fmt;

use tree::QuotaReport;

use super::text::Decimal;
use crate::counters::server_stats::ServerFigures;
use crate::process::figures::Descriptors;
use crate::role::view::{LeaderFigures, RoleView};

/// Input for the computation of gauges.
#[derive(Debug)]
pub struct Gauges<'a> {
    /// Current role.
    pub role: &'a RoleView,
    /// Figures of a leader; `None` if this server does not lead.
    pub leader: Option<LeaderFigures>,
    /// Counters of the server.
    pub server: ServerFigures,
    /// Current resources of the server.
    pub state: ServerGauges,
    /// File descriptors of the process.
    pub descriptors: Descriptors,
    /// Quotas and their usage.
    pub quotas: &'a [NamespaceQuota],
}

/// Current resources of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ServerGauges {
    /// Number of requests in progress.
    pub outstanding_requests: u64,
    /// Number of open client connections, including connections for four-letter words.
    pub connections: u64,
    /// Number of znodes.
    pub znode_count: u64,
    /// Number of watches.
    pub watch_count: u64,
    /// Number of ephemeral znodes.
    pub ephemerals_count: u64,
    /// Size of paths and data, bytes.
    pub approximate_data_size: u64,
    /// Number of sessions that the ensemble knows.
    pub global_sessions: u64,
    /// Number of sessions that only this server knows.
    pub local_sessions: u64,
    /// Number of TLS handshakes in progress.
    pub outstanding_tls_handshakes: u64,
    /// Drop probability of connection throttling, from 0 to 1.
    pub connection_drop_probability: f64,
}

/// A quota on a path in a namespace. The quotas in one namespace are shown as their sum. Source:
/// QuotaMetricsUtils.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceQuota {
    /// First element of the path, without the slash.
    pub namespace: String,
    /// Limit on the number of znodes: the hard limit or, if it is not set, the soft limit. `None`
    /// if neither is set, in which case Java shows -1.
    pub count_limit: Option<i64>,
    /// Limit on the size, determined like `count_limit`, bytes.
    pub bytes_limit: Option<i64>,
    /// Number of znodes.
    pub count_usage: Option<i64>,
    /// Number of bytes.
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

/// Converts the value of a gauge that the server shows. A gauge that the server does not show is
/// `None`.
pub(super) fn shown(number: impl Into<Number>) -> Option<Number> {
    Some(number.into())
}

/// Value of a gauge or a counter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// Integer.
    Integer(i64),
    /// Number with decimals.
    Decimal(Decimal),
}

impl From<i64> for Number {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<u64> for Number {
    /// Converts a count. Counts above 2^63-1 saturate, because readers expect signed 64-bit
    /// numbers.
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
