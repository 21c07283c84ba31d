//! Throttle at which requests wait before the pipeline (`globalOutstandingLimit`,
//! `request_throttle_*`).
//!
//! Without `request_throttle_max_requests`, only writes need a permit of the pipeline, and they
//! wait only for the permit. With this key, every request needs a permit. A waiting request may
//! then be dropped as stale, because its client has disconnected or because it waited longer than
//! its session timeout.
//!
//! Source: RequestThrottler, Request.isStale.

use std::io;
use std::pin::pin;
use std::time::Duration;

use admission::{Ledger, Permits, RequestThrottle};
use host::SharedConnection as _;
use metrics::Metrics;
use metrics::audit::AuditLog;
use proto::OpCode;
use tokio::time::Instant;

use crate::connection::Connection;
use crate::connection::socket::{
    Socket, Stream, fill, flush, give_back_during, run_while_flushing,
};
use crate::limits;
use crate::requests::batch::Batch;
use crate::requests::context::{ConnectionContext, RequestContext};

/// Result of a batch's wait.
#[derive(Debug, PartialEq, Eq)]
enum WaitResult {
    /// The batch has received its permits.
    Taken,
    /// The connection ends, and its requests are dropped.
    Dropped,
}

impl ConnectionContext {
    /// Stops admitting requests, and waits for a limited time until no more requests wait. Called
    /// when the server stops.
    pub async fn stop_admitting(&self) {
        let RequestContext {
            settings, ledger, ..
        } = &self.requests;
        stop_admitting(&ledger.request_throttle, settings.throttle_shutdown_timeout).await;
    }
}

/// Stops admitting requests, and waits up to `patience` until no more requests wait.
async fn stop_admitting(throttle: &RequestThrottle, patience: Duration) {
    throttle.begin_stop();
    let drained = tokio::time::timeout(patience, throttle.drained());
    if throttle.is_on && drained.await.is_err() {
        tracing::warn!(
            connections = throttle.waiting(),
            "dropping the requests that still wait after request_throttler.shutdownTimeout"
        );
    }
}

fn permits_needed(throttle: &RequestThrottle, batch: &Batch) -> usize {
    if throttle.is_on {
        batch.requests.len()
    } else {
        batch.writes
    }
}

/// Takes the permits of the batch if all of them are available. Returns whether it has them.
fn take_permits_now(ledger: &Ledger, batch: &mut Batch) -> bool {
    let needed = permits_needed(&ledger.request_throttle, batch);
    let places = u32::try_from(needed).unwrap_or(u32::MAX);
    let is_taken = places == 0 || ledger.permits.take_now(places);
    if is_taken {
        batch.permits = needed;
    }
    is_taken
}

/// Acquires a pipeline permit for each request of the batch that needs a permit. Sends replies that
/// are produced meanwhile without delay. Empties the batch if the connection ends first.
pub(crate) async fn take_permits<S: Stream>(
    context: &RequestContext,
    connection: &Connection,
    socket: &mut Socket<S>,
    batch: &mut Batch,
) -> io::Result<()> {
    let RequestContext {
        answers,
        ledger,
        metrics,
        ..
    } = context;
    let audit = answers.audit.as_deref();
    if !wait_for_audit(audit, ledger, connection, socket, batch).await? {
        *batch = Batch::default();
        connection.close();
        return Ok(());
    }
    let throttle = &ledger.request_throttle;
    if throttle.is_on && throttle.is_stopping() {
        tracing::debug!(peer = %connection.peer, session = %connection.session(), "the server is stopping, dropping a request");
        *batch = Batch::default();
        connection.close();
        return Ok(());
    }
    if take_permits_now(ledger, batch) {
        return Ok(());
    }
    let needed = permits_needed(throttle, batch);
    let places = u32::try_from(needed).unwrap_or(u32::MAX);
    let waits_since = Instant::now();
    let is_waiting = throttle.wait();
    let waited = wait(ledger, metrics, connection, socket, batch, places).await?;
    drop(is_waiting);
    if waited == WaitResult::Dropped {
        *batch = Batch::default();
        return Ok(());
    }
    batch.permits = needed;
    let waited = waits_since.elapsed();
    if throttle.counts_late && is_late(connection, waited) {
        metrics.stale_requests.add(needed as u64);
    }
    let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
    let metric = &metrics.request_throttle_queue_time_ms;
    metric.record_many(waited_ms, places.into());
    let late_after = context.settings.throttled_after;
    batch.is_late = late_after.is_some_and(|after| waited > after);
    Ok(())
}

