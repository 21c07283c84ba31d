//! Reading the transaction log for a learner that has missed more than memory holds.

use hosting::log_records;
use jute::Limits;
use proto::Zxid;
use storage::{DataDirs, LogPages, RealDisk};
use zab::Record;

pub(super) use storage::Unusable;

use crate::limits;

static DISK: RealDisk = RealDisk;

/// A place in the log.
pub(super) type LogCursor = storage::LogCursor<'static, RealDisk>;

/// The log, and how much of it is worth reading.
#[derive(Debug, Clone)]
pub(super) struct LogAccess {
    pub(super) dirs: DataDirs,
    pub(super) limits: Limits,
    /// `zookeeper.snapshotSizeFactor`, see [`LogPages::size_factor`].
    pub(super) size_factor: f64,
}

impl LogAccess {
    /// A page of it, see [`LogPages::page`].
    ///
    /// # Errors
    /// If there is no such record, they are too many, or the log is damaged.
    pub(super) fn page(
        &self,
        cursor: &mut Option<LogCursor>,
        from: Zxid,
        upto: Zxid,
    ) -> Result<Vec<Record>, Unusable> {
        let pages = LogPages {
            disk: &DISK,
            dirs: self.dirs.clone(),
            limits: self.limits,
            size_factor: self.size_factor,
            page_bytes: limits::LOG_PAGE_BYTES,
        };
        log_records(&pages, cursor, from, upto)
    }
}
