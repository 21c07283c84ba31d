//! Settings of a history, and the names of its files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::files::rows::index_exists;
use crate::limits::Shape;
use crate::recording::filter::PathFilter;

/// Directory with the rows of the index.
pub(crate) const ROWS_DIR: &str = "index";

pub(crate) fn run_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("run.{number:x}"))
}

pub(crate) fn base_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("base.{number:x}"))
}

/// Settings of a history.
#[derive(Debug, Clone)]
pub struct IndexSettings {
    /// Directory of the history.
    pub dir: PathBuf,
    /// Filter for the recorded paths.
    pub filter: PathFilter,
    /// Size of data or of an ACL above which only its size and hash are stored, bytes.
    pub content_bytes_max: usize,
    /// Disk usage above which the oldest changes are dropped, bytes; 0 for no limit.
    pub bytes_max: u64,
    /// Age above which changes are dropped, ms; 0 for no limit.
    pub age_ms_max: i64,
    /// Sizes of blocks, runs and files.
    pub shape: Shape,
    /// Callback for yielding the processor.
    pub yield_hook: YieldHook,
}

/// A callback that is invoked regularly during long work, so that other threads can use the
/// processor.
#[derive(Clone)]
pub struct YieldHook(Arc<dyn Fn() + Send + Sync>);

impl YieldHook {
    /// Creates an instance from the callback, which should be cheap.
    pub fn new(what: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(what))
    }

    pub(crate) fn now(&self) {
        (self.0)();
    }
}

/// Creates an instance that does not yield.
impl Default for YieldHook {
    fn default() -> Self {
        Self::new(|| ())
    }
}

impl std::fmt::Debug for YieldHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GiveWay")
    }
}

impl IndexSettings {
    /// Returns settings that record all paths and keep everything.
    pub fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_path_buf(),
            filter: PathFilter::default(),
            content_bytes_max: 1 << 20,
            bytes_max: 0,
            age_ms_max: 0,
            shape: Shape::default(),
            yield_hook: YieldHook::default(),
        }
    }

    /// Returns whether the directory contains a history, valid or not.
    pub fn exists(&self) -> bool {
        index_exists(&self.dir.join(ROWS_DIR))
    }

    /// Returns the size of a file of changes, bytes. Old changes are dropped as whole files, so the
    /// files are small if `bytes_max` is small.
    pub(crate) fn segment_bytes(&self) -> u64 {
        let most = self.shape.segment_bytes;
        match self.bytes_max {
            0 => most,
            max => (max / 16).clamp(most.min(64 << 10), most),
        }
    }
}
