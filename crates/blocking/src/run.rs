//! Blocking work from a worker of tokio.

use tokio::task::JoinHandle;

use crate::{IS_WORKER, permit};

/// Runs blocking work on a thread of the runtime that exists for such work. The work continues when
/// the handle is dropped, so the closure must own any permit that limits the work.
#[allow(
    clippy::disallowed_methods,
    reason = "this is the wrapper that the lint recommends"
)]
pub fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    tokio::task::spawn_blocking(move || permit(work))
}

/// Runs blocking work on this worker, after another thread of the runtime has become the worker in
/// its place. That thread continues all tasks except the calling one. Use this function only for
/// work for which a client waits. Compared with [`run`], it saves one wake-up.
///
/// # Panics
/// On a current-thread runtime of tokio.
#[allow(
    clippy::disallowed_methods,
    reason = "this is the wrapper that the lint recommends"
)]
pub fn in_place<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(|| permit(work))
}

/// Runs blocking work on the current thread or, if this thread is a worker, on a thread of the
/// runtime that may block. Used when a value is dropped, which may happen on any thread.
pub fn discard(work: impl FnOnce() + Send + 'static) {
    if IS_WORKER.get() {
        drop(run(work));
    } else {
        work();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::{arm, mark};

    #[test]
    fn the_other_tasks_of_a_worker_run_while_it_works_in_place() {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).on_thread_start(arm).build();
        let runtime = runtime.expect("a runtime");
        let task = runtime.spawn(async {
            let (sender, other) = mpsc::channel();
            tokio::spawn(async move { sender.send(()) });
            in_place(|| {
                mark("a file");
                other.recv_timeout(Duration::from_secs(30))
            })
        });
        let received = runtime.block_on(task).expect("the worker may do this");
        received.expect("the other task runs");
    }

    #[test]
    fn work_of_a_worker_runs_on_a_thread_that_may_block() {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).on_thread_start(arm).build();
        let runtime = runtime.expect("a runtime");
        let (sender, discarded) = mpsc::channel();
        let task = runtime.spawn(async move {
            assert!(IS_WORKER.get());
            discard(move || {
                mark("a file");
                sender.send(()).expect("the test waits");
            });
            run(|| mark("a file")).await.expect("it does not panic");
            mark("a file");
        });
        assert!(runtime.block_on(task).is_err(), "the worker must not block");
        discarded
            .recv_timeout(Duration::from_secs(30))
            .expect("it has run");
    }
}
