//! Functions that keep blocking work off the workers of an async runtime.
//!
//! A worker that waits for a disk can stop every socket and timer of the server, because it may
//! hold the runtime's only driver. Blocking work is a file operation, a sync, a name lookup, or a
//! wait for a lock that another thread holds during such work.
//!
//! - [`mark`] marks the beginning of such work.
//! - [`arm`] marks a thread as a worker. A runtime calls this function when it starts a thread.
//! - [`files`] creates files and directories with the modes for data. This is blocking work, too.
//! - `run`, `in_place` and `discard` (feature `tokio`) are the only functions with which a worker
//!   may start blocking work. The runtime starts its blocking threads with the same hook as its
//!   workers, so these functions disarm the thread during the work.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

pub mod files;
#[cfg(feature = "tokio")]
mod run;
#[cfg(feature = "tokio")]
pub use run::{discard, in_place, run};

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

static ON_WORKERS: AtomicU64 = AtomicU64::new(0);

/// Beginning of the panic message. Tests search the output of servers for it.
pub const MESSAGE: &str = "blocking work on a runtime worker";

/// Marks the calling thread as a worker, which must not block.
pub fn arm() {
    IS_WORKER.set(true);
}

/// Marks the beginning of blocking work.
///
/// # Panics
/// On a worker, in a debug build, unless the thread is already panicking. In every build,
/// [`on_workers`] counts the call.
#[inline]
#[track_caller]
pub fn mark(work: &str) {
    if IS_WORKER.get() {
        found_on_worker(work);
    }
}

#[cold]
#[track_caller]
fn found_on_worker(work: &str) {
    ON_WORKERS.fetch_add(1, Ordering::Relaxed);
    // A second panic would end the process and hide the first one.
    assert!(
        !cfg!(debug_assertions) || std::thread::panicking(),
        "{MESSAGE}: {work}"
    );
}

/// Returns the number of times that blocking work ran on a worker of this process.
pub fn on_workers() -> u64 {
    ON_WORKERS.load(Ordering::Relaxed)
}

/// Runs blocking work on this thread, even if the thread may be a worker. Used on threads that
/// exist for such work, and in the last moments of a process.
pub fn permit<T>(work: impl FnOnce() -> T) -> T {
    struct Rearm(bool);
    impl Drop for Rearm {
        fn drop(&mut self) {
            IS_WORKER.set(self.0);
        }
    }
    let _rearm = Rearm(IS_WORKER.replace(false));
    work()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_mark_panics_on_a_worker_and_nowhere_else() {
        mark("a file");
        let before = on_workers();
        let worker = thread::spawn(|| {
            arm();
            permit(|| mark("a file"));
            mark("a file");
        });
        assert!(worker.join().is_err());
        assert!(on_workers() > before);
        mark("a file");
    }

    #[test]
    fn a_thread_is_armed_again_after_work_that_panics() {
        let worker = thread::spawn(|| {
            arm();
            let work = std::panic::catch_unwind(|| permit(|| panic!("the work fails")));
            assert!(work.is_err());
            assert!(IS_WORKER.get());
        });
        worker.join().expect("it is armed");
    }
}
