//! The bound on requests in the pipeline (`globalOutstandingLimit`).

use tokio::sync::Semaphore;

/// One permit for each request between its connection and its reply.
///
/// A connection takes the permits before it hands requests over and stops reading while there
/// are none: the client sees TCP back-pressure and nothing else. The core gives them back with
/// the replies.
pub(crate) struct Permits {
    semaphore: Semaphore,
    max: usize,
}

impl Permits {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            semaphore: Semaphore::new(max),
            max,
        }
    }

    /// Takes `count` permits if they are there.
    pub(crate) fn take_now(&self, count: u32) -> bool {
        self.semaphore
            .try_acquire_many(count)
            .map(tokio::sync::SemaphorePermit::forget)
            .is_ok()
    }

    /// Waits for `count` permits; whoever waits longest is served first.
    pub(crate) async fn take(&self, count: u32) {
        // The semaphore is never closed, so an error cannot happen; without permits the request
        // would only be counted wrongly.
        if let Ok(permits) = self.semaphore.acquire_many(count).await {
            permits.forget();
        }
    }

    /// Gives permits back.
    pub(crate) fn give_back(&self, count: usize) {
        if count > 0 {
            self.semaphore.add_permits(count);
        }
    }

    /// Requests in the pipeline.
    pub(crate) fn outstanding(&self) -> usize {
        self.max.saturating_sub(self.semaphore.available_permits())
    }
}
