//! Periodic removal of old files, which does not concern the replica.

use std::sync::Arc;
use std::time::Duration;

use jute::Limits;
use storage::{DataDirs, Disk};
use tokio::time::{MissedTickBehavior, interval};

/// Removes snapshots and logs that are no longer needed, first immediately and then after each
/// interval `every`. Runs until aborted.
pub(crate) async fn purge<D: Disk>(
    disk: Arc<D>,
    dirs: DataDirs,
    limits: Limits,
    retain: usize,
    every: Duration,
) {
    let mut rounds = interval(every);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        let (disk, dirs) = (disk.clone(), dirs.clone());
        let purged = blocking::run(move || storage::purge(&*disk, &dirs, retain, limits));
        match purged.await {
            Ok(Ok(removed)) => {
                tracing::info!(files = removed.len(), retain, "purge task completed");
            }
            Ok(Err(error)) => tracing::error!(err = %error, "purge failed"),
            Err(error) => tracing::error!(err = %error, "purge task panicked"),
        }
    }
}
