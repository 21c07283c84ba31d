//! Enforcement of hard quotas.
//!
//! Only applied transactions count as usage. As in Java (ZooKeeperServer.checkQuota), writes in
//! flight and the preceding operations in a multi are not included.

use proto::ErrorCode;

use super::Preparation;
use crate::quota::{ExceededLimit, Stats, Usage, limits_path, stats_path};
use crate::tree::data_len;

impl Preparation<'_> {
    pub(super) fn check_quota_of_create(
        &self,
        path: &str,
        data: Option<&[u8]>,
    ) -> Result<(), ErrorCode> {
        let bytes = data_len(data);
        self.check_quota(path, Usage { count: 1, bytes })
    }

    pub(super) fn check_quota_of_change(&self, path: &str, bytes: i64) -> Result<(), ErrorCode> {
        self.check_quota(path, Usage { count: 0, bytes })
    }

    fn check_quota(&self, path: &str, change: Usage) -> Result<(), ErrorCode> {
        let tree = self.tree;
        if !tree.settings.enforce_quota {
            return Ok(());
        }
        let Some(root) = tree.quota_roots.deepest(path) else {
            return Ok(());
        };
        let node = |path: String| tree.lookup(&path).map(|id| &tree.arena[id]);
        let (Some(limits), Some(used)) = (node(limits_path(root)), node(stats_path(root))) else {
            return Ok(());
        };
        let limits = Stats::limits(limits.body.data());
        let used = Stats::usage(used.body.data());
        match limits.broken_by(&used, change) {
            Some(ExceededLimit::Hard) => Err(ErrorCode::QuotaExceeded),
            Some(ExceededLimit::Soft) => {
                log_limiter::limited!(
                    warn,
                    path = root,
                    usage = used.text(),
                    "a soft quota is exceeded"
                );
                Ok(())
            }
            None => Ok(()),
        }
    }
}