/// Waits until the audit log can accept the batch's lines. Returns false if the connection ends
/// first.
async fn wait_for_audit<S: Stream>(
    audit: Option<&AuditLog>,
    ledger: &Ledger,
    connection: &Connection,
    socket: &mut Socket<S>,
    batch: &Batch,
) -> io::Result<bool> {
    let Some(audit) = audit.filter(|_| batch.is_audited()) else {
        return Ok(true);
    };
    if audit.has_room_now() {
        return Ok(true);
    }
    let found = Box::pin(run_while_flushing(
        ledger,
        connection,
        socket,
        audit.has_room(),
    ))
    .await?;
    Ok(found.is_some())
}

/// Waits for `places` permits. Connections are served in the order in which they began to wait.
async fn wait<S: Stream>(
    ledger: &Ledger,
    metrics: &Metrics,
    connection: &Connection,
    socket: &mut Socket<S>,
    batch: &Batch,
    places: u32,
) -> io::Result<WaitResult> {
    let throttle = &ledger.request_throttle;
    let since = Instant::now();
    // A closeSession is executed even if its client has disconnected.
    let first = batch.requests.front().and_then(|first| first.kind.op());
    let may_drop = first != Some(OpCode::CloseSession);
    let mut is_open = true;
    metrics.request_throttle_wait_count.inc();
    let mut taken = pin!(ledger.permits.take(places));
    loop {
        let flushing = flush(ledger, connection, socket);
        let (flushed, is_dropped) = give_back_during(flushing, taken.as_mut()).await;
        if flushed?.is_break() {
            return Ok(WaitResult::Dropped);
        }
        if is_dropped {
            taken.set(ledger.permits.take(places));
        }
        let has_room = socket.input.len() < limits::READ_CHUNK_BYTES;
        let looks_for_end = throttle.drops_closed && may_drop && is_open && has_room;
        let stalls = throttle.is_on.then_some(throttle.stall_time);
        tokio::select! {
            biased;
            permits = &mut taken => {
                permits.keep();
                return Ok(WaitResult::Taken);
            }
            () = connection.wait_for_wake() => {}
            read = fill(socket), if looks_for_end => is_open = read.unwrap_or(false),
            () = tokio::time::sleep(stalls.unwrap_or_default()), if stalls.is_some() => {
                metrics.request_throttle_wait_count.inc();
            }
        }
        if connection.is_closed() {
            return Ok(WaitResult::Dropped);
        }
        let is_gone = throttle.drops_closed && !is_open;
        let is_late = throttle.drops_late && is_late(connection, since.elapsed());
        if may_drop && (is_gone || is_late) {
            tracing::debug!(peer = %connection.peer, session = %connection.session(), is_gone, "dropping a stale request, closing connection");
            metrics.stale_requests_dropped.inc();
            connection.close();
            return Ok(WaitResult::Dropped);
        }
    }
}

fn is_late(connection: &Connection, waited: Duration) -> bool {
    let timeout_ms = u64::try_from(connection.timeout_ms()).unwrap_or(0);
    waited > Duration::from_millis(timeout_ms)
}

pub(crate) fn release(permits: &Permits, batch: &mut Batch) {
    permits.release(std::mem::take(&mut batch.permits));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn throttle() -> RequestThrottle {
        RequestThrottle::new(&config::RequestThrottle {
            max_requests: Some(1),
            stall_time_ms: 100,
            drop_stale: true,
            stale_connection_check: true,
            stale_latency_check: false,
            throttled_op_wait_time_ms: None,
            shutdown_timeout_ms: 10_000,
        })
    }

    #[tokio::test]
    async fn a_stop_waits_for_waiting_requests_up_to_its_limit() {
        let throttle = Arc::new(throttle());
        let waiting = throttle.clone();
        let (entered, is_in) = tokio::sync::oneshot::channel();
        let (leave, may_leave) = tokio::sync::oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let guard = waiting.wait();
            entered.send(()).unwrap();
            may_leave.await.unwrap();
            drop(guard);
        });
        is_in.await.unwrap();
        let hour = Duration::from_secs(3600);
        // The request still waits, so this call ends at its time limit.
        stop_admitting(&throttle, Duration::from_millis(1)).await;
        assert!(throttle.is_stopping());
        let stopped = stop_admitting(&throttle, hour);
        leave.send(()).unwrap();
        stopped.await;
        task.await.unwrap();
        assert_eq!(throttle.waiting(), 0);
        stop_admitting(&throttle, hour).await;
    }
}
