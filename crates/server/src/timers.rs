//! What happens by the clock: sessions expire, containers go, old files are purged.

use std::sync::Arc;
use std::time::Duration;

use proto::SessionId;
use proto::request::WriteRequest;
use storage::{DataDirs, RealDisk};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::clock;
use crate::pipeline::Submission;
use crate::shared::Shared;

/// Ends sessions whose time is up. Runs until aborted.
pub(crate) async fn expire_sessions(shared: Arc<Shared>) {
    let mut ticks = interval(Duration::from_millis(shared.settings.tick_ms));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // Buckets end at multiples of the tick, so there is nothing to see in between.
        let now = clock::session_ms();
        let next = shared.sessions.lock().next_deadline();
        let pause = next.map_or(0, |deadline| deadline - now);
        match u64::try_from(pause) {
            Ok(pause) if pause > 0 => {
                let tick = shared.settings.tick_ms;
                sleep(Duration::from_millis(pause.min(tick))).await;
            }
            _ => {
                ticks.tick().await;
            }
        }
        let expired = shared.sessions.lock().expire(clock::session_ms());
        for session in expired.local {
            tracing::info!(%session, "local session expires");
            shared.metrics.stale_sessions_expired.inc();
            shared.registry.close_session_connection(session);
        }
        for session in expired.global {
            tracing::info!(%session, "session expires");
            shared.metrics.stale_sessions_expired.inc();
            submit(&shared, session, WriteRequest::CloseSession).await;
        }
    }
}

/// Removes empty containers and expired TTL znodes. Runs until aborted.
///
/// Source: ContainerManager, client-protocol.md section 12.
pub(crate) async fn sweep_containers(shared: Arc<Shared>) {
    let settings = shared.settings.containers;
    let mut rounds = interval(settings.check_interval);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    rounds.tick().await;
    loop {
        rounds.tick().await;
        if !shared.role.get().expires_sessions() {
            // Another server's business.
            continue;
        }
        let never_used_ms = settings.max_never_used_ms;
        let candidates = shared
            .tree
            .read()
            .expired_candidates(clock::wall_ms(), never_used_ms);
        for path in candidates {
            tracing::info!(path = &*path, "container or TTL znode is deleted");
            submit(
                &shared,
                SessionId::NONE,
                WriteRequest::DeleteContainer { path },
            )
            .await;
            sleep(settings.min_spacing).await;
        }
    }
}

/// A transaction of the server's own.
async fn submit(shared: &Arc<Shared>, session: SessionId, request: WriteRequest) {
    shared.permits.take(1).await;
    shared.submit(Submission {
        origin: None,
        session,
        cxid: 0,
        received_ms: clock::monotonic_ms(),
        identities: Arc::from([]),
        request,
        body: bytes::Bytes::new(),
        large: None,
        upgrade_ms: None,
    });
}

/// Removes snapshots and logs that are no longer needed, now and every `every`. Runs until
/// aborted.
pub(crate) async fn purge(
    shared: Arc<Shared>,
    disk: Arc<RealDisk>,
    dirs: DataDirs,
    retain: usize,
    every: Duration,
) {
    let limits = shared.settings.field_limits;
    let mut rounds = interval(every);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        let (disk, dirs) = (disk.clone(), dirs.clone());
        let purged =
            tokio::task::spawn_blocking(move || storage::purge(&*disk, &dirs, retain, limits));
        match purged.await {
            Ok(Ok(removed)) => {
                tracing::info!(files = removed.len(), retain, "purge task completed");
            }
            Ok(Err(error)) => tracing::error!(err = %error, "purge failed"),
            Err(error) => tracing::error!(err = %error, "purge task ended early"),
        }
    }
}

/// Ends sessions that own ephemerals but are not in the recovered state: by a transaction, so
/// that what the log says and what the tree holds stay the same.
pub(crate) async fn end_orphans(shared: Arc<Shared>, orphans: Vec<SessionId>) {
    for session in orphans {
        tracing::warn!(%session, "ephemeral znodes of a session that is gone are deleted");
        submit(&shared, session, WriteRequest::CloseSession).await;
    }
}
