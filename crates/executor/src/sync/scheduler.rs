//! The scheduler of a test, which decides which thread of a model runs.

use std::cell::Cell;

/// Functions of a scheduler that runs all threads of a model on one thread of the process.
#[derive(Debug, Clone, Copy)]
pub struct Scheduler {
    /// Called where another thread of the model may run.
    pub point: fn(),
    /// Called where another thread of the model must run, because the calling one waits for it.
    pub wait: fn(),
}

thread_local! {
    static SCHEDULER: Cell<Option<Scheduler>> = const { Cell::new(None) };
}

/// Calls `model`, and lets the scheduler decide at each operation of a lock or of an atomic.
pub fn scheduled_by<T>(scheduler: Scheduler, model: impl FnOnce() -> T) -> T {
    /// Removes the scheduler, also after a panic.
    struct Scheduled;

    impl Drop for Scheduled {
        fn drop(&mut self) {
            SCHEDULER.set(None);
        }
    }

    SCHEDULER.set(Some(scheduler));
    let _scheduled = Scheduled;
    model()
}

/// Returns whether a scheduler decides on this thread of the process. A thread that panics runs to
/// its end.
pub(super) fn is_scheduled() -> bool {
    SCHEDULER.get().is_some() && !std::thread::panicking()
}

/// Lets another thread of the model run.
pub(super) fn point() {
    if let Some(scheduler) = SCHEDULER.get()
        && !std::thread::panicking()
    {
        (scheduler.point)();
    }
}

/// Waits for another thread of the model.
pub(super) fn wait() {
    if let Some(scheduler) = SCHEDULER.get()
        && !std::thread::panicking()
    {
        (scheduler.wait)();
    }
}
