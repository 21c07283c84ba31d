//! Threads for operators' requests, separate from the threads for clients.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, Sender, unbounded};
use tokio::sync::oneshot;

use crate::limits;

type Job = Box<dyn FnOnce() + Send>;

/// Handle for the threads, which stop when the last handle is dropped. The queue is unbounded, but
/// each port limits its requests, and so the number of waiting jobs.
#[derive(Debug, Clone)]
pub struct Workers(Sender<Job>);

/// Client for which work is done.
#[derive(Debug, Clone, Default)]
pub(crate) struct Requester(Arc<AtomicBool>);

impl Requester {
    /// Returns whether the client has disconnected, so that the rest of the work is not needed.
    pub(crate) fn is_gone(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns the flag that is set when the client has disconnected.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}

/// Error that the work was not completed: the server is stopping, or the work has panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotDone;

/// Guard that marks the requester as disconnected when the future of its answer is dropped.
struct Waiting(Requester);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

impl Workers {
    /// Starts the threads.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start() -> io::Result<Self> {
        let (jobs, queue) = unbounded();
        for number in 0..limits::ADMIN_THREADS {
            let queue = queue.clone();
            let thread = std::thread::Builder::new().name(format!("admin-{number}"));
            thread.spawn(move || work(&queue))?;
        }
        Ok(Self(jobs))
    }

    /// Runs work on a thread and returns its result. If the caller drops this future, the work
    /// continues until it checks the requester again. Move every permit for the work into the work,
    /// so that both end together.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Requester) -> T + Send + 'static,
    ) -> Result<T, NotDone> {
        let requester = Requester::default();
        let _waiting = Waiting(requester.clone());
        let (done, result) = oneshot::channel();
        let job = move || {
            if !requester.is_gone() {
                // Fails if the caller no longer waits.
                let _ = done.send(work(&requester));
            }
        };
        self.0.send(Box::new(job)).map_err(|_| NotDone)?;
        result.await.map_err(|_| NotDone)
    }

    /// Runs work without waiting for its result.
    pub(crate) fn discard(&self, work: impl FnOnce() + Send + 'static) {
        // This cannot fail: the threads end with the last handle, and `self` is a handle.
        let _ = self.0.send(Box::new(work));
    }
}

fn work(queue: &Receiver<Job>) {
    for job in queue {
        if catch_unwind(AssertUnwindSafe(job)).is_err() {
            tracing::error!("an admin request panicked and receives no reply");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;
    use std::time::Duration;

    use tokio::sync::Semaphore;

    use super::*;

    /// A client disconnects. The work detects that, and its permit is released only when the work
    /// has ended.
    #[tokio::test]
    async fn a_permit_lasts_as_long_as_its_work() {
        let workers = Workers::start().unwrap();
        let permits = Arc::new(Semaphore::new(1));
        let permit = permits.clone().acquire_owned().await.unwrap();
        let (begun, begins) = oneshot::channel();
        let (go_on, goes_on) = crossbeam_channel::bounded::<()>(0);
        {
            let mut work = pin!(workers.run(move |requester| {
                let _permit = permit;
                begun.send(()).unwrap();
                goes_on.recv().unwrap();
                while !requester.is_gone() {
                    std::thread::yield_now();
                }
            }));
            poll_fn(|cx| {
                assert!(work.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            begins.await.unwrap();
        }
        assert!(permits.try_acquire().is_err(), "the work still goes on");
        go_on.send(()).unwrap();
        let freed = tokio::time::timeout(Duration::from_secs(60), permits.acquire());
        assert!(
            freed.await.is_ok(),
            "the work does not see that nobody waits"
        );
    }

    #[tokio::test]
    async fn a_panic_costs_its_request_only() {
        let workers = Workers::start().unwrap();
        for _ in 0..2 * limits::ADMIN_THREADS {
            let work = workers.run(|_| assert_eq!(1, 2, "a fault"));
            assert_eq!(work.await, Err(NotDone));
        }
        assert_eq!(workers.run(|_| 7).await, Ok(7));
    }
}
