//! Quotas: limits and usage of subtrees, stored in znodes below `/zookeeper/quota`.
//!
//! The path of a znode `zookeeper_limits`, relative to `/zookeeper/quota`, is a quota root. A
//! change at or below a root rewrites the data of the root's `zookeeper_stats` in place, without a
//! transaction or a watch. Source: DataTree, Quotas, StatsTrack.

mod report;
mod roots;
mod stats;

pub use report::QuotaReport;
pub(crate) use roots::QuotaRoots;
pub(crate) use stats::{ExceededLimit, Stats, Usage};

use crate::path;

/// Name of the znode that contains the limits.
const LIMITS: &str = "zookeeper_limits";
/// Name of the znode that contains the usage.
const STATS: &str = "zookeeper_stats";

/// A limits or usage znode below `/zookeeper/quota`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuotaNode<'a> {
    /// The limits of the quota for this path.
    Limits(&'a str),
    /// The usage of the quota for this path.
    Stats(&'a str),
}

impl<'a> QuotaNode<'a> {
    /// Returns which quota the znode at `node_path` belongs to; `None` if it is not a limits or
    /// usage znode. The root cannot have a quota.
    pub(crate) fn of(node_path: &'a str) -> Option<Self> {
        let below = node_path.strip_prefix(path::QUOTA)?;
        let (root, name) = below.rsplit_once('/')?;
        if root.is_empty() {
            return None;
        }
        match name {
            LIMITS => Some(Self::Limits(root)),
            STATS => Some(Self::Stats(root)),
            _ => None,
        }
    }
}

/// Returns the path of the znode that contains the limits of `root`.
pub(crate) fn limits_path(root: &str) -> String {
    [path::QUOTA, root, "/", LIMITS].concat()
}

/// Returns the path of the znode that contains the usage of `root`.
pub(crate) fn stats_path(root: &str) -> String {
    [path::QUOTA, root, "/", STATS].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_two_names_below_a_root_have_a_meaning() {
        let of = QuotaNode::of;
        assert_eq!(
            of("/zookeeper/quota/a/b/zookeeper_limits"),
            Some(QuotaNode::Limits("/a/b"))
        );
        assert_eq!(
            of("/zookeeper/quota/a/zookeeper_stats"),
            Some(QuotaNode::Stats("/a"))
        );
        assert_eq!(of("/zookeeper/quota/zookeeper_limits"), None);
        assert_eq!(of("/zookeeper/quota/a"), None);
        assert_eq!(of("/a/zookeeper_limits"), None);
        assert_eq!(stats_path("/a"), "/zookeeper/quota/a/zookeeper_stats");
        assert_eq!(limits_path("/a"), "/zookeeper/quota/a/zookeeper_limits");
    }
}
