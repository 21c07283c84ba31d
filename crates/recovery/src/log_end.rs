//! End of the log on disk, for readers that run concurrently with its writer.

use std::sync::atomic::Ordering;

use executor::sync::AtomicI64;
use proto::Zxid;

/// Last transaction in the log, or in the snapshot after which the log continues.
///
/// A transaction may be committed and applied before this member has written it, because other
/// members form a quorum. A reader must stop at this end, because a record that is being written
/// looks like corruption.
#[derive(Debug)]
pub struct LogEnd(AtomicI64);

impl LogEnd {
    /// Creates the end of a log that was just read.
    pub fn new(end: Zxid) -> Self {
        Self(AtomicI64::new(end.0))
    }

    /// Returns the zxid up to which the log can be read.
    pub fn get(&self) -> Zxid {
        Zxid(self.0.load(Ordering::Acquire))
    }

    /// Sets the end after a write or a truncation.
    pub(crate) fn set(&self, end: Zxid) {
        self.0.store(end.0, Ordering::Release);
    }
}
