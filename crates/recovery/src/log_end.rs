//! How far the log on disk goes, for whoever reads it beside its writer.

use std::sync::atomic::{AtomicI64, Ordering};

use proto::Zxid;

/// The last transaction that is in the log, or in the snapshot that it goes on from.
///
/// A transaction may be committed, and applied, before this member has written it: others make a
/// majority. What is just being written looks like damage to a reader.
#[derive(Debug)]
pub struct LogEnd(AtomicI64);

impl LogEnd {
    /// Of a log that was just read.
    pub fn new(end: Zxid) -> Self {
        Self(AtomicI64::new(end.0))
    }

    /// Up to here it can be read.
    pub fn get(&self) -> Zxid {
        Zxid(self.0.load(Ordering::Acquire))
    }

    /// It was written up to here, or cut behind it.
    pub(crate) fn set(&self, end: Zxid) {
        self.0.store(end.0, Ordering::Release);
    }
}
