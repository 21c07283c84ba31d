//! Limit on requests in the pipeline (`globalOutstandingLimit`).

use tokio::sync::{Semaphore, SemaphorePermit};

/// Permits for requests in the pipeline. Each of these requests holds one permit until its reply.
///
/// A connection acquires the permits before it submits requests, and stops reading while no permits
/// are available. The client sees only TCP back-pressure. The core releases the permits with the
/// replies.
#[derive(Debug)]
pub struct Permits {
    semaphore: Semaphore,
    max: usize,
}

/// Permits that a waiter has received. Dropping them releases them.
#[derive(Debug)]
#[must_use]
pub struct TakenPermits<'a>(Option<SemaphorePermit<'a>>);

impl TakenPermits<'_> {
    /// Leaves the permits to the requests of the caller, which must be released with
    /// [`Permits::release`].
    pub fn keep(self) {
        if let Some(permits) = self.0 {
            permits.forget();
        }
    }
}

impl Permits {
    /// Creates `max` permits.
    pub fn new(max: usize) -> Self {
        Self {
            semaphore: Semaphore::new(max),
            max,
        }
    }

    /// Takes `count` permits without waiting. Returns whether all of them were available.
    pub fn take_now(&self, count: u32) -> bool {
        self.semaphore
            .try_acquire_many(count)
            .map(SemaphorePermit::forget)
            .is_ok()
    }

    /// Waits for `count` permits. The oldest waiter is served first.
    pub async fn take(&self, count: u32) -> TakenPermits<'_> {
        // The semaphore is never closed, so an error cannot occur. After an error, the requests
        // would be submitted without permits, and only their count would be wrong.
        TakenPermits(self.semaphore.acquire_many(count).await.ok())
    }

    /// Releases permits.
    pub fn release(&self, count: usize) {
        if count > 0 {
            self.semaphore.add_permits(count);
        }
    }

    /// Returns the number of requests in the pipeline.
    pub fn outstanding(&self) -> usize {
        self.max.saturating_sub(self.semaphore.available_permits())
    }
}
