//! The tree of a data directory, by the server's settings.

use std::sync::Arc;
use std::time::Instant;

use config::Config;
use storage::{DataDirs, RealDisk, Recovered, StorageError};

pub use recovery::RecoveredTree;

use crate::metrics::DatabaseLoad;
use crate::settings::{recovery_settings, tree_settings};

/// Loads the newest good snapshot and replays the log after it, as a server does when it starts.
///
/// # Errors
/// If data is damaged or missing; see [`storage::recover`].
pub fn recover_tree(config: &Config, dirs: &DataDirs) -> Result<RecoveredTree, StorageError> {
    let begun = Instant::now();
    let settings = Arc::new(tree_settings(config));
    let found = recovery::recover_tree(&RealDisk, dirs, &recovery_settings(config), settings)?;
    tracing::info!(
        zxid = %found.tree.last_zxid(),
        znodes = found.tree.node_count(),
        replayed = found.recovered.txns_replayed,
        digest_mismatches = found.digest_mismatches,
        elapsed_ms = begun.elapsed().as_millis(),
        "data recovered"
    );
    Ok(found)
}

/// A recovery as the metrics count it.
pub(crate) fn database_load(recovered: &Recovered) -> DatabaseLoad {
    DatabaseLoad {
        snapshot_time: recovered.snapshot_time,
        replay_time: recovered.replay_time,
        txns_replayed: recovered.txns_replayed,
    }
}
