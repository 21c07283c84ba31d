//! Recovery of the tree from a data directory with the server's settings.

use std::sync::Arc;
use std::time::Instant;

use config::Config;
use host::{Recover, StartFiles};
use metrics::DatabaseLoad;
use storage::{DataDirs, Disk, RealDisk, Recovered, StorageError};

pub use recovery::RecoveredTree;

use crate::settings::{recovery_settings, tree_settings};

/// Loads the newest valid snapshot and replays the log after it.
///
/// # Errors
/// If data is corrupt or missing. See [`storage::recover`].
pub fn recover_tree(config: &Config, dirs: &DataDirs) -> Result<RecoveredTree, StorageError> {
    let begun = Instant::now();
    let settings = Arc::new(tree_settings(config));
    let found = recovery::recover_tree(&RealDisk, dirs, &recovery_settings(config), settings)?;
    log_recovered(&found, begun);
    Ok(found)
}

/// Recovers the tree when a server starts. If there are other voters, the server continues without
/// corrupt data and without a vote. Otherwise it cannot receive the data from a peer, so it fails.
pub(crate) fn recover_at_start<D: Disk>(
    config: &Config,
    files: &StartFiles<D>,
) -> Result<RecoveredTree, StorageError> {
    let recover: Recover<D> = if has_other_voters(config) {
        recovery::recover_member
    } else if storage::is_untrusted(&*files.disk, &files.dirs)? {
        let marker = storage::untrusted_marker(&files.dirs);
        return Err(StorageError::Untrusted { marker });
    } else {
        recovery::recover_tree
    };
    let begun = Instant::now();
    let found = files.recover(recover)?;
    log_recovered(&found, begun);
    Ok(found)
}

pub(crate) fn has_other_voters(config: &Config) -> bool {
    config.ensemble.as_ref().is_some_and(|ensemble| {
        let mut voters = ensemble.membership.participants();
        voters.any(|voter| voter.sid != ensemble.my_id)
    })
}

/// Logs the result of a recovery that began at `begun`.
pub(crate) fn log_recovered(found: &RecoveredTree, begun: Instant) {
    tracing::info!(
        zxid = %found.tree.last_zxid(),
        znodes = found.tree.node_count(),
        replayed = found.recovered.txns_replayed,
        digest_mismatches = found.digest_mismatches,
        elapsed_ms = begun.elapsed().as_millis(),
        "data recovered"
    );
}

/// Returns the metrics of a recovery.
pub(crate) fn database_load(recovered: &Recovered) -> DatabaseLoad {
    DatabaseLoad {
        snapshot_time: recovered.snapshot_time,
        replay_time: recovered.replay_time,
        txns_replayed: recovered.txns_replayed,
    }
}
