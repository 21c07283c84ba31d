//! Threads that run until the process ends, and single-threaded runtimes.

use std::thread;

use tokio::runtime::Runtime;

use crate::error::{BenchError, Result};

/// Starts a detached thread, which runs until its work or the process ends.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned.map(drop).map_err(BenchError::io("start a thread"))
}

/// Returns a single-threaded runtime, which runs on the thread that blocks on it.
pub(crate) fn runtime() -> Result<Runtime> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build();
    runtime.map_err(BenchError::io("start a runtime"))
}
