//! Data directories for the tests.

use std::path::Path;
use std::sync::Arc;

use recovery::recover_tree;
use storage::{DataDirs, RealDisk, Recovered, RecoverySettings, StorageError};
use tree::TreeSettings;

/// Recovers the tree of a directory.
pub(crate) fn recovered(dir: &Path) -> Result<Recovered, StorageError> {
    let dirs = DataDirs::unlocked(dir, dir);
    let recovery = RecoverySettings::new(testkit::LIMITS);
    let tree = Arc::new(TreeSettings::new(testkit::LIMITS));
    recover_tree(&RealDisk, &dirs, &recovery, tree).map(|found| found.recovered)
}
