//! Requests that wait before the pipeline (`request_throttle_*`).

use std::sync::atomic::Ordering;
use std::time::Duration;

use executor::sync::{AtomicBool, AtomicUsize};
use tokio::sync::Notify;

/// Settings for waiting requests, and the number of waiting batches.
#[derive(Debug)]
pub struct RequestThrottle {
    /// Whether reads need a permit, too (`request_throttle_max_requests`).
    pub is_on: bool,
    /// Interval between checks of a waiting batch.
    pub stall_time: Duration,
    /// Whether to drop requests of disconnected clients.
    pub drops_closed: bool,
    /// Whether to drop requests that wait longer than their session timeout.
    pub drops_late: bool,
    /// Whether to count requests that wait longer than their session timeout.
    pub counts_late: bool,
    waiting: AtomicUsize,
    is_stopping: AtomicBool,
    drained: Notify,
}

/// Guard that counts a batch as waiting.
#[derive(Debug)]
pub struct WaitingBatch<'a>(&'a RequestThrottle);

impl RequestThrottle {
    /// Creates a throttle without waiting requests.
    pub fn new(settings: &config::RequestThrottle) -> Self {
        let is_on = settings.max_requests.is_some();
        let drops = is_on && settings.drop_stale;
        Self {
            is_on,
            stall_time: Duration::from_millis(settings.stall_time_ms.into()),
            drops_closed: drops && settings.stale_connection_check,
            drops_late: drops && settings.stale_latency_check,
            counts_late: settings.stale_latency_check,
            waiting: AtomicUsize::new(0),
            is_stopping: AtomicBool::new(false),
            drained: Notify::new(),
        }
    }

    /// Counts a batch as waiting until the guard is dropped.
    pub fn wait(&self) -> WaitingBatch<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        WaitingBatch(self)
    }

    /// Returns the number of waiting batches.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// Stops admitting requests. Called when the server stops.
    pub fn begin_stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
    }

    /// Returns whether requests are no longer admitted.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    /// Waits until no batch waits.
    pub async fn drained(&self) {
        while self.waiting() > 0 {
            self.drained.notified().await;
        }
    }
}

impl Drop for WaitingBatch<'_> {
    fn drop(&mut self) {
        if self.0.waiting.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.drained.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn throttle(max_requests: Option<u32>) -> RequestThrottle {
        RequestThrottle::new(&config::RequestThrottle {
            max_requests,
            stall_time_ms: 100,
            drop_stale: true,
            stale_connection_check: true,
            stale_latency_check: false,
            throttled_op_wait_time_ms: None,
            shutdown_timeout_ms: 10_000,
        })
    }

    #[test]
    fn nothing_is_dropped_without_a_throttle() {
        assert!(!throttle(None).drops_closed);
        assert!(throttle(Some(1)).drops_closed);
    }
}
