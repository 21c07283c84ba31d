//! The way from a worker of tokio to blocking work.

use tokio::task::JoinHandle;

use crate::{IS_WORKER, permit};

/// Runs blocking work on a thread of the runtime that exists for such work. The work continues when the handle is
/// dropped, so a permit that bounds it belongs into the closure.
#[allow(
    clippy::disallowed_methods,
    reason = "the wrapper that the lint asks for"
)]
pub fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    tokio::task::spawn_blocking(move || permit(work))
}

/// Blocking work at the end of a value that may be dropped on any thread. It runs on this thread unless that is a
/// worker.
pub fn discard(work: impl FnOnce() + Send + 'static) {
    match IS_WORKER.get() {
        true => drop(run(work)),
        false => work(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::{arm, mark};

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
