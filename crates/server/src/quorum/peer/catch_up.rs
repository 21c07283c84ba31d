//! Reading the transaction log for a learner that has missed more than memory holds.

use jute::Limits;
use storage::{DataDirs, LogPages, RealDisk};

use crate::limits;

static DISK: RealDisk = RealDisk;

/// A place in the log.
pub(super) type LogCursor = storage::LogCursor<'static, RealDisk>;

/// The log, and how much of it is worth reading: `zookeeper.snapshotSizeFactor`, see
/// [`LogPages::size_factor`].
pub(super) fn log_pages(
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
