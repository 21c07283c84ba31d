//! Reads of the transaction log for a learner that lacks more transactions than memory contains.

use jute::Limits;
use storage::{DataDirs, LogPages, RealDisk};

use crate::limits;

static DISK: RealDisk = RealDisk;

/// Position in the log.
pub(crate) type LogCursor = storage::LogCursor<'static, RealDisk>;

/// Returns access to the log. `zookeeper.snapshotSizeFactor` limits the part of the log to read.
/// See [`LogPages::size_factor`].
pub(crate) fn log_pages(
    dirs: DataDirs,
    limits: Limits,
    size_factor: f64,
) -> LogPages<'static, RealDisk> {
    LogPages {
        disk: &DISK,
        dirs,
        limits,
        size_factor,
        page_bytes: limits::LOG_PAGE_BYTES,
    }
}
