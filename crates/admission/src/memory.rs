//! Memory that all connections of a server share. Each connection reserves the bytes that it needs,
//! or waits for its turn.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use executor::sync::AtomicUsize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::MEMORY_PATIENCE;

/// Memory budget in bytes, with the number of connections that wait for it.
#[derive(Debug, Clone)]
pub struct MemoryBudget {
    free: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    max: usize,
}

/// Reservation of memory. Dropping it releases the bytes.
#[derive(Debug)]
pub struct MemoryReservation {
    /// Number of requested bytes. It may exceed the whole budget.
    pub bytes: usize,
    permit: Option<OwnedSemaphorePermit>,
}

/// Guard that counts a connection as waiting until the wait ends or is cancelled.
struct WaitGuard<'a>(&'a AtomicUsize);

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl MemoryBudget {
    /// Creates a budget of `max` bytes, all of which are free.
    pub fn new(max: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(max)),
            waiting: Arc::default(),
            max,
        }
    }

    /// Reserves `bytes` if they are available.
    pub fn take_now(&self, bytes: usize) -> Option<MemoryReservation> {
        let permit = self
            .free
            .clone()
            .try_acquire_many_owned(self.permits_needed(bytes));
        permit.ok().map(|permit| MemoryReservation {
            bytes,
            permit: Some(permit),
        })
    }

    /// Waits until `bytes` can be reserved. The oldest waiter is served first. A request for more
    /// than the whole budget receives the whole budget.
    pub async fn take(&self, bytes: usize) -> MemoryReservation {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = WaitGuard(&self.waiting);
        let permit = self
            .free
            .clone()
            .acquire_many_owned(self.permits_needed(bytes));
        // The semaphore is never closed, so a permit is always returned.
        let permit = permit.await.ok();
        MemoryReservation { bytes, permit }
    }

    /// Releases bytes that [`MemoryReservation::into_bytes`] returned, for one request or for
    /// several.
    pub fn release(&self, bytes: usize) {
        self.free.add_permits(bytes);
    }

    /// Resolves when a client has held a reservation of `bytes` for too long and others wait.
    /// `held_for` is the time for which the client has already held it. `sleep` waits for a given
    /// time.
    pub async fn needed_by_others<S: Future<Output = ()>>(
        &self,
        bytes: usize,
        held_for: Duration,
        sleep: impl Fn(Duration) -> S,
    ) {
        let mebibytes = u32::try_from(bytes >> 20).unwrap_or(u32::MAX);
        let patience = MEMORY_PATIENCE.saturating_mul(mebibytes.saturating_add(1));
        sleep(patience.saturating_sub(held_for)).await;
        while self.waiting.load(Ordering::Relaxed) == 0 {
            sleep(MEMORY_PATIENCE / 10).await;
        }
    }

    /// Returns the number of free bytes.
    pub fn free(&self) -> usize {
        self.free.available_permits()
    }

    /// Returns the number of permits that a reservation of `bytes` needs.
    fn permits_needed(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.min(self.max)).unwrap_or(u32::MAX)
    }
}

impl MemoryReservation {
    /// Returns the number of reserved bytes. The caller must release them with
    /// [`MemoryBudget::release`].
    pub fn into_bytes(self) -> usize {
        let Some(permit) = self.permit else {
            return 0;
        };
        let bytes = permit.num_permits();
        permit.forget();
        bytes
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use executor::sync::Mutex;

    use super::*;

    const MAX: usize = 10_000;

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn memory_is_shared_and_awaited_in_order() {
        let shared = MemoryBudget::new(MAX);
        let room = shared.take_now(MAX - 1).unwrap();
        assert!(shared.take_now(2).is_none());
        let mut huge = pin!(shared.take(MAX * 5));
        assert!(poll(huge.as_mut()).is_pending());
        let mut small = pin!(shared.take(1));
        assert!(
            poll(small.as_mut()).is_pending(),
            "nobody overtakes a longer one"
        );
        drop(room);
        let Poll::Ready(room) = poll(huge.as_mut()) else {
            panic!("alone, the longest has room")
        };
        assert_eq!(room.bytes, MAX * 5);
        assert!(poll(small.as_mut()).is_pending());
        let bytes = room.into_bytes();
        assert_eq!(bytes, MAX);
        assert!(poll(small.as_mut()).is_pending(), "it is kept");
        shared.release(bytes);
        assert!(poll(small.as_mut()).is_ready());
    }

    #[test]
    fn memory_is_reclaimed_from_slow_connections_while_others_wait() {
        let shared = MemoryBudget::new(MAX);
        let slept = Mutex::new(Vec::new());
        // Each sleep ends when it is polled again.
        let sleep = |time: Duration| {
            slept.lock().push(time);
            let mut is_over = false;
            poll_fn(move |_| {
                if std::mem::replace(&mut is_over, true) {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
        };
        let second = Duration::from_secs(1);
        let mut wanted = pin!(shared.needed_by_others(MAX, second, sleep));
        for _ in 0..3 {
            assert!(poll(wanted.as_mut()).is_pending(), "nobody waits");
        }
        let pause = MEMORY_PATIENCE / 10;
        assert_eq!(*slept.lock(), [MEMORY_PATIENCE - second, pause, pause]);
        let room = shared.take_now(MAX).unwrap();
        {
            let mut given_up = pin!(shared.take(1));
            assert!(poll(given_up.as_mut()).is_pending());
        }
        assert!(poll(wanted.as_mut()).is_pending(), "nobody waits any more");
        let mut other = pin!(shared.take(1));
        assert!(poll(other.as_mut()).is_pending());
        assert!(poll(wanted.as_mut()).is_ready());
        slept.lock().clear();
        let mut wanted = pin!(shared.needed_by_others(3 << 20, Duration::ZERO, sleep));
        assert!(poll(wanted.as_mut()).is_pending());
        assert!(poll(wanted.as_mut()).is_ready());
        assert_eq!(*slept.lock(), [MEMORY_PATIENCE * 4], "by its length");
        drop(room);
    }
}
